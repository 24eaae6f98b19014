"""A fitted model as an ONNX file: scores and group codes in, fair scores out, all in 64 bits.

The graph does what :meth:`evenodds.Reranker.transform` does, operator by operator in the same order, so that
results agree to the last bit. Where a score has to be drawn (equalized odds, ties) the uniform draws are
an input: `uniform_draws` makes them from keys, and the file's metadata hold what another language
needs to make the same.
"""

from __future__ import annotations

import json
from typing import cast

import numpy as np
import numpy.typing as npt

from evenodds.export.flat import Curves, Flat, Kept, Pieces, flat
from evenodds.export.graph import Graph
from evenodds.export.search import Buckets, StepGuess
from evenodds.files import PathLike, written_aside
from evenodds.keys import coefficients, key_words, uniforms
from evenodds.reranker import Reranker

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_END = 2**62
_LARGEST = 1 << 20  # so many numbers a table of ends side by side may have
_WINDOW = 8  # so many ends are compared at once; more are halved first


def to_onnx(model: Reranker, path: PathLike, *, overwrite: bool = False) -> None:
    """Write a model as an ONNX file; needs ``pip install 'evenodds[export]'``.

    Inputs are ``scores`` (float64) and ``groups`` (int64 codes: the place of the group in the metadata
    entry ``groups``, anything else is an unknown group), and ``draws`` (float64 in [0, 1)) if the model
    draws; the output is ``fair_scores``. All have one entry an item. What `transform` refuses comes out
    as NaN: scores that are not finite, draws outside [0, 1), and under ``unknown="error"`` unknown groups.
    """
    content = onnx_bytes(model)
    with written_aside(path, overwrite=overwrite) as aside:
        aside.write_bytes(content)


def uniform_draws(model: Reranker, keys: object) -> Floats:
    """Return the uniform draws that belong to keys, for the input of that name.

    >>> import evenodds as eo
    >>> model = eo.EqualizedOdds(bins=5).fit(eo.tally(eo.simulate(500), cells=100))
    >>> uniform_draws(model, ["anna/7", "ben/7"]).shape
    (2,)
    """
    return uniforms(key_words(keys), model.salt_)


def onnx_bytes(model: Reranker) -> bytes:
    """Return the content of the ONNX file."""
    known = flat(model)
    graph = Graph()
    scores, codes, draws, valid, is_known = _checked(graph, known)
    if known.curves is not None:
        fair = _curve(graph, known.curves, scores, codes, draws)
        if known.back is not None:
            fair = _back(graph, known.back, fair)
    else:
        fair = _drawn(graph, known, scores, codes, draws)
    if known.alpha < 1.0:
        fair = graph("Add", graph("Mul", known.alpha, fair), graph("Mul", 1.0 - known.alpha, scores))
    if known.unknown == "keep":
        fair = graph("Where", is_known, fair, scores)
    graph("Where", valid, fair, float("nan"), output="fair_scores")
    inputs = [
        graph.value("scores", np.float64, "the model's scores"),
        graph.value("groups", np.int64, "group codes; see the metadata entry groups"),
    ]
    if known.draws:
        inputs.append(graph.value("draws", np.float64, "uniform draws in [0, 1), from keys"))
    output = graph.value("fair_scores", np.float64, "the fair scores, in the order of the items")
    made = graph.model(f"evenodds_{known.criterion}", inputs, output, _described(known), _metadata(known))
    return bytes(made.SerializeToString(deterministic=True))


def _checked(graph: Graph, known: Flat) -> tuple[str, str, str, str, str]:
    """Return scores, codes and draws that no look-up can stumble over, which items are sound, and known."""
    valid = graph("Equal", graph("Sub", "scores", "scores"), 0.0)  # NaN and infinity are not 0 apart
    scores = graph("Where", valid, "scores", 0.0)
    last = graph.whole(len(known.groups))
    is_known = ""
    if known.curves is not None and known.unknown == "pooled":
        # Tables are looked up from their end on where a place is negative: -1 is the last row, the pooled one.
        codes = graph("Clip", "groups", graph.whole(-1), last)
    else:
        above = graph("GreaterOrEqual", "groups", graph.whole(0))
        is_known = graph("And", above, graph("Less", "groups", last))
        codes = graph("Where", is_known, "groups", last)
    if known.unknown == "error":
        valid = graph("And", valid, is_known)
    draws = ""
    if known.draws:
        inside = graph("And", graph("GreaterOrEqual", "draws", 0.0), graph("Less", "draws", 1.0))
        valid = graph("And", valid, inside)
        draws = graph("Where", inside, "draws", 0.0)
    return scores, codes, draws, valid, is_known


