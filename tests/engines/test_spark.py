"""A tally counted on Spark is the local one, to the last count."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenodds as eo
from evenodds.distance import ks_distance
from evenodds.engines.partial import gathered

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Write a log larger than the sample that makes a grid, in two files of several row groups."""
    folder = tmp_path_factory.mktemp("large")
    table = eo.simulate(7_000, seed=5)
    for number, part in enumerate((table.slice(0, 200_000), table.slice(200_000))):
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=30_000)
    return folder


def frame_of(spark, table, partitions=3):
    return spark.createDataFrame(table).repartition(partitions)


@pytest.mark.parametrize("partitions", [None, 1, 2, 17])
def test_tally_and_model_equal_the_local_ones(spark, large, tmp_path, partitions):
    """At any number of partitions the tally is equal, and the model file byte-identical."""
    frame = spark.read.parquet(str(large))
    frame = frame if partitions is None else frame.repartition(partitions)
    local, counted = eo.tally(large), eo.tally(frame)
    assert counted.equals(local)
    assert counted.sources == local.sources
    eo.EqualOpportunity().fit(local).save(tmp_path / "local.json")
    eo.EqualOpportunity().fit(counted).save(tmp_path / "spark.json")
    assert (tmp_path / "spark.json").read_bytes() == (tmp_path / "local.json").read_bytes()


CASES = {
    "weights, crossed groups, text queries": {"group": ["group", "age"]},
    "no weight": {"weight": None},
    "no query": {"query": None, "item": None},
    "no position": {"position": None},
    "score and label only": {"position": None, "query": None, "weight": None, "item": None},
    "a shallow depth": {"depth": 4},
    "groups of whole numbers": {"group": "item"},
    "booleans as groups": {"group": "age"},
}


@pytest.mark.parametrize("case", CASES)
def test_every_role_counts_as_it_does_locally(spark, mixed, case):
    """Weights, crossed groups, numbers, booleans, and logs without optional columns: equal tallies."""
    local = eo.tally(mixed, cells=12, **CASES[case])
    assert eo.tally(frame_of(spark, mixed), cells=12, **CASES[case]).equals(local)


def test_empty_and_skewed_partitions_change_nothing(spark, mixed):
    """Partitions without rows, and one with nearly all of them, give the same tally."""
    local = eo.tally(mixed, cells=12)
    frame = spark.createDataFrame(mixed).selectExpr("*", "if(position = 7, item % 3, -1) as slot")
    skewed = frame.repartition(13, "slot").drop("slot")
    assert min(map(len, skewed.rdd.glom().collect())) == 0
    assert eo.tally(skewed, cells=12).equals(local)


def test_a_log_without_rows_is_said_to_be_empty(spark, mixed):
    """A DataFrame whose partitions are all empty is the local error."""
    with pytest.raises(eo.LogError, match="the log is empty: no rows"):
        eo.tally(spark.createDataFrame(mixed).where("position > 1000"))


def test_a_task_that_fails_and_runs_again_is_counted_once(spark, mixed, tmp_path):
    """Tasks that die in the middle of their partition, after some rows were counted, change no count."""
    folder = str(tmp_path)

    def fail_once(batches):
        from pathlib import Path

        from pyspark import TaskContext

        mark = Path(folder, str(TaskContext.get().partitionId()))
        for batch in batches:
            yield batch
            if not mark.exists():
                mark.touch()
                raise RuntimeError("this machine went away")

    frame = spark.createDataFrame(mixed).repartition(3)
    counted = eo.tally(frame.mapInArrow(fail_once, frame.schema), grid=eo.tally(mixed, cells=12))
    assert len(list(tmp_path.iterdir())) == 3
    assert counted.equals(eo.tally(mixed, cells=12))


def test_wide_merges_give_the_same(spark, mixed, monkeypatch):
    """Merging partial tallies in two steps, as on a cluster of many cores, gives the same tally."""
    monkeypatch.setattr("evenodds.engines.spark._cores", lambda session: 9)
    assert eo.tally(frame_of(spark, mixed, 17), cells=12).equals(eo.tally(mixed, cells=12))


def test_what_reaches_the_driver_is_one_row_a_group(spark, mixed, monkeypatch):
    """However many partitions there are, the driver gets a row for each group and one of facts."""
    from evenodds.engines import spark as engine

    seen = []
    monkeypatch.setattr(engine, "gathered", lambda parts, plan: seen.extend(parts) or gathered(parts, plan))
    eo.tally(frame_of(spark, mixed, 17), cells=12)
    assert sorted(part.name or "" for part in seen) == ["", '["\\u00df"]', '["a"]', '["b"]']


def test_settings_of_the_session_are_put_back(spark, mixed):
    """Counting leaves the session's settings as they were, also after an error."""
    names = [f"spark.sql.execution.arrow.max{what}PerBatch" for what in ("Records", "Bytes")]
    before = [spark.conf.get(name) for name in names]
    eo.tally(frame_of(spark, mixed), cells=12)
    with pytest.raises(eo.LogError):
        eo.tally(frame_of(spark, mixed).selectExpr("score", "group", "2 as label"))
    assert [spark.conf.get(name) for name in names] == before


