"""A Spark DataFrame as the source of a log: what its columns are, where it reads from, a sample of it.

Nothing is imported from Spark here: what a DataFrame must do, it is asked to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

import evenodds.errors as known_errors
from evenodds.errors import EvenoddsError, LogError, MissingExtraError
from evenodds.sources import SAMPLE, Files, format_of

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]

Shape = Literal["plain", "narrow", "any"]
_MOVES_ROWS_ONLY = {"Repartition", "RepartitionByExpression", "RebalancePartitions"}
_HEAD = 4_096  # rows that show which groups are common
_PLAIN_TYPES = {
    "string": "string",
    "boolean": "bool_",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "binary": "binary",
    "date": "date32",
}


def is_spark_frame(source: object) -> bool:
    """Whether this is a DataFrame of Spark, classic or Connect."""
    kind = type(source)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


class SparkFrame:
    """A Spark DataFrame. Its rows are never brought here; engines of Spark read `frame`.

    Attributes
    ----------
    frame
        The DataFrame.
    files
        The Parquet files that the DataFrame is a plain read of, when this machine can read them too:
        then sample and provenance are those of the files.
    """

    def __init__(self, frame: Any, names: Sequence[str] | None = None) -> None:
        self.frame = frame
        self.schema: pa.Schema = _arrow_schema(frame.schema.jsonValue()["fields"])
        with one_line_errors():
            read = [_local(uri) for uri in frame.inputFiles()]
        self._shape = _shape(frame)
        self.files: Files | None = _files(list(names or sorted(read))) if self._shape == "plain" else None
        self.names = tuple(names or sorted(read) or ["<pyspark DataFrame>"])
        self.rows = None if self.files is None else self.files.rows

    def batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Refuse: rows stay on the cluster."""
        del columns
        raise LogError(
            ["this reads the rows one by one, which is not done for a Spark DataFrame"],
            hint="give it the files, or a part of the rows: eo.Log(frame.toArrow(), ...)",
        )

    def sample(self, column: str, content: Sequence[str] = ()) -> Floats:
        """Return values of a column from all over the rows, the same ones however they are partitioned.

        Rows of Parquet files have numbers, and the sample is that of the local engine. Elsewhere a row is
        drawn by a hash of its `content`. Rows that nothing tells apart would be drawn or left out
        together, so that without a query or item the values are counted, and each count is thinned.
        """
        if self.files is not None and column in self.files.schema.names:
            return self.files.sample(column)
        with one_line_errors():
            return self._drawn(column, content) if content else self._thinned(column)

    def _drawn(self, column: str, content: Sequence[str]) -> Floats:
        lot = f"xxhash64({', '.join(map(quoted, [*content, column]))})"
        drawn = self.frame.selectExpr(f"{_score(column)} as score", f"{lot} as lot").orderBy("lot", "score")
        return _floats(drawn.limit(SAMPLE).select("score").toArrow()["score"])

    def _thinned(self, column: str) -> Floats:
        rows = self.frame.count()
        counted = self.frame.selectExpr(f"{_score(column)} as score").groupBy("score").count()
        share = min(1.0, SAMPLE / max(rows, 1))
        # The part of a row that is left over is rounded up or down by a hash of the value.
        left = "(xxhash64(score) & 1048575) / 1048576.0D"
        thinned = counted.selectExpr("score", f"cast(floor(count * {share!r}D + {left}) as int) as copies")
        table = (thinned.where("copies > 0") if share < 1 else counted.toDF("score", "copies")).toArrow()
        return np.repeat(_floats(table["score"]), table["copies"].to_numpy())

    def common_values(self, columns: Sequence[str]) -> dict[str, list[Any]]:
        """Return values that come often in each column, as far as the first rows tell at little cost."""
        if self._shape == "any":
            return {}
        with one_line_errors():
            head = self.frame.selectExpr(*map(quoted, columns)).limit(_HEAD).toArrow()
        return {name: _frequent(head[name]) for name in columns}