def _counted(graph: Graph, base: str, ends: str, most: int, values: str) -> str:
    """Return `base` plus how many of the `most` sorted ends from there on are not above the value."""
    if most == 0:
        return base
    padded = _padded(graph, ends, most)
    while most > _WINDOW:
        half = 1 << (most.bit_length() - 1)
        shifted = graph("Slice", padded, graph.whole([half - 1]), graph.whole([_END]))
        above = graph("LessOrEqual", graph.gather(shifted, base), values)
        base = graph("Where", above, graph("Add", base, graph.whole(half)), base)
        most = half - 1
    places = graph("Add", graph("Unsqueeze", base, graph.whole([1])), graph.whole(np.arange(most)))
    return graph("Add", base, _reached(graph, graph.gather(padded, places), values))


def _padded(graph: Graph, ends: str, most: int) -> str:
    """Put ends behind the last that no value reaches."""
    return graph("Concat", ends, np.full(1 << most.bit_length(), np.inf), axis=0)


def _reached(graph: Graph, beside: str, values: str) -> str:
    """Count the ends in each row that are not above the value."""
    column = graph.whole([1])
    reached = graph("LessOrEqual", beside, graph("Unsqueeze", values, column))
    return graph("ReduceSum", graph.cast(reached, np.int64), column, keepdims=0)


def _located(graph: Graph, ends: Floats, values: str) -> str:
    """Return how many of the sorted ends are not above each value."""
    if not ends.size:
        return graph.cast(graph("Sub", values, values), np.int64)
    buckets = Buckets.over(ends)
    inside = graph("Clip", values, buckets.low, buckets.high)
    bucket = graph.floor_to_whole(graph("Mul", graph("Sub", inside, buckets.low), buckets.scale))
    return _found(graph, bucket, buckets.first, graph.constant(ends), buckets.most, values)


def _found(graph: Graph, row: str, first: Ints, ends: str, most: int, values: str) -> str:
    """Return ``first[row]`` plus how many of the `most` sorted ends from there on are not above the value."""
    small = np.uint16 if first.max() < 1 << 16 else np.int64
    firsts = graph.cast(graph.constant(first, small), np.int64)
    base = graph.gather(firsts, row)
    if not 0 < most <= _WINDOW or first.size * most > _LARGEST:
        return _counted(graph, base, ends, most, values)
    # The ends of each row stand side by side, in a table that a runtime makes when it opens the file.
    column = graph.whole([1])
    places = graph("Add", graph("Unsqueeze", firsts, column), graph.whole(np.arange(most)))
    beside = graph.gather(graph.gather(_padded(graph, ends, most), places), row)
    return graph("Add", base, _reached(graph, beside, values))


def _part(graph: Graph, table: str, start: int, stop: int, axis: int = 0) -> str:
    return graph("Slice", table, *map(graph.whole, ([start], [stop], [axis])))


def _framed(graph: Graph, rows: int, table: str, last: float = 0.0) -> str:
    """Put a column before the cells and one behind, for scores outside, and lay the rows end to end."""
    sides = (np.zeros((rows, 1)), np.full((rows, 1), last))
    return graph("Reshape", graph("Concat", sides[0], table, sides[1], axis=1), graph.whole([-1]))


