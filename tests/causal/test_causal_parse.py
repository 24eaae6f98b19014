"""Arrows as text and DOT."""

import networkx as nx
import pytest

import evenodds as eo
from evenodds.causal.graph import make_graph
from evenodds.causal.parse import parse_edges

EDGES = [("C", "X1"), ("X2", "X1"), ("X2", "S"), ("X1", "Y")]


DOT = """DIGRAPH "a graph" {
  rankdir=LR; node [shape=box, label="a -> b"]
  C [color=red]
  C -> X1 [label="1;2"]
  {X2} -> X1
  subgraph cluster_0 { label = "in" X2 -> S }
  X1:n:s -> "Y" /* a
  comment */
}"""


@pytest.mark.parametrize(
    "text",
    [
        "C -> X1 <- X2 -> S; X1 -> Y",
        "C->X1<-X2->S;X1->Y",
        "C -> X1\nX2 -> X1, X2 -> S\n\n# a comment\nX1 -> Y // another\n",
        "C → X1 ← X2 → S; X1 → Y",
        "C -> X1 <-\n X2 -> S\nX1 -> Y",
        "digraph { C -> X1; X2 -> X1; X2 -> S; X1 -> Y }",
        "strict digraph G { C -> X1 X2 -> X1 X2 -> S X1 -> Y }",
        DOT,
        'dag { bb="0,0,1,1" C [exposure,pos="-1.5,0"] S [outcome] C -> X1 X2 -> { X1 S } X1 -> Y }',
    ],
)
def test_all_ways_to_write_a_graph_say_the_same(text):
    """Typed arrows, DOT and DAGitty's variant of it, with comments, ports, attributes and subgraphs."""
    nodes, edges = parse_edges(text)
    assert sorted(edges) == sorted(EDGES)
    assert sorted(nodes) == ["C", "S", "X1", "X2", "Y"]


def test_sets_of_variables_stand_on_either_side():
    """Braces make an arrow for each pair, and chains go on from all of them."""
    assert sorted(parse_edges("{A, B} -> {C; D} -> E")[1]) == [
        ("A", "C"), ("A", "D"), ("B", "C"), ("B", "D"), ("C", "E"), ("D", "E"),
    ]  # fmt: skip


def test_names_may_be_quoted_hyphenated_or_foreign():
    """A name with blanks or quotes is quoted; hyphens and letters of any alphabet need none."""
    nodes, _ = parse_edges(r'"years at work" -> bls-share->größe; "say \"hi\"" -> "a -> b" -> v1.2')
    assert nodes == ["years at work", "bls-share", "größe", 'say "hi"', "a -> b", "v1.2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("C -- Y", "line 1, column 3: an undirected edge"),
        ("C <-> Y", "U -> A; U -> B"),
        ("C ->", "ends too early"),
        ("C -> Y\nX Z -> S", "line 2, column 3: expected an arrow, or ';'"),
        ("-> Y", "column 1: expected a variable's name, found '->'"),
        ("C -> Y }", "found '}'"),
        ("C -> Y - > S", "found '-'"),
        ("digraph { C -> Y", "ends too early"),
        ("digraph { C -> Y } S", "nothing after the closing brace"),
        ("digraph { C [a=1 -> Y", "expected ']'"),
        ("digraph { a -> b [label=<i>] }", "HTML labels are not read"),
        ("digraph { rankdir= }", "expected an attribute's value"),
        ("graph { C -- Y }", "undirected"),
        ('"" -> Y', "not an empty one"),
        ("C -> Y -> C", "cycle, C -> Y -> C"),
        ("C -> C", "cycle, C -> C"),
        ("{C Y}", "expected an arrow"),
        ("digraph { C Y S }", "no arrows"),
        ("Cees", "neither arrows nor a file"),
        ("graph.dot", "no such file"),
        (" ", "empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_its_place(text, said):
    """One line: what is wrong, where, what was expected."""
    with pytest.raises(eo.GraphError) as caught:
        make_graph(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_networkx_graphs_pairs_and_files_are_graphs_too(tmp_path):
    """A DiGraph, a MultiDiGraph, pairs, and a file of either kind say the same as text."""
    (tmp_path / "graph.txt").write_text("C -> Y -> S; C -> X -> S\n")
    (tmp_path / "graph.dot").write_text("digraph { C -> Y -> S C -> X -> S }")
    edges = [("C", "Y"), ("Y", "S"), ("C", "X"), ("X", "S")]
    for source in (
        nx.DiGraph(edges), nx.MultiDiGraph([*edges, ("C", "Y")]), edges, str(tmp_path / "graph.txt"),
        tmp_path / "graph.dot",
    ):  # fmt: skip
        assert eo.causal(source).closing == ("X",)


def test_other_objects_are_refused_in_one_line():
    """Undirected graphs, nodes that print alike, things that are no graph, pairs that are no pairs."""
    for source, said in (
        (nx.Graph([("C", "Y")]), "undirected"),
        (nx.DiGraph([(1, "1")]), "print alike: 1"),
        (7, "cannot make a graph of a int"),
        ([("C", "Y", "S")], "expected pairs"),
        ([("C", 1)], "expected pairs"),
        (nx.DiGraph([("a", "b"), ("b", "a")]), "cycle"),
    ):
        with pytest.raises(eo.GraphError, match=said):
            eo.causal(source)


def test_a_file_that_is_no_graph_is_named(tmp_path):
    """Errors name the file, and its line."""
    (tmp_path / "graph.dot").write_text("digraph {\n C -- Y }")
    with pytest.raises(eo.GraphError, match=r"graph\.dot: .* line 2, column 4"):
        eo.causal(tmp_path / "graph.dot")
    (tmp_path / "bytes.dot").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(eo.GraphError, match="not a text file"):
        eo.causal(tmp_path / "bytes.dot")


def test_roles_are_checked():
    """Missing ones are said with a guess; two roles cannot be one variable."""
    with pytest.raises(eo.GraphError, match="did you mean 'gender'"):
        eo.causal("gender -> Y -> S", group="gendre")
    with pytest.raises(eo.GraphError, match="say which variable is the group: gender, Y, S"):
        eo.causal("gender -> Y -> S")
    with pytest.raises(eo.GraphError, match="label and score are both 'S'"):
        eo.causal("C -> Y -> S", label="S")
    assert eo.causal("group -> label -> score; C -> Y -> S").graph.group == "group"
