"""The Spark session: the one that is there, or a new one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from evenodds.engines.java import use_java
from evenodds.errors import MissingExtraError, SettingsError

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def spark_session(master: str | None = None, settings: dict[str, str] | None = None) -> Any:
    """Return the active session; else start one, or connect to where SPARK_REMOTE says.

    Parameters
    ----------
    master
        ``local[*]`` by default; ``spark-submit`` has set its own. An address ``sc://...`` is that of a
        Spark Connect server.
    settings
        Further settings of a session that is started here.
    """
    if find_spec("pyspark") is None:
        raise MissingExtraError("Spark is not installed", hint="pip install 'evenodds[spark]'")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    remote = master if master and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if remote:
        return _connected(remote)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        use_java()
    builder = SparkSession.builder.appName("evenodds")
    here = not submitted and (master or "local").startswith("local")
    if here:  # without it Spark takes the python3 of PATH, which need not be the one that has evenodds
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in (_QUIET | (_LOOPBACK if here else {}) | (settings or {})).items():
        builder = builder.config(name, value)
    if master or not submitted:
        builder = builder.master(master or "local[*]")
    with _standard_error_aside() as said:
        try:
            session = builder.getOrCreate()
        except Exception as error:  # noqa: BLE001  (whatever it was, it is said in one line)
            raise SettingsError(
                f"Spark did not start with master {master or 'local[*]'}: {_reason(str(error), said())}"
            ) from None
        session.sparkContext.setLogLevel("OFF")
    return session


def _connected(remote: str) -> Any:
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.remote(remote).getOrCreate()
        session.conf.get("spark.sql.shuffle.partitions")  # the first word to the server
    except ImportError as error:
        raise MissingExtraError(
            f"Spark Connect needs more packages: {_reason(str(error))}", hint="pip install 'pyspark[connect]'"
        ) from None
    except Exception as error:  # noqa: BLE001
        raise SettingsError(f"no Spark Connect server answers at {remote}: {_reason(str(error))}") from None
    return session


@contextmanager
def _standard_error_aside() -> Iterator[Any]:
    """Keep what a starting Java prints off the terminal; it has that file for good."""
    with tempfile.TemporaryFile("w+b") as aside:
        kept = os.dup(2)
        os.dup2(aside.fileno(), 2)

        def said() -> str:
            aside.seek(0)
            return aside.read().decode(errors="replace")

        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _reason(text: str, log: str = "") -> str:
    """Return the line of an error that says most."""
    lines = [line.strip() for line in f"{text}\n{log}".splitlines() if line.strip()]
    causes = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (causes or lines or ["it did not say why"])[0].rstrip(".")[:300]
