"""Which column is what; wrong columns are found before a row is read."""

import pyarrow as pa
import pytest

import evenodds as eo
from evenodds.log import Roles

COLUMNS = {"score": [0.1, 0.2], "group": ["a", "b"], "label": [1, 0]}


def table(**columns):
    return pa.table({**COLUMNS, **columns})


def test_columns_are_found_by_their_own_name():
    """Roles default to columns of their own name; optional ones are taken where they are there."""
    log = eo.Log(table(position=[1, 2], query=[1, 1], item=[5, 6], weight=[1.0, 1.0]))
    assert log.roles == Roles("score", ("group",), "label", "position", "query", "item", "weight")
    assert eo.Log(table()).roles == Roles("score", ("group",), "label")


def test_columns_can_be_named_or_left_out():
    """Any role takes any column; None leaves an optional one out although it is there."""
    log = eo.Log(
        pa.table({"s": [0.1], "g": ["a"], "h": [1], "y": [True], "p": [1], "query": [1]}),
        score="s",
        group=["g", "h"],
        label="y",
        position="p",
        query=None,
    )
    assert log.roles == Roles("s", ("g", "h"), "y", "p")


def test_only_columns_that_count_are_read():
    """Counting asks for each column of a role once, and for no others; items are not counted."""
    roles = eo.Log(table(item=[1, 2], position=[1, 2], extra=[0, 0]), weight="score").roles
    assert roles.counted() == ["score", "group", "label", "position"]


def test_a_missing_column_is_named_with_the_nearest_one():
    """Each missing column is named with its role and the nearest name; all columns are listed."""
    with pytest.raises(eo.LogError) as error:
        eo.Log(table(rank=[1, 2]), score="scroe", group=["Group", "zzz"], position="rnak")
    assert error.value.problems == (
        "no column 'scroe' for score, did you mean 'score'?",
        "no column 'Group' for group, did you mean 'group'?",
        "no column 'zzz' for group",
        "no column 'rnak' for position, did you mean 'rank'?",
    )
    assert str(error.value).startswith("4 problems in the log: ")
    assert str(error.value).endswith("(hint: columns: score, group, label, rank)")


def test_a_missing_column_of_two_roles_is_reported_once():
    """Where two roles ask for the same missing column it is one problem."""
    with pytest.raises(eo.LogError) as error:
        eo.Log(table(), score="s", label="s")
    assert error.value.problems == ("no column 's' for score",)


def test_wrong_types_are_named_with_what_was_expected():
    """Columns of the wrong type are all reported, with the type found and the one expected."""
    with pytest.raises(eo.LogError) as error:
        eo.Log(
            pa.table({
                "score": ["x"], "group": [0.5], "label": ["yes"], "position": ["1"], "weight": ["1"],
                "query": [0.5], "swap": ["2"],
            }),
            swap="swap",
        )  # fmt: skip
    assert len(error.value.problems) == 7
    assert "column 'score' (score) has type string; expected numbers" in error.value.problems
    assert (
        "column 'group' (group) has type double; expected text, whole numbers or booleans"
        in error.value.problems
    )


def test_missing_columns_and_wrong_types_are_reported_together():
    """A missing column and a wrong type come in one error."""
    with pytest.raises(eo.LogError, match="2 problems in the log: no column 'y' for label; column 'score'"):
        eo.Log(table(score=["x", "y"]), label="y")


def test_two_columns_of_one_name_are_refused():
    """Where the name of a role is that of two columns, that is said."""
    doubled = pa.table(
        [pa.array([0.1]), pa.array([0.2]), pa.array(["a"]), pa.array([1])],
        names=["score", "score", "group", "label"],
    )
    with pytest.raises(eo.LogError, match="2 columns are named 'score', the one for score"):
        eo.Log(doubled)


def test_swaps_need_positions():
    """A swap column without positions is refused."""
    with pytest.raises(eo.LogError, match="swap needs a position column"):
        eo.Log(table(pair=[1, 1]), swap="pair")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"group": []}, "group is an empty list"),
        ({"first_position": -1}, "first_position must be at least 0"),
        ({"outcomes": 0}, r"outcomes must lie in 1\.\."),
    ],
    ids=str,
)
def test_senseless_settings_are_refused(setting, message):
    """Settings outside their range are refused."""
    with pytest.raises(eo.SettingsError, match=message):
        eo.Log(table(), **setting)


def test_a_misspelt_keyword_is_a_type_error():
    """A keyword that is no role does not vanish."""
    with pytest.raises(TypeError, match="scroe"):
        eo.tally(table(), scroe="s")


def test_roles_are_written_out_where_they_are_filled():
    """For the record of a model, roles are plain values, without those that are not there."""
    assert Roles("s", ("g", "h"), "y", query="q").to_dict() == {
        "score": "s", "group": ["g", "h"], "label": "y", "query": "q",
    }  # fmt: skip
