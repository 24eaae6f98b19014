"""The fitted thing: apply it, save it, load it.

What it does to scores is its scorer, see :mod:`evenodds.scoring`; here is what was fitted, and how it
is written down: what it was fitted on, its settings, its diagnostics, its tables.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from evenodds._version import __version__
from evenodds.errors import DamagedFileError, EvenoddsError, SettingsError
from evenodds.files import written_aside
from evenodds.grid import Grid
from evenodds.groups import UNKNOWN_POLICIES, Group, GroupIndex, Unknown, group_name
from evenodds.keys import Words
from evenodds.model_file import FORMAT, VERSION, read_model, readable_json, sealed
from evenodds.position import PositionBias
from evenodds.scoring.load import scorer_of
from evenodds.scoring.scorer import Codes, Floats, Scorer
from evenodds.tally import Tally, as_tally, is_counted

Ints = npt.NDArray[np.int64]

THRESHOLDS = 50_000  # at most, at which a distribution of fair scores is given
_HOMES = {"opportunity": "evenodds.opportunity", "odds": "evenodds.odds.equalized"}  # imported on demand
_INFINITY = "infinity"
_WRITER = f"evenodds {__version__}"


class Learned(NamedTuple):
    """What a model keeps of its log: score cells, their ends, and each group's merit positives below these."""

    grid: Grid
    ends: Floats
    cdf: dict[Group, Floats]


