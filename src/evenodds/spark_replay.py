"""Score a Spark DataFrame with a model and rank each query's rows anew, where they are.

The same transform and the same keyed draws as on one machine (:mod:`evenodds.replay`) run in an Arrow
function over the columns that they need; the others stay in Spark. Ranks are a window over the query.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenodds.engines import spark
from evenodds.engines.arrow import Counted
from evenodds.engines.partial import Plan
from evenodds.engines.spark_wire import Wire, wire_for
from evenodds.errors import LogError, OutputError, SettingsError
from evenodds.log import Log, Roles
from evenodds.recount import Lists
from evenodds.replay import check_queries, fair_scores, first_place, scored_columns
from evenodds.reranker import Reranker
from evenodds.spark_frame import SparkFrame, quoted

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".orc": "orc"}
_ROW, _SLOTS, _RANK = "__evenodds_row", "__evenodds_slots", "__evenodds_rank"


def fair_frame(model: Reranker, log: Log, keys: Sequence[str]) -> Any:
    """Return the DataFrame with fair_score, and fair_position within query if the log has queries."""
    scored = _scored(model, log, keys)
    if log.roles.query is None:
        return scored
    place = f"cast({_rank(log.roles)} + {first_place(model, log.roles) - 1} as int) as fair_position"
    return (
        scored.selectExpr("*", f"monotonically_increasing_id() as {_ROW}").selectExpr("*", place).drop(_ROW)
    )


def write_fair(
    model: Reranker, log: Log, path: str | os.PathLike[str], *, keys: Sequence[str], overwrite: bool
) -> int:
    """Write that DataFrame to a folder of files, whole or not at all; return how many rows."""
    name = os.fspath(path)
    kind = check_folder(name, overwrite=overwrite)
    frame = fair_frame(model, log, keys)
    if "://" in name:  # another file system: Spark's own committer sees to it that files are whole
        return spark.written(frame, kind, name, overwrite=overwrite)
    target = Path(name)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        aside = Path(folder, "rows")
        rows = spark.written(frame, kind, aside.resolve().as_uri())
        if rows == 0:
            raise LogError(["the log is empty: no rows"])
        if target.is_dir():
            shutil.rmtree(target)
        elif target.exists():
            target.unlink()
        aside.rename(target)
    return rows


def check_folder(name: str, *, overwrite: bool) -> str:
    """Return the format that a name stands for; refuse what cannot be written before any work is done."""
    kind = FORMATS.get(Path(name).suffix.lower())
    if kind is None:
        raise SettingsError(f"cannot write {name}: Spark writes {', '.join(FORMATS)}", hint="use .parquet")
    if "://" not in name:
        target = Path(name)
        if target.exists() and not overwrite:
            raise OutputError(
                f"{target} exists already", hint="choose another name, or overwrite it with --force"
            )
        if not target.parent.is_dir():
            raise OutputError(f"cannot write {target}: there is no folder {target.parent}")
    return kind


def _source(log: Log) -> SparkFrame:
    if log.spark_frame is None:
        raise LogError(["this log is not a Spark DataFrame"])
    return log.spark_frame


def _scored(model: Reranker, log: Log, keys: Sequence[str]) -> Any:
    """Add fair_score."""
    frame = _source(log).frame
    if model.draws_ and not keys:
        raise SettingsError(
            "this model draws at random, and rows of a Spark DataFrame have no number to repeat a draw by",
            hint="name key columns: keys=['query', 'item'] (--key query --key item)",
        )
    light = copy.copy(model)
    light.tally_ = None  # the counts need not travel
    roles, columns, keys = log.roles, scored_columns(log.roles, keys), list(keys)

    def score(batch: pa.RecordBatch) -> Any:
        check_queries(roles, batch)
        return fair_scores(light, roles, batch, keys, seed=0, first=0)

    return spark.with_numbers(frame, "fair_score", score, columns)


def _rank(roles: Roles) -> str:
    """Rank by fair score; ties stay as they stood, then as Spark reads the rows."""
    stood = "" if roles.position is None else f"{quoted(roles.position)} asc nulls last, "
    query = quoted(str(roles.query))
    return f"row_number() over (partition by {query} order by fair_score desc, {stood}{_ROW})"


class SparkRecount:
    """The passes over a log that Spark has; as :class:`evenodds.recount.Recount`."""

    def __init__(self, model: Reranker, log: Log, plan: Plan, keys: Sequence[str]) -> None:
        self.plan = plan
        self._log, self._model, self._keys = log, model, keys
        source = _source(log)
        self.old: Counted = spark.count_frame(source.frame, plan, wire_for(source, plan.roles))

    def ranked(self, first: int) -> Lists:
        """Look whether each list holds every position from the first one on, once."""
        query, position = quoted(str(self.plan.roles.query)), quoted(str(self.plan.roles.position))
        lists = spark.aggregated(
            _source(self._log).frame,
            [f"{query} as query"],
            [
                "count(1) as held",
                f"min({position}) as low",
                f"max({position}) as high",
                f"count(distinct {position}) as places",
            ],
        )
        broken = f"low <> {first} or high <> {first - 1} + held or places <> held"
        found = spark.first_row(
            spark.aggregated(
                lists,
                [],
                [
                    "count(1) as queries",
                    f"count_if({broken}) as cut_off",
                    f"min(case when {broken} then cast(query as string) end) as example",
                ],
            )
        )
        return Lists(found["queries"], found["cut_off"], f"query {found['example']}")

    def recounted(self) -> Counted:
        """Count the log again, as if every row had stood at its new position."""
        roles = self.plan.roles
        query, position = quoted(str(roles.query)), quoted(str(roles.position))
        scored = _scored(self._model, self._log, self._keys)
        ranked = scored.selectExpr("*", f"monotonically_increasing_id() as {_ROW}").selectExpr(
            *(quoted(name) for name in roles.counted() if name != roles.position),
            f"{_rank(roles)} as {_RANK}",
            f"sort_array(collect_list({position}) over (partition by {query})) as {_SLOTS}",
        )
        moved = ranked.selectExpr(
            *(quoted(name) for name in roles.counted() if name != roles.position),
            f"cast({_SLOTS}[{_RANK} - 1] as int) as {position}",
        )
        return spark.count_frame(moved, replace(self.plan, first_position=None), Wire.plain(roles))


@contextmanager
def recounting_on_spark(model: Reranker, log: Log, plan: Plan, keys: Sequence[str]) -> Iterator[SparkRecount]:
    """Count the log; the rest is asked of what this gives. Draws go by key."""
    yield SparkRecount(model, log, replace(plan, roles=replace(plan.roles, swap=None)), keys)
