"""Commands with --engine spark: what they print and write is what the local engine gives."""

import csv
import json

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import evenodds as eo
from evenodds.cli import cli

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory, simulated):
    """Write a log in two Parquet files, and as one CSV."""
    made = tmp_path_factory.mktemp("cli")
    (made / "log").mkdir()
    part = simulated.slice(0, 20_000)
    for number in (0, 1):
        pq.write_table(part.slice(10_000 * number, 10_000), made / "log" / f"part-{number}.parquet")
    pc.write_csv(part, made / "log.csv")
    return made


def run(*arguments):
    """Run a command; raise what it raises."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments):
    """Run a command that fails; return its error."""
    with pytest.raises(eo.EvenoddsError) as error:
        CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_command_gives_what_it_gives_locally(spark, folder, tmp_path):
    """tally, fit, audit and forecast: files to the byte, and the same words."""
    said = {}
    for engine in ("local", "spark"):
        work = tmp_path / engine
        work.mkdir()
        on = ("--engine", engine)
        said[engine] = [
            run("tally", folder / "log", "-o", work / "day.tally", "--cells", 500, *on),
            run("fit", folder / "log", "-o", work / "model.json", "--cells", 500, *on),
            run("audit", folder / "log", "--model", work / "model.json", "--cells", 500, "--json", *on),
            run("forecast", work / "model.json", folder / "log", "--json", *on),
        ]
    for name in ("day.tally", "model.json"):
        assert (tmp_path / "spark" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    assert [words.replace("/spark/", "/local/") for words in said["spark"]] == said["local"]


def test_apply_writes_a_folder_whole_or_not_at_all(spark, folder, tmp_path):
    """The folder holds the local engine's rows; it is not overwritten unasked, nor left half-written."""
    run("fit", folder / "log", "-o", tmp_path / "model.json")
    run("apply", tmp_path / "model.json", folder / "log", "-o", tmp_path / "local.parquet")
    out = tmp_path / "fair.parquet"
    command = ("apply", tmp_path / "model.json", folder / "log", "-o", out, "--engine", "spark")
    assert "20,000 rows with fair_score and fair_position" in run(*command)
    by = [("query", "ascending"), ("position", "ascending")]
    local = pq.read_table(tmp_path / "local.parquet").sort_by(by)
    assert pq.read_table(out).sort_by(by).to_pydict() == local.to_pydict()
    assert "exists already (hint: choose another name" in refused(*command)
    run(*command, "--force")
    bad = pq.read_table(folder / "log").to_pylist()
    bad[777]["score"] = float("nan")
    pq.write_table(pa.Table.from_pylist(bad), tmp_path / "bad.parquet")
    found = refused(
        "apply",
        tmp_path / "model.json",
        tmp_path / "bad.parquet",
        "-o",
        tmp_path / "x.parquet",
        "--engine",
        "spark",
    )
    assert found.startswith("null, NaN or infinite score in column 'score'")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bad.parquet",
        "fair.parquet",
        "local.parquet",
        "model.json",
    ]


@pytest.mark.parametrize("form", ["csv", "json", "orc", "table"])
def test_anything_that_spark_reads_is_counted(spark, folder, tmp_path, form):
    """CSV, JSON and ORC files and tables by name give the counts of the Parquet files."""
    expected = eo.tally(folder / "log", cells=500)
    source = tmp_path / f"log.{form}"
    frame = spark.read.parquet(str(folder / "log"))
    if form == "table":
        frame.createOrReplaceTempView("impressions")
        source = "impressions"
    elif form == "csv":
        source = folder / "log.csv"
    else:
        frame.write.format(form).save(str(source))
    run("tally", source, "-o", tmp_path / "day.tally", "--cells", 500, "--engine", "spark")
    assert eo.Tally.load(tmp_path / "day.tally").equals(expected)


def test_csv_and_json_are_written_too(spark, folder, tmp_path):
    """Apply writes CSV with a header, and JSON, when the name says so."""
    run("fit", folder / "log", "-o", tmp_path / "model.json")
    for suffix in ("csv", "json"):
        out = tmp_path / f"fair.{suffix}"
        run("apply", tmp_path / "model.json", folder / "log", "-o", out, "--engine", "spark")
    with next((tmp_path / "fair.csv").glob("part-*.csv")).open() as file:
        assert "fair_score" in next(csv.DictReader(file))
    with next((tmp_path / "fair.json").glob("part-*.json")).open() as file:
        assert "fair_position" in json.loads(next(file))


def test_what_is_not_there_or_cannot_be_read_is_one_line(spark, folder, tmp_path):
    """Missing files and tables, Arrow files, mixed formats, unknown formats: one line each."""
    model = tmp_path / "model.json"
    run("fit", folder / "log", "-o", model)
    (tmp_path / "log.orc").write_bytes(b"ORC no more")
    for source, said in (
        ("gone.parquet", "no such file: gone.parquet"),
        ("gone", "no such file or table: gone"),
        ("s3x://bucket/log", "Spark could not read the log: "),
        ("log.arrow", "Spark does not read Arrow files"),
        (tmp_path / "log.orc", "Spark could not read the log: "),
    ):
        assert said in refused("audit", source, "--engine", "spark")
    assert "several formats" in refused("audit", folder / "log", folder / "log.csv", "--engine", "spark")
    assert "Spark writes .parquet, .csv" in refused(
        "apply", model, folder / "log", "-o", tmp_path / "x.arrow", "--engine", "spark"
    )
