"""Read a graph's arrows from text: as people type them, or in Graphviz's DOT language.

Typed, statements end with a line, a semicolon or a comma, and chains may turn round::

    C -> X1 <- X2 -> S; X1 -> Y   # a comment

In DOT (``digraph { ... }``, also DAGitty's ``dag { ... }``) node statements, chains, subgraphs, quoted
names, ports and comments are read and attributes are passed over; HTML labels are refused. networkx can
read DOT only through pydot or pygraphviz, which bring Graphviz along; arrows need none of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from evenodds.errors import GraphError

Edge = tuple[str, str]

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\f\ufeff]+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
    |(?P<line>\n)
    |(?P<arrow><->|<-|->|--|[←→↔])
    |(?P<mark>[;,{}\[\]=:])
    |(?P<quoted>"(?:[^"\\]|\\.)*")
    |(?P<name>-?[\w.]+(?:-(?!>|-)[\w.]+)*)
    |(?P<wrong>.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_ARROWS = {"→": "->", "←": "<-", "↔": "<->"}
_KINDS = ("digraph", "dag", "graph")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int

    @property
    def where(self) -> str:
        return f"line {self.line}, column {self.column}"


_END = _Token("end", "", 0, 0)


def parse_edges(text: str) -> tuple[list[str], list[Edge]]:
    """Return the variables in order of appearance, and the arrows.

    >>> parse_edges("C -> X1 <- X2 -> S; X1 -> Y")
    (['C', 'X1', 'X2', 'S', 'Y'], [('C', 'X1'), ('X2', 'X1'), ('X2', 'S'), ('X1', 'Y')])
    >>> parse_edges('digraph { C -> {"X 1" Y} [color=red] }')
    (['C', 'X 1', 'Y'], [('C', 'X 1'), ('C', 'Y')])
    """
    return _Parser(text).read()


def looks_like_edges(text: str) -> bool:
    """Whether a text holds arrows, and so is no file name."""
    return any(mark in text for mark in ("->", "<-", "--", "{", "\n", "→", "←"))


class _Parser:
    """Reads statements left to right; knows where it stands, for errors."""

    def __init__(self, text: str) -> None:
        tokens = list(_tokens(text))
        self.typed = not self._takes_header([token for token in tokens if token.kind != "line"])
        # Lines end statements only where people type them.
        self.tokens = tokens if self.typed else [token for token in tokens if token.kind != "line"]
        self.place = 0
        self.nodes: dict[str, None] = {}
        self.edges: dict[Edge, None] = {}

    def read(self) -> tuple[list[str], list[Edge]]:
        if self.typed:
            self._statements(closed_by=None)
        else:
            while self._next().text != "{":
                pass
            self._statements(closed_by="}")
            if self._peek() is not _END:
                raise self._unexpected("expected nothing after the closing brace")
        return list(self.nodes), list(self.edges)

    @staticmethod
    def _takes_header(tokens: list[_Token]) -> bool:
        words = [token.text.lower() for token in tokens[:4]]
        words = words[1:] if words[:1] == ["strict"] else words
        header = bool(words) and words[0] in _KINDS and "{" in words[1:3]
        if header and words[0] == "graph":
            raise GraphError(
                "an undirected graph says nothing about causes; expected digraph { ... }",
                hint="arrows are written C -> Y",
            )
        return header

    def _peek(self) -> _Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else _END

    def _next(self) -> _Token:
        token = self._peek()
        self.place += 1
        return token

    def _unexpected(self, expected: str) -> GraphError:
        token = self._peek()
        if token is _END:
            return GraphError(f"the graph ends too early: {expected}")
        found = "the end of the line" if token.kind == "line" else repr(token.text)
        hint = "HTML labels are not read: use plain ones" if token.text == "<" else None
        return GraphError(f"cannot read the graph at {token.where}: {expected}, found {found}", hint=hint)

    def _statements(self, closed_by: str | None) -> list[str]:
        seen: dict[str, None] = {}
        while True:
            while self._peek().kind == "line" or self._peek().text in {";", ","}:
                self._next()
            if self._peek() is _END and closed_by is None:
                return list(seen)
            if self._peek().text == closed_by:
                self._next()
                return list(seen)
            seen.update(dict.fromkeys(self._statement()))
            ended = self._peek().kind in {"line", "end"} or self._peek().text in {";", ",", closed_by}
            if self.typed and not ended:
                raise self._unexpected("expected an arrow, or ';' before the next statement")

    def _statement(self) -> list[str]:
        if self._passes_over_attributes():
            return []
        left = self._operand()
        seen = list(left)
        while self._peek().kind == "arrow":
            arrow = self._arrow()
            while self._peek().kind == "line":  # a chain may go on in the next line
                self._next()
            right = self._operand()
            pairs = product(left, right) if arrow == "->" else product(right, left)
            self.edges.update(dict.fromkeys(pairs))
            seen += right
            left = right
        while self._peek().text == "[":
            self._skip_list()
        return seen

    def _passes_over_attributes(self) -> bool:
        """Skip ``node [shape=box]`` and ``rankdir=LR``."""
        if self.typed or self._peek().kind not in {"name", "quoted"}:
            return False
        after = self.tokens[self.place + 1] if self.place + 1 < len(self.tokens) else _END
        if after.text == "[" and self._peek().text.lower() in {"graph", "node", "edge"}:
            self._next()
            self._skip_list()
            return True
        if after.text == "=":
            self.place += 2
            if self._next().kind not in {"name", "quoted"}:
                self.place -= 1
                raise self._unexpected("expected an attribute's value")
            return True
        return False

    def _arrow(self) -> str:
        token = self._next()
        text = _PLAIN_ARROWS.get(token.text, token.text)
        if text in {"--", "<->"}:
            what = "an undirected edge" if text == "--" else "an edge with two heads"
            self.place -= 1
            raise GraphError(
                f"cannot read the graph at {token.where}: {what}, {token.text!r}",
                hint="name the common cause, U -> A; U -> B"
                if text == "<->"
                else "arrows are written C -> Y",
            )
        return text

    def _operand(self) -> list[str]:
        token = self._peek()
        if token.kind == "name" and token.text.lower() == "subgraph" and not self.typed:
            self._next()
            if self._peek().text != "{":
                self._next()
            token = self._peek()
        if token.text == "{" and token.kind == "mark":
            self._next()
            return self._statements(closed_by="}")
        if token.kind not in {"name", "quoted"}:
            raise self._unexpected("expected a variable's name")
        self._next()
        name = token.text if token.kind == "name" else _unquoted(token.text)
        if not name.strip():
            self.place -= 1
            raise self._unexpected("expected a variable's name, not an empty one")
        self.nodes[name] = None
        for _ in range(2):  # a port and its compass point
            if self._peek().text == ":" and not self.typed:
                self.place += 2
        return [name]

    def _skip_list(self) -> None:
        self._next()
        while self._peek().text != "]":
            if self._peek() is _END or self._peek().kind == "wrong":
                raise self._unexpected("expected ']' at the end of attributes")
            self._next()
        self._next()


def _tokens(text: str) -> list[_Token]:
    found, line, start = [], 1, 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "wrong"
        if kind != "blank":
            found.append(_Token(kind, match[0], line, match.start() - start + 1))
        breaks = match[0].count("\n")
        if breaks:
            line, start = line + breaks, match.start() + match[0].rindex("\n") + 1
    return found


def _unquoted(text: str) -> str:
    return text[1:-1].replace("\\\n", "").replace('\\"', '"')
