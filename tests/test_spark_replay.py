"""Applying and forecasting on Spark: the same as on one machine, item by item."""

import numpy as np
import pyarrow as pa
import pytest

import evenodds as eo
from worlds import draw

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log():
    """Rank some lists; tie some scores, name items by number and viewers by text."""
    rng = np.random.default_rng(4)
    table = draw(rng, 600, lengths=(4, 12))
    score = np.where(rng.random(table.num_rows) < 0.3, 0.5, table["score"].to_numpy())
    table = table.set_column(table.column_names.index("score"), "score", pa.array(score))
    rows = table.num_rows
    return (
        table.append_column("item", pa.array(rng.permutation(rows)))
        .append_column("viewer", pa.array([f"vièwer {i % 97}" for i in range(rows)]))
        .append_column("tags", pa.array([[str(i)] * (i % 3) for i in range(rows)]))
    )


@pytest.fixture(scope="module")
def models(log):
    """Fit both criteria; both draw, one at its ties and one everywhere."""
    counted = eo.tally(log, cells=60)
    return {
        "opportunity": eo.EqualOpportunity(min_positives=5).fit(counted),
        "odds": eo.EqualizedOdds(bins=10, min_positives=5).fit(counted),
    }


def rows_of(frame, names):
    return sorted(zip(*(frame.toArrow()[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("criterion", ["opportunity", "odds"])
@pytest.mark.parametrize("keys", [None, ["viewer", "item"]])
def test_fair_scores_and_positions_are_the_local_ones(spark, log, models, criterion, keys):
    """Item by item, to the last bit: drawn by whole numbers or by text, whatever the partitions."""
    local = eo.apply(models[criterion], log, keys=keys)
    frame = eo.apply(models[criterion], spark.createDataFrame(log).repartition(5), keys=keys)
    names = ["item", "fair_score", "fair_position"]
    assert frame.columns == [*log.column_names, "fair_score", "fair_position"]
    assert rows_of(frame, names) == sorted(zip(*(local[n].to_pylist() for n in names), strict=True))
    assert frame.schema["fair_position"].dataType.simpleString() == "int"
    assert rows_of(frame, ["item", "tags"]) == sorted(
        zip(log["item"].to_pylist(), log["tags"].to_pylist(), strict=True)
    )


def test_equal_fair_scores_stay_as_they_stood(spark, models):
    """Ties keep the order of their positions on both engines, however the rows are shuffled."""
    table = pa.table(
        {
            "query": [1] * 6,
            "item": [10, 11, 12, 13, 14, 15],
            "position": [4, 1, 3, 2, 6, 5],
            "score": [0.7, 0.7, 0.7, 0.7, 0.9, 0.7],
            "group": ["a"] * 6,
        }
    )
    model = eo.EqualOpportunity(position_bias="none", alpha=0.0, min_positives=1).fit(
        pa.table(
            {
                "score": [0.1, 0.9] * 20,
                "group": ["a", "b"] * 20,
                "label": [1, 1, 0, 0] * 10,
                "position": [1] * 40,
            }
        )
    )
    expected = [(10, 5), (11, 2), (12, 4), (13, 3), (14, 1), (15, 6)]
    local = eo.apply(model, table)
    assert list(zip(local["item"].to_pylist(), local["fair_position"].to_pylist(), strict=True)) == expected
    frame = eo.apply(model, spark.createDataFrame(table).repartition(4))
    assert rows_of(frame, ["item", "fair_position"]) == expected


def test_draws_without_keys_are_refused(spark, log, models):
    """Rows of Spark have no number to repeat a draw by, so a model that draws asks for keys."""
    frame = spark.createDataFrame(log.drop_columns(["item"]))
    with pytest.raises(
        eo.SettingsError, match=r"have no number to repeat a draw by \(hint: name key columns"
    ):
        eo.apply(models["odds"], frame)


def test_wrong_columns_are_told_before_any_job(spark, log, models):
    """Keys that are not there, and columns that are there already, are told at once."""
    frame = spark.createDataFrame(log.slice(0, 9)).withColumnRenamed("viewer", "fair_score")
    with pytest.raises(eo.LogError) as error:
        eo.apply(models["odds"], frame, keys=["itm"])
    assert error.value.problems == (
        "the log has a column 'fair_score' already",
        "no column 'itm' for key, did you mean 'item'?",
    )


@pytest.mark.parametrize("criterion", ["opportunity", "odds"])
def test_a_forecast_is_the_local_one(spark, log, models, criterion):
    """Every figure, interval and note of a forecast on Spark equals that of the local engine."""
    local = eo.forecast(models[criterion], log)
    found = eo.forecast(models[criterion], spark.createDataFrame(log).repartition(3))
    assert found.to_dict() == local.to_dict()


def test_lists_that_were_cut_off_are_named_by_query(spark, log, models):
    """Lists that lack positions are counted as locally, and one of them is named."""
    thinned = log.filter(np.arange(log.num_rows) % 3 > 0)
    with pytest.raises(eo.LogError) as local:
        eo.forecast(models["odds"], thinned)
    with pytest.raises(eo.LogError) as found:
        eo.forecast(models["odds"], spark.createDataFrame(thinned))
    assert str(found.value).partition(", for instance")[0] == str(local.value).partition(", for instance")[0]
    assert "that of query " in str(found.value)
    same = [
        eo.forecast(models["odds"], data, max_cut_off=1) for data in (thinned, spark.createDataFrame(thinned))
    ]
    assert same[0].to_dict() == same[1].to_dict()