def _curve(graph: Graph, curves: Curves, scores: str, codes: str, draws: str) -> str:
    """Evaluate each item's function; `codes` are rows of the tables."""
    rows, last = curves.cdf.shape[0], _END
    edges, cdf = graph.constant(curves.edges), graph.constant(curves.cdf)
    lower = _part(graph, cdf, 0, -1, 1)
    step = graph("Sub", _part(graph, cdf, 1, last, 1), lower)
    place = _located(graph, curves.edges, scores)
    start = graph(
        "Concat", _part(graph, edges, 0, 1), _part(graph, edges, 0, -1), _part(graph, edges, -1, last), axis=0
    )
    run = graph("Sub", scores, graph.gather(start, place))
    place = graph("Add", place, graph("Mul", codes, graph.whole(curves.cells + 2)))
    if curves.cubic is None:
        width = graph("Sub", _part(graph, edges, 1, last), _part(graph, edges, 0, -1))
        smooth = graph("Greater", width, 0.0)
        if curves.atom.any():
            smooth = graph("And", smooth, graph.constant(~curves.atom, np.bool_))
        slope = graph("Where", smooth, graph("Div", step, graph("Where", smooth, width, 1.0)), 0.0)
        slope = _framed(graph, rows, graph("Mul", slope, curves.height))
        run = graph("Mul", run, graph.gather(slope, place))
    else:
        linear, square, cube = (
            graph.gather(_framed(graph, rows, graph.constant(part)), place) for part in curves.cubic
        )
        inner = graph("Add", square, graph("Mul", run, cube))
        run = graph("Mul", run, graph("Add", linear, graph("Mul", run, inner)))
    base = _framed(graph, rows, graph("Mul", lower, curves.height), curves.height)
    run = graph("Add", run, graph.gather(base, place))
    if draws and curves.atom.any():
        jump = graph("Where", graph.constant(curves.atom, np.bool_), graph("Mul", step, curves.height), 0.0)
        run = graph("Add", run, graph("Mul", graph.gather(_framed(graph, rows, jump), place), draws))
    return run


def _back(graph: Graph, values: Floats, run: str) -> str:
    """Go back to the scale of the scores."""
    points = graph.constant(values)
    rise = graph("Sub", _part(graph, points, 1, _END), _part(graph, points, 0, -1))
    rise = graph("Concat", rise, np.zeros(1), axis=0)
    step = graph.floor_to_whole(run)
    run = graph("Sub", run, graph.cast(step, np.float64))
    return graph("Add", graph("Mul", run, graph.gather(rise, step)), graph.gather(points, step))


def _drawn(graph: Graph, known: Flat, scores: str, codes: str, draws: str) -> str:
    """Draw the target bin and the point within it."""
    inner, pieces = cast("Floats", known.inner), cast("Pieces", known.pieces)
    bins = inner.size + 1
    own = _located(graph, inner, scores)
    row = graph("Add", own, graph("Mul", codes, graph.whole(bins)))
    place = graph("Add", draws, graph.cast(row, np.float64))
    marks = graph.constant(pieces.marks)
    most = int(np.diff(np.append(pieces.begins, pieces.marks.size)).max()) - 1
    piece = _found(graph, row, pieces.begins, _behind(graph, marks), most, place)
    if known.kept is not None:
        return _in_order(graph, known, (scores, codes, own, row, place, piece))
    if known.back is None:
        start, first, rise = marks, graph.constant(pieces.first), graph.constant(pieces.rise)
    else:
        start, first, rise = _cut(graph, pieces, known.back)
        piece = _cut_found(graph, pieces, start, place, piece)
    place = graph("Sub", place, graph.gather(start, piece))
    place = graph("Mul", place, graph.gather(rise, piece))
    return graph("Add", place, graph.gather(first, piece))


def _behind(graph: Graph, starts: str) -> str:
    """Return where pieces end: where the next ones start."""
    return _part(graph, starts, 1, _END)


def _cut(graph: Graph, pieces: Pieces, back: Floats) -> tuple[str, str, str]:
    """Cut the pieces where they pass a step of the way back: start, outcome there and rise of each cut.

    `KernelTable` does the same once. All of it is made of constants, so a runtime computes it when it opens
    the file, which is a twentieth of the size.
    """
    low, span = graph.constant(pieces.low), graph.constant(pieces.span)
    total = pieces.start.size
    ones = graph("Expand", graph.whole(1), graph.whole([pieces.low.size]))
    zeros = graph("Expand", graph.whole(0), graph.whole([total]))
    offset = graph.whole(pieces.offset)
    # 0 0 0 1 1 2 ...: one more wherever a piece starts
    piece = graph("CumSum", graph("ScatterElements", zeros, offset, ones, axis=0), graph.whole(0))
    piece = graph("Sub", piece, graph.whole(1))
    within = graph("Sub", graph("Range", *map(graph.whole, (0, total, 1))), graph.gather(offset, piece))
    step = graph("Add", graph.gather(graph("Floor", low), piece), graph.cast(within, np.float64))
    low, span = graph.gather(low, piece), graph.gather(span, piece)
    high = graph("Add", low, span)
    from_level, to_level = graph("Max", step, low), graph("Min", graph("Add", step, 1.0), high)
    span = graph("Sub", high, low)
    share = _divided(graph, graph("Sub", from_level, low), span, 0.0)
    length = _divided(graph, graph("Sub", to_level, from_level), span, 1.0)
    width = graph.gather(graph.constant(pieces.width), piece)
    start = graph("Add", graph.gather(graph.constant(pieces.marks), piece), graph("Mul", width, share))
    first = _back(graph, back, from_level)
    rise = graph("Sub", _back(graph, back, to_level), first)
    return start, first, _divided(graph, rise, graph("Mul", width, length), 0.0)


