"""What a reading says, on the paper's graphs and beyond."""

import json
import subprocess
import sys

import pytest

import evenodds as eo
from graphs import DIRECTED, SELECTION, SEPARATED


def test_the_papers_first_graph():
    """A directed path around the label breaks equalized odds, and so does the effect on the score at large."""
    reading = eo.causal(DIRECTED)
    assert not reading.equalized_odds
    assert not reading.equality_of_opportunity
    assert not reading.demographic_parity
    assert [(str(path), path.kind) for path in reading.open_paths] == [("C -> X2 -> S", "directed")]
    assert reading.closing == ("X2",)
    assert "C moves S through X2, whatever Y is" in str(reading)
    assert "if S no longer used X2, equalized odds would hold" in str(reading)


def test_the_papers_second_graph():
    """A collider is opened because the label, its child, is held fixed."""
    reading = eo.causal(SELECTION)
    assert not reading.equalized_odds
    (path,) = reading.open_paths
    assert (str(path), path.kind) == ("C -> X1 <- X2 -> S", "collider")
    assert path.opened == (("X1", "Y"),)
    assert "C and X2 meet in X1, of which Y is a child" in str(reading)
    assert reading.closing == ("X2",)


def test_the_papers_second_graph_without_the_label_held():
    """Without holding the label the collider is closed; with a label that the score does not use, all is."""
    assert eo.causal("C -> X1 <- X2 -> S; X1 -> Y").demographic_parity
    assert not eo.causal("C -> X1 <- X2 -> S; X1 -> Y").equalized_odds


def test_the_papers_third_graph():
    """The label stands on the only path: equalized odds holds, demographic parity does not."""
    reading = eo.causal(SEPARATED)
    assert reading.equalized_odds
    assert reading.equality_of_opportunity
    assert not reading.demographic_parity
    assert (reading.open_paths, reading.closing) == ((), ())
    assert "no path from C to S is open with Y held fixed" in str(reading)


def test_the_label_itself_may_be_the_collider():
    """Labels logged where the score put an item: nothing the score could let go closes that path."""
    reading = eo.causal("C -> merit -> Y; merit -> S; S -> position -> Y")
    kinds = {str(path): path.kind for path in reading.open_paths}
    assert kinds == {
        "C -> merit -> S": "directed",
        "C -> merit -> Y <- position <- S": "collider",
    }
    assert "meet in Y, the label itself" in str(reading)
    assert reading.closing is None
    assert "nothing that S could let go" in str(reading)
    assert any("Y comes after S" in note for note in reading.notes)
    # Of merit, the label before positions, the same graph says that equalized odds holds.
    assert eo.causal("C -> merit -> Y; merit -> S; S -> position -> Y", label="merit").equalized_odds


def test_common_causes_and_reversed_paths_have_their_names():
    """A path that leaves the group against an arrow, and one that runs all the way back."""
    (path,) = eo.causal("C <- A <- U -> B -> S; C -> Y").open_paths
    assert (path.kind, path.fork) == ("common cause", "U")
    (path,) = eo.causal("S -> A -> C -> Y").open_paths
    assert path.kind == "reversed"
    assert "S moves C through A" in str(eo.causal("S -> A -> C -> Y"))
    assert "S uses C itself" in str(eo.causal("C -> S; C -> Y"))


def test_a_reading_is_plain_json_too():
    """Everything is there, and survives JSON."""
    body = json.loads(json.dumps(eo.causal(SELECTION).to_dict()))
    assert body["schema"] == "evenodds-causal/1"
    assert (body["equalized_odds"], body["complete"], body["closing"]) == (False, True, ["X2"])
    (path,) = body["open_paths"]
    assert path["arrows"] == [["C", "X1"], ["X2", "X1"], ["X2", "S"]]
    assert path["opened"] == [["X1", "Y"]]
    assert eo.causal("S -> A -> C -> Y").to_dict()["closing"] is None


def test_the_limit_is_checked():
    """At least one path is listed."""
    with pytest.raises(eo.SettingsError, match="limit must be at least 1"):
        eo.causal(SEPARATED, limit=0)


def test_without_networkx_one_line_says_what_to_install():
    """The extra is named; importing evenodds alone does not import networkx."""
    code = (
        "import sys; sys.modules['networkx'] = None\nimport evenodds as eo\n"
        "try: eo.causal('C -> Y -> S')\nexcept eo.MissingExtraError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'evenodds[causal]'" in out.stdout
    code = "import sys, evenodds; print('networkx' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"
