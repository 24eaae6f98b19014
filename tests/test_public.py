"""The public face: what is there, and what is not imported for it."""

import json
import subprocess
import sys

import evenodds as eo

HEAVY = ("pyarrow", "pandas", "polars", "duckdb", "scipy", "highspy", "click", "rich")


def test_the_names_of_the_design_are_there():
    """Log, tally, position_bias, EqualOpportunity, load, audit and simulate are public."""
    for name in ("Log", "Tally", "tally", "position_bias", "EqualOpportunity", "load", "audit", "simulate"):
        assert name in eo.__all__
        assert callable(getattr(eo, name))


def test_every_public_name_exists_once():
    """__all__ is sorted as the linter sorts it, without doubles, and every name in it is there."""
    assert len(set(eo.__all__)) == len(eo.__all__)
    assert all(hasattr(eo, name) for name in eo.__all__)


def test_every_public_name_is_documented():
    """Everything public has a docstring."""
    assert [name for name in eo.__all__ if name != "__version__" and not getattr(eo, name).__doc__] == []


def test_importing_it_imports_nothing_heavy():
    """`import evenodds` loads NumPy and itself, and none of the larger libraries."""
    code = f"import sys, json, evenodds; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == []


def test_a_model_is_served_without_arrow():
    """Loading a model and transforming a request imports no Arrow, pandas or SciPy."""
    from pathlib import Path

    model = Path(__file__).parent / "golden" / "model.json"
    code = (
        f"import sys, json, evenodds; model = evenodds.load({str(model)!r});"
        "model.transform([0.1, 0.9], ['x', 'y'], keys=['k', 'l']);"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == []


def test_a_model_of_either_criterion_loads_in_a_fresh_process(tmp_path, mixed):
    """Loading finds the class of the model by the file alone, though it is imported on demand."""
    counts = eo.tally(mixed, cells=20)
    settings = {"min_positives": 5, "position_bias": "none"}
    for model in (eo.EqualOpportunity(**settings), eo.EqualizedOdds(bins=3, **settings)):
        model.fit(counts).save(tmp_path / f"{type(model).__name__}.json")
    code = (
        "import sys, evenodds; print([type(evenodds.load(path)).__name__ for path in sys.argv[1:]],"
        " evenodds.EqualizedOdds.__name__, hasattr(evenodds, 'EqualisedOdds'))"
    )
    paths = sorted(tmp_path.iterdir())
    out = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert out.stdout == "['EqualOpportunity', 'EqualizedOdds'] EqualizedOdds False\n"


def test_errors_are_one_tree():
    """Every error is an EvenoddsError, every warning an EvenoddsWarning; settings errors are ValueErrors too."""
    for name in eo.__all__:
        thing = getattr(eo, name)
        if name.endswith("Error"):
            assert issubclass(thing, eo.EvenoddsError)
        if name.endswith("Warning"):
            assert issubclass(thing, eo.EvenoddsWarning)
    assert issubclass(eo.SettingsError, ValueError)
    assert issubclass(eo.MissingExtraError, ImportError)


def test_an_error_is_one_line_with_its_hint():
    """Line breaks in a message become blanks, and the hint stands in parentheses."""
    assert str(eo.EvenoddsError("one\n   two", hint="three")) == "one two (hint: three)"