def _divided(graph: Graph, above: str, below: str, otherwise: float) -> str:
    """Divide where there is something to divide by."""
    holds = graph("Greater", below, 0.0)
    return graph("Where", holds, graph("Div", above, graph("Where", holds, below, 1.0)), otherwise)


def _cut_found(graph: Graph, pieces: Pieces, start: str, place: str, piece: str) -> str:
    """Return the cut that a place lies on: calculated, and put right by as much as rounding can be off."""
    guess = StepGuess.of(pieces)
    within = graph("Sub", place, graph.gather(graph.constant(pieces.marks), piece))
    within = graph("Mul", within, graph.gather(graph.constant(guess.rate), piece))
    within = graph("Add", within, graph.gather(graph.constant(guess.phase), piece))
    last = graph.gather(graph.constant(guess.last), piece)
    step = graph.floor_to_whole(graph("Min", within, last))
    cut = graph("Add", step, graph.gather(graph.whole(pieces.offset), piece))
    if guess.early:
        cut = graph("Max", graph("Sub", cut, graph.whole(guess.early)), graph.whole(0))
    return _counted(graph, cut, _behind(graph, start), guess.early + guess.late, place)


def _in_order(graph: Graph, known: Flat, at: tuple[str, ...]) -> str:
    """Let items that stay in a harmless bin keep their place in it."""
    scores, codes, own, row, place, piece = at
    pieces, kept = cast("Pieces", known.pieces), cast("Kept", known.kept)
    drawn = graph("Sub", place, graph.gather(graph.constant(pieces.marks), piece))
    drawn = graph("Mul", drawn, graph.gather(graph.constant(pieces.inverse), piece))
    group = graph("Min", codes, graph.whole(len(known.groups) - 1))  # the pooled rows keep nothing
    level = _curve(graph, kept.curves, scores, group, "")
    bins = kept.below.shape[1] - 1
    edge = graph("Add", own, graph("Mul", group, graph.whole(bins + 1)))
    below = graph.constant(kept.below.ravel())
    low, high = graph.gather(below, edge), graph.gather(below, graph("Add", edge, graph.whole(1)))
    stood = _divided(graph, graph("Sub", level, low), graph("Sub", high, low), 0.5)
    stood = graph("Clip", stood, 0.0, 1.0 - 2.0**-36)
    stays = graph("Equal", graph.gather(graph.whole(pieces.target), piece), own)
    stays = graph("And", stays, graph.gather(graph.constant(kept.flags, np.bool_), row))
    far = graph("Mul", graph("Where", stays, stood, drawn), graph.gather(graph.constant(pieces.span), piece))
    fair = graph("Add", graph.gather(graph.constant(pieces.low), piece), far)
    return fair if known.back is None else _back(graph, known.back, fair)


def _described(known: Flat) -> str:
    names = ", ".join(" × ".join(group) for group in known.groups[:10])
    more = ", ..." if len(known.groups) > 10 else ""
    return (
        f"Fair scores ({known.criterion}, alpha {known.alpha:g}) for groups by "
        f"{' × '.join(known.group_columns)}: {names}{more}. Metadata: groups (code = place in the list), "
        "checksum of the model file, settings, and for draws from keys the salt and the coefficients made of it."
    )


def _metadata(known: Flat) -> dict[str, str]:
    """Return what a file says of itself; every value is text, structured ones JSON."""
    return {
        "format": "evenodds-onnx/1",
        "criterion": known.criterion,
        "checksum": known.checksum,
        "group_columns": json.dumps(known.group_columns, ensure_ascii=False),
        "groups": json.dumps(known.groups, ensure_ascii=False),
        "unknown": known.unknown,
        "unknown_code": str(len(known.groups)),
        "settings": json.dumps(known.settings, ensure_ascii=False),
        "salt": f"{known.salt:016x}",
        "coefficients": json.dumps([f"{int(part):016x}" for part in coefficients(known.salt)]),
    }
