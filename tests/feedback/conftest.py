import pytest

from evenodds.feedback import Store
from evenodds.feedback.postgres import Postgres

SECRET = "a secret that is long enough"


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path, monkeypatch):
    """Say where a store can be made: every behaviour holds on both."""
    monkeypatch.setenv("EVENODDS_FEEDBACK_SECRET", SECRET)
    if request.param == "sqlite":
        return str(tmp_path / "feedback.db")
    url = request.getfixturevalue("postgres_server")
    database = Postgres(url, write=True)
    database.execute("DROP SCHEMA IF EXISTS evenodds CASCADE")
    database.close()
    return url


@pytest.fixture
def opened(target):
    """Open stores on the target, and close them at the end."""
    stores = []

    def open_store(**settings):
        stores.append(Store(target, **settings))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()