class Reranker(ABC):
    """Base of the criteria: what a fitted model can do, whichever criterion it was fitted for.

    Subclasses keep their settings as attributes named like the arguments of ``__init__``; fitted
    state ends in an underscore.
    """

    criterion: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]
    kinds: ClassVar[dict[str, type[Reranker]]] = {}

    alpha: float
    unknown: Unknown
    groups_: tuple[Group, ...]
    group_columns_: tuple[str, ...]
    position_bias_: PositionBias
    diagnostics_: dict[str, Any]
    fitted_on_: dict[str, Any]
    written_by_: str = _WRITER
    tally_: Tally | None
    index_: GroupIndex
    draws_: bool
    _scorer: Scorer

    def __init_subclass__(cls) -> None:
        Reranker.kinds[cls.criterion] = cls

    def __repr__(self) -> str:
        """Show the settings that differ from their defaults, as scikit-learn does."""
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name in self.settings
            if str(getattr(self, name)) != str(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # Fitting

    def fit(self, data: object, **roles: object) -> Self:
        """Learn from a tally, a list of tallies, a :class:`Log`, or a table with its column roles."""
        self.check_settings()
        tally = as_tally(data, roles)
        self._fit(tally)
        self.tally_ = tally
        self.fitted_on_ = {
            "rows": tally.rows,
            "sources": list(tally.sources),
            "roles": tally.roles.to_dict(),
            "weighted": tally.weighted,
        }
        self.written_by_ = _WRITER
        return self

    def update(self, data: object, *, decay: float = 1.0, **roles: object) -> Self:
        """Fit again on what was known, weighed down by `decay`, plus newer counts.

        The newer counts must lie on the grid of the older ones: ``tally(log, grid=model.tally_)``; a
        log is counted on it.
        """
        known = getattr(self, "tally_", None)
        if known is None:
            raise EvenoddsError(
                "a model read from a file holds no counts to add to",
                hint="merge the tallies and fit them: EqualOpportunity().fit(old.decay(0.9) + new)",
            )
        if not is_counted(data):
            roles = {**roles, "grid": known, "depth": known.depth}
        newer = as_tally(data, roles)
        return self.fit((known if decay == 1.0 else known.decay(decay)) + newer)

    @abstractmethod
    def _fit(self, tally: Tally) -> None: ...

    def check_settings(self) -> None:
        """Refuse settings outside their range; `fit` does it first."""
        for name, parameter in inspect.signature(type(self)).parameters.items():
            _check_kind(name, getattr(self, name), parameter.default)
        if self.unknown not in UNKNOWN_POLICIES:
            raise SettingsError(f"unknown must be one of {', '.join(UNKNOWN_POLICIES)}, got {self.unknown!r}")

    # Applying

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
            instance viewer and item ids. The same key gives the same draw in any batch or process;
            7 and "7" are different keys.
        seed
            Stands in for keys: draws then depend on the place in the batch.
        """
        return self.scorer_.transform(scores, groups, keys, seed=seed)

    def transform_words(
        self, scores: Floats, groups: object, words: Words | None, *, seed: int = 0, first: int = 0
    ) -> Floats:
        """Transform a part of a log: keys already hashed, or row numbers from `first` under a seed."""
        return self.scorer_.transform_words(scores, groups, words, seed=seed, first=first)

    @property
    def scorer_(self) -> Scorer:
        """The transform as flat arrays, under the model's present settings."""
        try:
            scorer = self._scorer
        except AttributeError:
            self._check_fitted()
            raise
        if scorer.alpha != self.alpha or scorer.unknown != self.unknown:
            scorer = self._scorer = scorer.changed(self.alpha, self.unknown)
        return scorer

    def take(self, scorer: Scorer) -> None:
        """Take in what was fitted, or read from a file."""
        self._scorer = scorer
        self.index_ = scorer.index
        self.draws_ = scorer.draws

    @abstractmethod
    def fair_cdf(self, tally: Tally, mass: Floats, *, most: int = THRESHOLDS) -> tuple[Floats, Floats]:
        """Return thresholds and, for each group of the tally, the share of `mass` at or below them.

        ``mass[..., group, cell]`` lies on the tally's cells, evenly within each; with leading axes several
        masses are mapped at once. `most` limits the number of thresholds, which grows with groups and cells.
        """

    def runs(self, tally: Tally) -> Ints | None:
        """Return the first cells of the runs in which negatives are clipped; None leaves the choice."""
        del tally
        return None

    def learned(self) -> Learned | None:
        """Return what the model keeps of the log it was fitted on; None if it keeps no distributions."""
        return None

    @abstractmethod
    def movement(self, tally: Tally) -> float:
        """Return E|fair score - score| over a tally's impressions."""

    def _check_fitted(self) -> None:
        if not hasattr(self, "index_"):
            raise EvenoddsError(
                f"this {type(self).__name__} is not fitted", hint="call fit first, or eo.load a model"
            )

    def rows_of(self, tally: Tally) -> Codes:
        """Return the model's code for each group of a tally."""
        columns = tuple(list(column) for column in zip(*tally.groups, strict=True))
        return self.index_.codes(columns if len(columns) > 1 else columns[0], len(tally.groups))

    # Saving

    @property
    def salt_(self) -> int:
        """What the model adds to every key, so that two models draw independently."""
        return self.scorer_.salt

    def to_settings(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {name: _plain(getattr(self, name)) for name in self.settings}

    def to_dict(self) -> dict[str, Any]:
        """Return the model file's content, as plain JSON values."""
        self._check_fitted()
        return {
            "format": FORMAT,
            "version": VERSION,
            "criterion": self.criterion,
            "written_by": self.written_by_,
            "settings": self.to_settings(),
            "fitted_on": self.fitted_on_,
            "group_columns": list(self.group_columns_),
            "groups": [list(group) for group in self.groups_],
            "diagnostics": self.diagnostics_,
            "position_bias": self.position_bias_.to_dict(),
            "salt": f"{self.salt_:016x}",
            "tables": self.scorer_.to_tables([*map(group_name, self.groups_), "pooled"]),
        }

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model as versioned, readable JSON; never half a file."""
        text = self.to_text()
        with written_aside(path, overwrite=overwrite) as aside:
            aside.write_text(text, encoding="utf-8")

    def to_text(self) -> str:
        """Return the model file, checksum and all."""
        return sealed(readable_json(self.to_dict()))


def _check_kind(name: str, value: object, default: object) -> None:
    """Refuse a setting of another kind than its default: a number for a number, a word for a word."""
    if name in {"position_bias", "epsilon"}:  # these take several kinds, and are checked where they are used
        return
    kinds = {
        bool: ((bool, np.bool_), "True or False"),
        int: ((int, np.integer), "a whole number"),
        float: ((int, float, np.number), "a number"),
        str: ((str,), "a word"),
    }
    wanted, said = kinds[type(default)]
    if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
        raise SettingsError(f"{name} must be {said}, got {value!r}")


def load(path: str | os.PathLike[str]) -> Reranker:
    """Read a model file; a damaged one, or one of a later version, is refused."""
    return from_dict(read_model(path), os.fspath(path))


def from_dict(body: dict[str, Any], name: str = "the model") -> Reranker:
    """Make a model of a model file's content."""
    if body["criterion"] in _HOMES:
        import_module(_HOMES[body["criterion"]])
    kind = Reranker.kinds.get(body["criterion"])
    if kind is None:
        raise DamagedFileError(f"{name} has the unknown criterion {body['criterion']!r}")
    model = kind(**{name: _setting(value) for name, value in body["settings"].items()})
    model.group_columns_ = tuple(body["group_columns"])
    model.groups_ = tuple(map(tuple, body["groups"]))
    model.fitted_on_ = body["fitted_on"]
    model.diagnostics_ = body["diagnostics"]
    model.position_bias_ = PositionBias.from_dict(body["position_bias"])
    model.tally_ = None
    model.written_by_ = body["written_by"]  # a later version that saves it again keeps its checksum
    model.take(scorer_of(body, name))
    return model


def _plain(value: object) -> object:
    """Turn a setting into JSON values; given position weights may be arrays or estimates."""
    if isinstance(value, PositionBias):
        return dict(zip(map(str, value.positions.tolist()), value.weights.tolist(), strict=True))
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): float(cast("float", item)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and np.isinf(value):  # no number in JSON
        return _INFINITY
    return value


def _setting(value: object) -> object:
    """Read what `_plain` wrote."""
    if isinstance(value, list):
        return [_setting(item) for item in value]
    return float("inf") if value == _INFINITY else value
