"""Where a stream's rows come from: folders of files, Delta tables, Kafka topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evenodds.errors import EvenoddsError, LogError, SettingsError
from evenodds.files import written_aside
from evenodds.spark_frame import one_line_errors, said_by

CORRUPT = "_corrupt_record"
_FORMATS = {
    "parquet": (".parquet", ".pq"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz"),
    "csv": (".csv", ".csv.gz"),
}
_TEXT = ("json", "csv", "kafka")
_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "delta": "io.delta:delta-spark_2.13:4.0.0",
}
_LEARNED_FROM = 3  # files


@dataclass(frozen=True)
class Stream:
    """Where rows come from.

    Attributes
    ----------
    where
        A folder, or ``kafka://host:port/topic``.
    format
        "parquet", "json", "csv", "delta" or "kafka"; None tells it by the name and the files.
    schema
        The columns, as SQL names them; None learns them from the first files.
    max_files
        How many files, or Kafka offsets, to take into a batch.
    options
        More options of the source, as Spark names them.
    """

    where: str
    format: str | None = None
    schema: str | None = None
    max_files: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The format, found out if it was not given."""
        if self.format is not None:
            return self.format
        if self.where.startswith("kafka://"):
            return "kafka"
        folder = Path(self.where)
        if (folder / "_delta_log").is_dir():
            return "delta"
        for file in self.files():
            for name, suffixes in _FORMATS.items():
                if file.name.lower().endswith(suffixes):
                    return name
        said = f"no Parquet, JSON or CSV file in {self.where} to tell the format by"
        raise LogError([said], hint="--format parquet, json, csv, delta or kafka")

    @property
    def address(self) -> str:
        """The place as Spark finds it, whose working directory is its own."""
        return self.where if "://" in self.where else str(Path(self.where).absolute())

    def files(self) -> list[Path]:
        """Return the files that are there, without those that Spark leaves out."""
        folder = Path(self.where)
        if not folder.exists() and "://" not in self.where:
            raise LogError(
                [f"no such folder: {self.where}"], hint="make it, and put files there by renaming them"
            )
        return sorted(
            file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "_"))
        )


def opened(spark: Any, stream: Stream, remembered: Path) -> Any:
    """Open a stream as a DataFrame; the columns are written down and stay the same after a restart."""
    kind = stream.kind
    if kind == "kafka":
        return _kafka(spark, stream)
    reader = spark.readStream.format(kind).options(**stream.options)
    if stream.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", stream.max_files)
    if kind == "delta":
        with _connector(kind, spark):
            return reader.load(stream.address)
    reader = reader.schema(_columns(spark, stream, kind, remembered))
    if kind == "csv":
        reader = reader.option("header", "true")
    if kind in _TEXT:
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    with one_line_errors():
        return reader.load(stream.address)


def decoded(frame: Any, schema: str, spark: Any) -> Any:
    """Return the columns of JSON messages in a column `value`, as Kafka has them."""
    from pyspark.sql import functions as sql

    kind = _with_corrupt(_parsed(spark, schema))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    read = sql.from_json(sql.col("value").cast("string"), kind, options)
    return frame.select(read.alias("message")).select("message.*")


def _kafka(spark: Any, stream: Stream) -> Any:
    if stream.schema is None:
        raise LogError(
            [f"{stream.where}: the columns of its messages are not known"],
            hint="--schema 'score double, group string, label int, position int, query string'",
        )
    parts = urlsplit(stream.where)
    topic = parts.path.strip("/")
    if not parts.netloc or not topic:
        raise LogError([f"{stream.where}: expected kafka://host:port/topic"])
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", parts.netloc)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    if stream.max_files is not None:
        reader = reader.option("maxOffsetsPerTrigger", stream.max_files)
    with _connector("kafka", spark):
        frame = reader.options(**stream.options).load()
    return decoded(frame, stream.schema, spark)


class _connector:  # noqa: N801  (reads as a context at its two places of use)
    """Say which package is missing where Spark only says that it has not found a class."""

    def __init__(self, kind: str, spark: Any) -> None:
        self._kind, self._spark = kind, spark

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, EvenoddsError):
            return
        text = str(error)
        if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find" in text or "Failed to load class" in text:
            package = _PACKAGES[self._kind].format(spark=self._spark.version)
            raise SettingsError(
                f"Spark has no connector for {self._kind}",
                hint=f"--package {package}, or its jar with --conf spark.jars=...",
            ) from None
        raise said_by(text) from None


def _columns(spark: Any, stream: Stream, kind: str, remembered: Path) -> Any:
    """Return the schema: as given, as written down, or as the first files have it."""
    from pyspark.sql.types import StructType

    if stream.schema is not None:
        found = _parsed(spark, stream.schema)
    elif remembered.exists():
        return StructType.fromJson(json.loads(remembered.read_text("utf-8")))
    else:
        suffixes = _FORMATS[kind]
        there = [file for file in stream.files() if file.name.lower().endswith(suffixes)]
        files = [str(file.absolute()) for file in there[:_LEARNED_FROM]]
        if not files:
            raise LogError(
                [f"no {kind} file in {stream.where} yet to learn the columns from"],
                hint="--schema 'score double, group string, label int, ...' names them",
            )
        reader = spark.read.format(kind).options(**stream.options)
        if kind == "csv":
            reader = reader.option("header", "true").option("inferSchema", "true")
        with one_line_errors():
            found = reader.load(files).schema
    if kind in _TEXT:
        found = _with_corrupt(found)
    with written_aside(remembered, overwrite=True, durable=True) as aside:
        aside.write_text(found.json(), "utf-8")
    return found


def _parsed(spark: Any, schema: str) -> Any:
    """Read a schema as SQL writes it."""
    from pyspark.sql.types import StructType

    try:
        return spark.createDataFrame([], schema).schema if schema.strip() else StructType([])
    except Exception as error:  # noqa: BLE001  (whatever it was, it is said in one line)
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LogError(
            [f"schema {schema!r}: {first[:200]}"], hint="as SQL has it: 'score double, label int'"
        ) from None


def _with_corrupt(schema: Any) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    kept = [known for known in schema.fields if known.name != CORRUPT]
    return StructType([*kept, StructField(CORRUPT, StringType())])
