"""What a causal graph implies for the fairness of a score."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenodds.causal.graph import CausalGraph, make_graph
from evenodds.causal.paths import LIMIT, OpenPath, closing, open_paths
from evenodds.errors import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa

    from evenodds.causal.compare import Agreement

SCHEMA = "evenodds-causal/1"


@dataclass(frozen=True)
class CausalReading:
    """What a graph implies; prints as text.

    Attributes
    ----------
    graph
        The graph and its roles.
    equalized_odds
        Whether score and group are independent given the label in every distribution that follows the
        graph: the label d-separates them.
    equality_of_opportunity
        Whether they are given that the label is positive. A graph does not tell one value of a variable
        from another, so its answer is the same; see :func:`causal`.
    demographic_parity
        Whether score and group are independent, nothing held fixed.
    open_paths
        Every open path from group to score with the label held fixed, shortest first.
    complete
        Whether these are all; there can be exponentially many.
    closing
        The variables that would close them all if the score no longer used them, the smallest such
        set: empty if there is nothing to close, None if no change of what the score uses would.
    notes
        What is out of the ordinary.
    """

    graph: CausalGraph
    equalized_odds: bool
    equality_of_opportunity: bool
    demographic_parity: bool
    open_paths: tuple[OpenPath, ...]
    complete: bool
    closing: tuple[str, ...] | None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        from evenodds.causal.words import text

        return text(self)

    def __repr__(self) -> str:
        says = "holds" if self.equalized_odds else f"broken by {len(self.open_paths)} open paths"
        return f"CausalReading({len(self.graph.variables)} variables; equalized odds {says})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the schema is documented in docs/causal.md."""
        from evenodds.causal.words import why

        graph = self.graph
        return {
            "schema": SCHEMA,
            "group": graph.group,
            "label": graph.label,
            "score": graph.score,
            "variables": list(graph.variables),
            "arrows": [list(arrow) for arrow in graph.arrows],
            "equalized_odds": self.equalized_odds,
            "equality_of_opportunity": self.equality_of_opportunity,
            "demographic_parity": self.demographic_parity,
            "open_paths": [
                {
                    "path": str(path),
                    "kind": path.kind,
                    "arrows": [list(arrow) for arrow in path.arrows],
                    "opened": [list(way) for way in path.opened],
                    "why": why(path, graph),
                }
                for path in self.open_paths
            ],
            "complete": self.complete,
            "closing": None if self.closing is None else list(self.closing),
            "notes": list(self.notes),
        }

    def picture(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Draw the graph with its open paths marked: an SVG or PNG file, or DOT for Graphviz.

        SVG and PNG need ``pip install 'evenodds[report]'``.
        """
        from evenodds.causal.picture import draw

        draw(self, path, overwrite=overwrite)

    def compare(self, data: object, **roles: Any) -> Agreement:
        """Hold the graph against a log: whether score is independent of group given the label, as it says.

        Parameters
        ----------
        data
            A tally, a log, an audit, or a table. Without `roles` its columns are named as the graph's
            variables, or else score, group and label.
        """
        from evenodds.causal.compare import compare

        return compare(self, data, roles)

    def simulate(self, rows: int = 10_000, *, seed: int = 0, form: str = "linear") -> pa.Table:
        """Draw data that follow the graph; columns are named as its variables.

        See :func:`evenodds.causal.simulate.mechanisms` for the forms, "linear" and "discrete".
        """
        from evenodds.causal.simulate import mechanisms

        return mechanisms(self.graph, seed=seed, form=form).draw(rows)


def causal(
    graph: object,
    *,
    group: str | None = None,
    label: str | None = None,
    score: str | None = None,
    limit: int = LIMIT,
) -> CausalReading:
    """Read a causal graph: whether it implies equalized odds, and which open paths break it.

    Parameters
    ----------
    graph
        Arrows as text, ``"C -> X1 <- X2 -> S; X1 -> Y"``; DOT text; the path of a file with either; a
        ``networkx.DiGraph``; or pairs (cause, effect).
    group, label, score
        Which variables these are. By default those named so, else C, Y and S.
    limit
        The most open paths to list.

    Notes
    -----
    Equalized odds is independence of score S and group C given the label Y (Nandy et al., FAccT 2022,
    section "Causal Interpretation of Equalized Odds"). It holds in every distribution that follows
    the graph if Y d-separates S and C. If not, it fails in almost all of them: in all but those whose
    paths cancel exactly, and cancelling is what a fitted reranker does.

    Equality of opportunity asks for the same at Y = 1 alone. A graph cannot say "only at Y = 1": with
    d-separation it holds, and without it fails in almost all distributions too, since exchanging the names
    of the label's values turns a dependence at Y = 0 into one at Y = 1. It may hold by a mechanism that works
    for negatives only, which the arrows do not show; a log can, see :meth:`CausalReading.compare`.

    Examples
    --------
    >>> reading = causal("C -> Y -> S; C -> X2 -> S")
    >>> reading.equalized_odds, [str(path) for path in reading.open_paths], reading.closing
    (False, ['C -> X2 -> S'], ('X2',))
    """
    if limit < 1:
        raise SettingsError(f"limit must be at least 1, got {limit}")
    made = make_graph(graph, group=group, label=label, score=score)
    given_label = made.separated(made.label)
    found = open_paths(made, limit)
    return CausalReading(
        graph=made,
        equalized_odds=given_label,
        equality_of_opportunity=given_label,
        demographic_parity=made.separated(),
        open_paths=found.paths,
        complete=found.complete,
        closing=closing(made),
        notes=_notes(made),
    )


def _notes(graph: CausalGraph) -> tuple[str, ...]:
    from evenodds.causal.graph import networkx

    nx = networkx()
    said = []
    if not graph.parents(graph.score):
        said.append(f"no arrow leads into {graph.score}: a score that uses nothing")
    if nx.has_path(graph.network, graph.score, graph.label):
        said.append(
            f"{graph.label} comes after {graph.score}: the score itself has moved this label, as it moves labels "
            "that are logged at the positions it gave; it does not move the merit label"
        )
    return tuple(said)