def _frequent(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, the most frequent first; of types that SQL can name only."""
    from pyarrow import types

    kind = column.type
    if not (types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind)):
        return []
    counted = sorted(
        (-entry["counts"], str(entry["values"]), entry["values"])
        for entry in column.value_counts().to_pylist()
        if entry["values"] is not None
    )
    return [value for _, _, value in counted]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Say in one line what Spark says in a hundred."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise said_by(str(error)) from None
        raise


def said_by(text: str) -> EvenoddsError:
    r"""Turn the text of a Spark exception into an error of one line: ours, where a task raised one.

    >>> said_by("Job aborted\n  Traceback ...\nevenodds.errors.LogError: null in column 'score'\n").message
    "null in column 'score'"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        name, _, said = line.removeprefix("evenodds.errors.").partition(": ")
        kind = getattr(known_errors, name, None) if line.startswith("evenodds.errors.") else None
        if isinstance(kind, type) and issubclass(kind, EvenoddsError):
            message, _, hint = said.removesuffix(")").partition(" (hint: ")
            hinted = hint or None
            return LogError([message], hint=hinted) if kind is LogError else kind(message, hint=hinted)
        if line.endswith("No module named 'evenodds'"):
            return MissingExtraError(
                "evenodds is not installed on Spark's executors",
                hint="install it there, or send an archive: spark.archives, or spark-submit --py-files",
            )
    causes = [line for line in lines if line.startswith(("Caused by: ", "[", "org.apache.spark"))]
    # A line that names the file, wherever in the chain it stands, says more than what ailed the reader.
    named = [line[line.find("[FAILED_READ_FILE") :] for line in lines if "[FAILED_READ_FILE" in line]
    first = (named or causes or lines or ["Spark stopped without a word"])[0].removeprefix("Caused by: ")
    return LogError([f"Spark could not read the log: {first[:300]}"])


def quoted(name: str) -> str:
    """Return a column's name as SQL takes it, whatever characters it has.

    >>> quoted("user.score")
    '`user.score`'
    """
    return "`" + name.replace("`", "``") + "`"


def _score(column: str) -> str:
    return f"cast({quoted(column)} as double)"


def _floats(column: pa.ChunkedArray) -> Floats:
    return cast("Floats", column.to_numpy())


def _arrow_schema(fields: list[dict[str, Any]]) -> pa.Schema:
    """Translate the types that roles can have, and name the others."""
    import pyarrow as pa

    def arrow_type(kind: object) -> pa.DataType:
        if isinstance(kind, dict):
            made = {"array": pa.list_(pa.null()), "map": pa.map_(pa.string(), pa.null())}
            return made.get(str(kind.get("type")), pa.struct([]))
        name = str(kind)
        if name in _PLAIN_TYPES:
            return getattr(pa, _PLAIN_TYPES[name])()
        if name.startswith("decimal("):
            precision, scale = name[len("decimal(") : -1].split(",")
            return pa.decimal128(int(precision), int(scale))
        if name.startswith(("char(", "varchar(", "string ")):
            return pa.string()
        return pa.timestamp("us") if name.startswith("timestamp") else pa.null()

    return pa.schema([(field["name"], arrow_type(field["type"])) for field in fields])


def _local(uri: str) -> str:
    """Return the path of a file on this machine's disk; other addresses stay as they are."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _files(paths: list[str]) -> Files | None:
    if not paths or not all(Path(p).is_file() and format_of(p, strict=False) == "parquet" for p in paths):
        return None
    try:
        return Files(paths)
    except LogError:  # Spark may read what this machine's reader does not
        return None


def _shape(frame: Any) -> Shape:
    """Tell what was done to the rows of files; whatever is not recognised may be anything.

    plain: rows of Parquet files, moved about at most, and columns left out. narrow: each row comes from one
    row of a table, so that the first few cost little.
    """
    try:
        steps = _connect_steps(frame) if ".connect." in type(frame).__module__ else _classic_steps(frame)
    except Exception:  # noqa: BLE001  (there is no public way to a plan, and a later Spark may have others)
        return "any"
    if steps[-1] == "parquet" and not set(steps[:-1]) - {"moved", "selected"}:
        return "plain"
    return "narrow" if not set(steps) - {"parquet", "table", "selected", "row by row"} else "any"


def _classic_steps(frame: Any) -> list[str]:
    steps: list[str] = []
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    while True:
        kind = plan.getClass().getSimpleName()
        if kind == "LogicalRelation":
            form = plan.relation().fileFormat().getClass().getSimpleName()
            return [*steps, "parquet" if form == "ParquetFileFormat" else "table"]
        if plan.children().size() != 1:
            return [*steps, "table" if plan.children().isEmpty() else "any"]
        step = {"Filter": "row by row", **dict.fromkeys(_MOVES_ROWS_ONLY, "moved")}.get(kind, "any")
        if kind == "Project":
            columns = plan.projectList()
            names = {columns.apply(i).getClass().getSimpleName() for i in range(columns.size())}
            step = "selected" if names == {"AttributeReference"} else "row by row"
        steps.append(step)
        plan = plan.children().apply(0)


def _connect_steps(frame: Any) -> list[str]:
    """Read the plan that a DataFrame of Spark Connect would send."""
    steps: list[str] = []
    relation = frame._plan.to_proto(frame.sparkSession.client).root  # noqa: SLF001
    while True:
        kind = relation.WhichOneof("rel_type")
        if kind == "read":
            source = relation.read.data_source
            return [*steps, "parquet" if source.format == "parquet" and not source.predicates else "table"]
        step = {"repartition": "moved", "repartition_by_expression": "moved", "filter": "row by row"}
        steps.append(step.get(kind, "any"))
        relation = getattr(relation, kind).input
