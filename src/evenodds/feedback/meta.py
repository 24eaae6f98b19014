"""What a store knows about itself."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Self, cast

from evenodds.errors import DamagedFileError, NewerVersionError
from evenodds.feedback import schema
from evenodds.feedback.database import Database
from evenodds.feedback.ids import Kind


@dataclass
class Meta:
    """What a store knows about itself."""

    kind: Kind = "hashed"
    fingerprint: str = ""
    group_columns: tuple[str, ...] = ()
    outcomes: int = 1
    first_position: int = 1
    raw: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, database: Database) -> Self:
        """Read it; a store of a later version is refused."""
        raw = dict(cast("list[tuple[str, str]]", database.execute(schema.GET_META)))
        try:
            version = int(raw["version"])
            if version > schema.VERSION:
                raise NewerVersionError(
                    f"{database.name} has store version {version}; this program reads up to {schema.VERSION}",
                    hint="upgrade evenodds",
                )
            return cls(
                kind=cast("Kind", raw["ids"]),
                fingerprint=raw["secret"],
                group_columns=tuple(json.loads(raw.get("group_columns", "[]"))),
                outcomes=int(raw.get("outcomes", "1")),
                first_position=int(raw.get("first_position", "1")),
                raw=raw,
            )
        except (KeyError, ValueError):
            raise DamagedFileError(f"{database.name} is not a whole feedback store") from None
