"""A model as it is served: its scorer, its card, and what its positions are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenodds.errors import DamagedFileError, EvenoddsError
from evenodds.groups import group_name
from evenodds.keys import key_words, salt_of, uniforms
from evenodds.model_file import parse_model
from evenodds.position.result import PositionBias
from evenodds.scoring.load import scorer_of
from evenodds.scoring.scorer import Scorer

Floats = npt.NDArray[np.float64]

RAMP_SALT = salt_of(b"evenodds ramp")
_DIGITS = 16  # of the checksum, as the name of a version


@dataclass(frozen=True)
class Loaded:
    """One model, ready to serve.

    Attributes
    ----------
    version
        The first 16 hexadecimal digits of the file's checksum.
    file_version
        The version of the file's format.
    scorer
        Its transform.
    card
        What people want to know of it.
    columns
        The columns that make up a group.
    names
        The groups' names, and last "unknown".
    weights
        The weight of each position, from the first on.
    """

    version: str
    file_version: int
    scorer: Scorer
    card: dict[str, Any]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    weights: Floats

    @classmethod
    def of(cls, raw: bytes, name: str, positions: int) -> Loaded:
        """Read a model file's bytes; `positions` is the length of the longest list to come."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise DamagedFileError(f"{name} is not a whole model file") from None
        body = parse_model(text, name)
        if body["version"] < 1:
            raise DamagedFileError(f"{name} has model version {body['version']}; expected 1 or later")
        try:
            scorer = scorer_of(body, name)
            bias = PositionBias.from_dict(body["position_bias"])
            first = int(bias.positions[0])
            loaded = cls(
                version=body["checksum"].removeprefix("sha256:")[:_DIGITS],
                file_version=body["version"],
                scorer=scorer,
                card=_card(body),
                columns=tuple(body["group_columns"]),
                names=(*(group_name(tuple(group)) for group in body["groups"]), "unknown"),
                weights=bias.at(range(first, first + positions)),
            )
            loaded._try_out()
        except EvenoddsError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # The checksum fits, and yet this is not what evenodds writes.
            raise DamagedFileError(
                f"{name} cannot be used: {type(error).__name__} in its tables",
                hint="make it again with evenodds fit",
            ) from None
        return loaded

    def _try_out(self) -> None:
        """Score a little of everything once, so that a model that cannot serve is found before it does."""
        scores = np.repeat([-1e9, -1.0, 0.0, 0.5, 1.0, 1e9], len(self.names))
        codes = np.tile(np.arange(len(self.names), dtype=np.intp) * self.stride, 6)
        fair = self.scorer.transform_codes(scores, codes, np.arange(scores.size))
        if not np.isfinite(fair).all():
            raise ValueError("fair scores are not finite")

    @property
    def stride(self) -> int:
        """How far the codes of two groups lie apart."""
        return self.scorer.index.unknown // (len(self.names) - 1)


def _card(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": body["checksum"].removeprefix("sha256:")[:_DIGITS],
        "checksum": body["checksum"],
        "criterion": body["criterion"],
        "settings": body["settings"],
        "group_columns": body["group_columns"],
        "groups": body["groups"],
        "fitted_on": body["fitted_on"],
        "diagnostics": body["diagnostics"],
        "position_bias": body["position_bias"],
        "file_version": body["version"],
        "written_by": body["written_by"],
    }


@dataclass(frozen=True)
class Live:
    """What a request is served by, from its first line to its last: replaced as a whole.

    Attributes
    ----------
    generation
        Counts the changes of state, over all workers.
    previous
        The versions before this one, the latest last.
    """

    loaded: Loaded
    generation: int
    ramp: float
    shadow: bool
    previous: tuple[str, ...]

    def arm(self, key: str | int | None) -> str:
        """Return how a request with this key is served.

        By a keyed hash that knows nothing of the model, so that a key stays where it is from model to
        model, and a larger ramp only adds keys.
        """
        if self.shadow:
            return "shadow"
        if self.ramp >= 1.0:
            return "fair"
        if self.ramp <= 0.0:
            return "original"
        return "fair" if uniforms(key_words([key]), RAMP_SALT)[0] < self.ramp else "original"
