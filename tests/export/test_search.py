"""A guess from a table bounds the place of a value exactly, whatever the rounding."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from evenodds.export.flat import flat
from evenodds.export.search import MAX_BUCKETS, Buckets, StepGuess
from fitted_models import fitted

numbers = st.floats(-1e12, 1e12, allow_subnormal=False)


@st.composite
def ends_and_values(draw):
    """Sorted ends, some next to each other, and values at, beside and between them."""
    ends = set(draw(st.lists(numbers, min_size=1, max_size=30)))
    ends |= {np.nextafter(end, np.inf) for end in draw(st.lists(st.sampled_from(sorted(ends)), max_size=5))}
    ends = np.array(sorted(ends))
    values = np.array(draw(st.lists(numbers, max_size=10)))
    beside = (ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf), [-1e300, 1e300])
    return ends, np.concatenate((values, *beside))


@given(ends_and_values())
def test_the_bucket_bounds_the_place(case):
    """The number of ends not above a value is `first` of its bucket, or up to `most` more."""
    ends, values = case
    buckets = Buckets.over(ends)
    place = np.searchsorted(ends, values, side="right")
    first = buckets.first[buckets.of(values)]
    assert (first <= place).all()
    assert (place <= first + buckets.most).all()


@given(ends_and_values())
def test_cells_reach_into_the_buckets_of_their_values(case):
    """Every value's cell reaches into the value's bucket, so that a join on buckets finds it."""
    ends, values = case
    buckets = Buckets.over(ends)
    begins, stops = buckets.reach()
    cell, bucket = np.searchsorted(ends, values, side="right"), buckets.of(values)
    assert (begins[cell] <= bucket).all()
    assert (bucket <= stops[cell]).all()


def test_few_ends_share_a_bucket_where_that_can_be():
    """Quantiles of a normal score need few buckets; ends next to each other share one whatever is done."""
    ends = np.sort(np.random.default_rng(0).normal(size=10_000))
    assert Buckets.over(ends).most <= 12
    assert Buckets.over(ends).first.size <= MAX_BUCKETS
    assert Buckets.over(np.array([1.0, np.nextafter(1.0, 2.0), 2.0])).most == 2


@pytest.mark.parametrize("name", ["odds, movement", "odds, frontier", "odds, gap", "odds, many groups"])
def test_the_guess_of_a_cut_is_hardly_off(name):
    """The straight line finds the cut of every place to within the stated number, mostly one."""
    pieces = flat(fitted(name)).pieces
    guess = StepGuess.of(pieces)
    rng = np.random.default_rng(0)
    place = rng.uniform(0, pieces.begins.size, 50_000)
    place = np.concatenate((place, pieces.start, np.nextafter(pieces.start[1:], 0.0)))
    cut = np.searchsorted(pieces.start, place, side="right") - 1
    piece = np.searchsorted(pieces.marks, place, side="right") - 1
    far = np.minimum(
        (place - pieces.marks[piece]) * guess.rate[piece] + guess.phase[piece], guess.last[piece]
    )
    off = pieces.offset[piece] + np.floor(far).astype(int) - cut
    assert -guess.late <= off.min()
    assert off.max() <= guess.early
    assert guess.early + guess.late <= 4
