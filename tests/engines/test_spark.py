"""A tally counted on Spark is the local one, to the last count."""

import pyarrow.parquet as pq
import pytest

import evenodds as eo

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


def without_source(model):
    model.fitted_on_["sources"] = []
    return model


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
