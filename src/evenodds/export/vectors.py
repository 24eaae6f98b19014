"""Golden vectors: items with every step of their way to a fair score, to check a reader in any language.

What stands in them is taken from the scorer's own tables step by step, and the last step is
:meth:`evenodds.Reranker.transform` itself.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.export.flat import Flat, flat
from evenodds.keys import MIXER, Words, coefficients, key_words, uniforms
from evenodds.reranker import Reranker
from evenodds.scoring.scorer import Codes, Scorer

Floats = npt.NDArray[np.float64]
Key = str | int

FORMAT = "evenodds-vectors/1"
TOLERANCE = 1e-9  # of the range of the scores, or of their size
_GROUPS = 8  # so many groups get items of their own
_PLACES = 7  # so many cells, from the first to the last
_UNSEEN = "a group that the model has not seen"
_KEYS: tuple[tuple[Key, ...], ...] = (
    ("",),
    ("a",),
    ("anna/job7",),
    ("Zoë 東京 😀",),
    ("tab\tline\n\x01",),
    ("7",),
    (7,),
    (0,),
    (-1,),
    (2**53 + 1,),
    (-(2**63),),
    (2**63 - 1,),
    ("anna", 7),
    (7, "anna"),
    ("viewer", "item", 9),
    ("x" * 300,),
)


def golden_vectors(model: Reranker) -> dict[str, Any]:
    """Return the vectors of a model, as plain JSON values.

    ``hash`` has keys and what they become, ``items`` has items and what they become. Whole numbers that not
    every language reads exactly from JSON are texts: keys decimal, 64-bit words hexadecimal.

    >>> import evenodds as eo
    >>> vectors = golden_vectors(eo.EqualOpportunity().fit(eo.tally(eo.simulate(500), cells=50)))
    >>> sorted(vectors["items"][0])
    ['cell', 'code', 'fair_score', 'group', 'level', 'score']
    """
    known, scorer = flat(model), model.scorer_
    a, b, c = (f"{int(part):016x}" for part in coefficients(known.salt))
    low, high = known.edges[[0, -1]].tolist()
    return {
        "format": FORMAT,
        "model": known.checksum,
        "criterion": known.criterion,
        "tolerance": TOLERANCE * max(high - low, abs(low), abs(high), 1e-300),
        "salt": f"{known.salt:016x}",
        "coefficients": {"a": a, "b": b, "c": c},
        "hash": [_hashed(key, known.salt) for key in _KEYS],
        "items": _items(known, scorer),
    }


def _hashed(key: tuple[Key, ...], salt: int) -> dict[str, Any]:
    words = _words(key)
    v, w = map(int, words[:, 0])
    a, b, c = map(int, coefficients(salt))
    summed = (v * a + w * b + c) % 2**64
    folded = summed ^ (summed >> 32)
    return {
        "key": _plain_key(key),
        "words": [v, w],
        "summed": f"{summed:016x}",
        "folded": f"{folded:016x}",
        "mixed": f"{folded * MIXER % 2**64:016x}",
        "draw": float(uniforms(words, salt)[0]),
    }


def _words(key: tuple[Key, ...]) -> Words:
    return key_words(_columns(key))


def _columns(parts: tuple[Any, ...]) -> Any:
    """Return one item's key or group as columns: a column alone, several as a tuple."""
    columns = tuple(np.array([part]) if isinstance(part, int) else [part] for part in parts)
    return columns if len(columns) > 1 else columns[0]


def _plain_key(key: tuple[Key, ...]) -> list[dict[str, str]]:
    return [{"text": part} if isinstance(part, str) else {"whole": str(part)} for part in key]


def _items(known: Flat, scorer: Scorer) -> list[dict[str, Any]]:
    """Return items of the first groups and of unknown ones, whose scores lie in, at, below and above cells."""
    scores = _scores(known)
    groups: list[tuple[Any, ...]] = [*known.groups[:_GROUPS]]
    if known.unknown != "error":
        width = len(known.group_columns)
        groups += [(_UNSEEN,) * width, (None,) * width]
    keys = cycle(_KEYS)
    items = []
    for group in groups:
        codes = scorer.codes(_columns(group), 1)
        code = known.groups.index(group) if group in known.groups else len(known.groups)
        for score in scores:
            key = next(keys)
            item: dict[str, Any] = {"score": float(score), "group": list(group), "code": code}
            draws = np.zeros(1)
            if known.draws:
                words = _words(key)
                draws = uniforms(words, known.salt)
                item |= {"key": _plain_key(key), "words": words[:, 0].tolist(), "draw": float(draws[0])}
            fair = scorer.transform([score], _columns(group), keys=_columns(key))
            items.append(
                item | _way(scorer, np.array([score]), codes, draws) | {"fair_score": float(fair[0])}
            )
    return items


def _scores(known: Flat) -> Floats:
    """Return scores below, at and between the cells' ends, at atoms, and above."""
    edges = known.edges
    places = np.unique(np.linspace(0, edges.size - 1, _PLACES).astype(np.int64))
    if known.curves is not None:
        places = np.unique(np.concatenate((places, np.flatnonzero(known.curves.atom)[:3])))
    span = max(float(edges[-1] - edges[0]), 1.0)
    ends = edges[places]
    inside = ends[:-1] + np.array([0.25, 0.5, 0.9])[np.arange(ends.size - 1) % 3] * np.diff(ends)
    return np.unique(np.concatenate(([edges[0] - 0.1 * span], ends, inside, [edges[-1] + 0.1 * span])))


def _way(scorer: Any, scores: Floats, codes: Codes, draws: Floats) -> dict[str, Any]:
    """Return the steps between a score and its fair score."""
    if scorer.criterion == "opportunity":
        maps = scorer.maps
        cell = int(maps.edges.searchsorted(scores, "right")[0]) - 1
        run = maps(scores, codes, draws if maps.has_atoms else None)
        height = 1.0 if scorer.scale == "unit" else scorer.back.steps
        return {"cell": cell, "level": float(run[0] / height)}
    table = scorer.table
    bins = int(scorer.inner.searchsorted(scores, "right")[0])
    piece, place = table.piece(codes + bins, draws)
    within = table.within(piece, place)
    if scorer.order is not None:
        rows = codes + bins
        stays = scorer.order.kept[rows] & (table.target[piece] == bins)
        if stays[0]:
            within = scorer.order.within(scores, codes // table.bins, np.array([bins]))
    return {"bin": bins, "target": int(table.target[piece[0]]), "within": float(within[0])}