def test_groups_of_any_name_are_counted(spark):
    """Rare groups that the first rows do not show, quotes, backslashes and line ends are all counted."""
    names = ["it's", 'a "b"', "back\\slash", "new\nline", "%_", "東京", *(f"g{i}" for i in range(40))]
    rng = np.random.default_rng(2)
    group = np.array(names, object)[np.minimum(rng.geometric(0.2, 9_000) - 1, len(names) - 1)]
    group[:5_000] = "it's"
    table = pa.table(
        {
            "score": rng.random(9_000),
            "group": pa.array(group),
            "label": rng.integers(0, 2, 9_000),
            "position": rng.integers(1, 5, 9_000),
        }
    )
    frame = spark.createDataFrame(table)
    assert eo.tally(frame, cells=5).equals(eo.tally(table, cells=5))
    few = frame.where("group in ('new\\nline', 'back\\\\slash', 'it\\'s')").withColumnRenamed(
        "label", "a.b`c"
    )
    local = table.filter(np.isin(group, ["new\nline", "back\\slash", "it's"]))
    assert eo.tally(few, cells=5, label="a.b`c").counts.sum() == local.num_rows


def test_days_counted_on_both_engines_add_up(spark, mixed):
    """A tally of Spark on the grid of a local one merges with it."""
    monday, tuesday = mixed.slice(0, 300), mixed.slice(300)
    first = eo.tally(monday, cells=12)
    second = eo.tally(frame_of(spark, tuesday), grid=first)
    assert (first + second).equals(eo.tally(mixed, grid=first))


BAD = {
    "null in column 'group' in 2 rows (first: at row ": (
        "group",
        "case when item = 7 then null else group end",
    ),
    "NaN or infinite score in column 'score' in 1 row (first: nan at row ": (
        "score",
        "case when query = 'q3' and position = 1 then double('nan') else score end",
    ),
    "label outside {0, 1} in column 'label' in ": ("label", "label * 200"),
    "position below the first in column 'position', positions start at 0 or 1, in ": (
        "position",
        "-position",
    ),
    "negative or infinite weight in column 'weight' in ": ("weight", "-weight"),
    "null in column 'query' in ": ("query", "nullif(query, 'q3')"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_values_are_named_with_their_partition(spark, mixed, message):
    """A bad value is one line with its column, row and partition, and no word of a JVM."""
    column, value = BAD[message]
    table = mixed.set_column(mixed.column_names.index("item"), "item", pa.array(range(mixed.num_rows)))
    others = [f"`{name}`" for name in table.column_names if name != column]
    frame = spark.createDataFrame(table).selectExpr(*others, f"{value} as `{column}`")
    with pytest.raises(eo.LogError) as error:
        eo.tally(frame)
    said = str(error.value)
    assert message.replace("2 rows", "1 row") in said
    assert " of partition " in said
    assert "\n" not in said
    assert "java" not in said.lower()


def test_columns_are_checked_before_a_job_starts(spark):
    """Missing columns and wrong types are told from the schema: nothing of the frame is computed."""
    frame = spark.range(10).selectExpr(
        "raise_error('computed') as score", "cast(id as decimal(9, 2)) as label", "array(id) as group"
    )
    with pytest.raises(eo.LogError) as error:
        eo.Log(frame, score="scroe")
    assert error.value.problems == (
        "no column 'scroe' for score, did you mean 'score'?",
        "column 'label' (label) has type decimal128(9, 2); expected 0 and 1, or booleans",
        "column 'group' (group) has type list<item: null>; expected text, whole numbers or booleans",
    )


def test_what_spark_says_itself_is_one_line(spark):
    """An error of the DataFrame's own is told in one line."""
    frame = spark.range(10).selectExpr(
        "double(raise_error('the disk is gone')) as score", "'a' as group", "1 as label"
    )
    with pytest.raises(eo.LogError, match=r"Spark could not read the log: .*the disk is gone") as error:
        eo.tally(frame)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("identity", [{"query": "query"}, {"query": None, "item": None}])
def test_the_sample_does_not_depend_on_partitions(spark, simulated, monkeypatch, identity):
    """A log that is no plain file gives the same grid at any partitioning, and a sample like the log."""
    monkeypatch.setattr("evenodds.spark_frame.SAMPLE", 5_000)
    table = simulated.slice(0, 40_000)
    tied = np.where(np.arange(40_000) % 5 == 0, 0.25, table["score"].to_numpy())
    table = table.set_column(table.column_names.index("score"), "score", pa.array(tied))
    frame = spark.createDataFrame(table)
    samples = [
        np.sort(eo.Log(part, **identity).score_sample())
        for part in (frame, frame.repartition(1), frame.orderBy("score").repartition(17))
    ]
    assert all((sample == samples[0]).all() for sample in samples)
    assert abs(samples[0].size - 5_000) < 4 * np.sqrt(5_000)
    assert ks_distance(samples[0], tied) < 1.95 / np.sqrt(samples[0].size)


def test_rows_stay_on_the_cluster(spark, mixed):
    """What reads rows one by one says so, instead of fetching a cluster's rows to one machine."""
    log = eo.Log(frame_of(spark, mixed))
    with pytest.raises(eo.LogError, match="is not done for a Spark DataFrame"):
        next(iter(log.batches()))
