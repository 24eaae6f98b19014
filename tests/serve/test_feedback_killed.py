"""A real server is killed while it serves and takes feedback: nothing acknowledged is lost, nothing counts twice."""

import importlib.util
import sys
from pathlib import Path

import pytest

from evenodds.feedback.postgres import Postgres


@pytest.fixture(scope="module")
def bench():
    """Return the benchmark, which is this test at full length."""
    path = Path(__file__).parents[2] / "bench" / "feedback.py"
    known = importlib.util.spec_from_file_location("bench_feedback", path)
    module = sys.modules[known.name] = importlib.util.module_from_spec(known)
    known.loader.exec_module(module)
    return module


def test_every_acknowledged_event_counts_once_in_sqlite(bench):
    """Two workers on one file, killed twice in 10,000 events."""
    report = bench.soak(None, 10_000, 2, workers=2, seed=1)
    assert report.wrong == []
    assert report.resent > 0


def test_every_acknowledged_event_counts_once_in_postgresql(bench, postgres_server, monkeypatch):
    """The same with PostgreSQL: 5,000 events, killed once."""
    monkeypatch.setenv("EVENODDS_FEEDBACK_SECRET", "a secret that is long enough")
    database = Postgres(postgres_server, write=True)
    database.execute("DROP SCHEMA IF EXISTS evenodds CASCADE")
    database.close()
    report = bench.soak(postgres_server, 5_000, 1, seed=2)
    assert report.wrong == []
    assert report.resent > 0
