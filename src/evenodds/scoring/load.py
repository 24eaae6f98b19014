"""From a model file to its scorer, without the machinery of fitting."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from evenodds.errors import DamagedFileError
from evenodds.groups import GroupIndex
from evenodds.model_file import read_model
from evenodds.scoring.scorer import Scorer


def load_scorer(path: str | os.PathLike[str]) -> Scorer:
    """Read a model file's transform; a damaged file, or one of a later version, is refused."""
    return scorer_of(read_model(path), os.fspath(path))


def scorer_of(body: dict[str, Any], name: str = "the model") -> Scorer:
    """Make a scorer of a model file's content."""
    index = partial(GroupIndex, tuple(map(tuple, body["groups"])), tuple(body["group_columns"]))
    scorer = _kind(body, name).from_tables(body, index)
    scorer.salt = int(body["salt"], 16)
    return scorer


def _kind(body: dict[str, Any], name: str) -> type[Scorer]:
    if body["criterion"] == "opportunity":
        from evenodds.scoring.opportunity import OpportunityScorer

        return OpportunityScorer
    if body["criterion"] == "odds":
        from evenodds.scoring.odds import OddsScorer

        return OddsScorer
    raise DamagedFileError(f"{name} has the unknown criterion {body['criterion']!r}")
