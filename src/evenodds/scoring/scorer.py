"""The base of the transforms: from scores, groups and keys, as a caller has them, to fair scores.

A scorer is what a fitted model is in the request path. Nothing in it changes once it is made, but for
remembered look-ups of group values; so threads may share it, and another one can take its place by
assigning one name.
"""

from __future__ import annotations

import copy
import os
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from evenodds.errors import RandomDrawWarning, SettingsError
from evenodds.groups import GroupIndex, Unknown
from evenodds.keys import Words, is_one_key, key_words, salt_of, seeded_words

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


class Scorer(ABC):
    """A fitted model's transform as flat arrays: thread-safe, and can be pickled.

    ``Scorer.load("model.json")`` reads one; a fitted model has it as `scorer_`.

    Attributes
    ----------
    index
        Looks group values up.
    alpha, unknown
        As in the model's settings.
    draws
        Whether scores may be drawn at random, so that keys matter.
    """

    criterion: ClassVar[str]

    def __init__(self, index: GroupIndex, alpha: float, unknown: Unknown, *, draws: bool) -> None:
        self.index = index
        self.alpha = alpha
        self.unknown: Unknown = unknown
        self.draws = draws

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Scorer:
        """Read a model file's transform; a damaged file, or one of a later version, is refused."""
        from evenodds.scoring.load import load_scorer

        return load_scorer(path)

    @classmethod
    @abstractmethod
    def from_tables(cls, body: dict[str, Any], index: Callable[[int], GroupIndex]) -> Self:
        """Make a scorer of a model file's content; `index` makes an index with the given stride."""

    @abstractmethod
    def to_tables(self, names: list[str]) -> dict[str, Any]:
        """Return the model file's tables; `names` are those of the groups, and of the pooled map."""

    @abstractmethod
    def numbers(self) -> bytes:
        """Return what tells these tables from another model's."""

    @abstractmethod
    def _fair(self, scores: Floats, codes: Codes, words: Callable[[], Words] | None) -> Floats:
        """Transform; `words` is called only where something has to be drawn."""

    @cached_property
    def salt(self) -> int:
        """What is added to every key, so that two models draw independently."""
        return salt_of(self.numbers())

    def changed(self, alpha: float, unknown: Unknown) -> Self:
        """Return the same tables under other settings."""
        other = copy.copy(self)
        other.alpha, other.unknown = alpha, unknown
        return other

    def transform(
        self, scores: object, groups: object, keys: object = None, *, seed: int | None = None
    ) -> Floats:
        """Return the fair score of each item, in the order in which they came.

        Parameters
        ----------
        scores
            Numbers, none of them missing or infinite.
        groups
            One value an item, as in the log; a tuple of columns for crossed groups.
        keys
            What makes a draw repeat itself: text or whole numbers, or a tuple of such columns, for
            instance viewer and item ids; in a tuple, one value alone stands for all items. The same
            key gives the same draw in any batch or process; 7 and "7" are different keys.
        seed
            Stands in for keys: draws then depend on the place in the batch.
        """
        try:
            values = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise SettingsError("scores are not all numbers", hint="nothing was transformed") from None
        if values.ndim != 1:
            raise SettingsError(f"scores have {values.ndim} dimensions; expected one number an item")
        codes = self.index.known_codes(groups, values.size)
        if codes is None:
            codes = self.codes(groups, values.size)
        if keys is not None:
            _check_length(keys, values.size)
        if not self.draws:
            return self._fair(values, codes, None)
        return self._fair(values, codes, lambda: self.words(keys, seed, values.size))

    def transform_codes(self, scores: Floats, codes: Codes, keys: object) -> Floats:
        """Transform items whose groups have been looked up; keys are needed where scores are drawn."""
        return self._fair(scores, codes, (lambda: self.words(keys, 0, scores.size)) if self.draws else None)

    def transform_words(
        self, scores: Floats, groups: object, words: Words | None, *, seed: int = 0, first: int = 0
    ) -> Floats:
        """Transform a part of a log: keys already hashed, or row numbers from `first` under a seed."""
        codes = self.codes(groups, scores.size)
        return self._fair(
            scores, codes, lambda: seeded_words(scores.size, seed, first) if words is None else words
        )

    def codes(self, groups: object, size: int) -> Codes:
        """Return the place of each item's group in the tables, whatever the setting says of unknown ones."""
        codes = self.index.codes(groups, size)
        if self.unknown == "error":
            self.index.check_known(codes, groups)
        return codes

    def words(self, keys: object, seed: int | None, size: int) -> Words:
        """Return key words for draws; without keys, by a seed that is said when it is made up."""
        if keys is not None:
            words = key_words(keys)
            return words if words.shape[1] == size else np.broadcast_to(words, (2, size))
        if seed is None:
            seed = secrets.randbits(31)
            warnings.warn(
                f"scores were drawn at random without keys; seed={seed} repeats them, keys keep them per item",
                RandomDrawWarning,
                stacklevel=7,
            )
        return seeded_words(size, seed)

    def check_finite(self, scores: Floats) -> None:
        """Refuse scores that are not finite, and say which is the first."""
        if b"\0" not in np.isfinite(scores).tobytes():  # in a request a third of the time that all() takes
            return
        first = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise SettingsError(
            f"score {scores[first]} at place {first}; expected finite numbers", hint="nothing was transformed"
        )

    def _blended(self, fair: Floats, scores: Floats, codes: Codes) -> Floats:
        """Go as far as alpha says, and leave unknown groups their scores where that is asked for."""
        if self.alpha < 1.0:
            fair = self.alpha * fair + (1.0 - self.alpha) * scores
        if self.unknown == "keep":
            fair = np.where(codes == self.index.unknown, scores, fair)
        return fair


def _check_length(keys: object, size: int) -> None:
    several = isinstance(keys, tuple)
    columns: tuple[Any, ...] = keys if isinstance(keys, tuple) else (keys,)
    for column in columns:
        if several and type(column) is not list and is_one_key(column):
            continue
        if len(column) != size:
            raise SettingsError(f"{size} scores but {len(column)} keys; expected one key an item")
