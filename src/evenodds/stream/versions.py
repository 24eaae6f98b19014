"""Models by number, the one in use at a path that never changes, and the way back.

::

    models/model-000012.json     a model, never changed
    models/model-000012.tally    what it was fitted on: the older side of a look for drift
    models/versions.json         all of them, and which is in use
    models/current.json          a copy of the one in use, replaced as a whole: watch this

`current.json` is written last, so that whoever watches it finds everything else in place.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenodds.errors import DamagedFileError, EvenoddsError
from evenodds.files import written_aside
from evenodds.reranker import Reranker, load
from evenodds.tally import Tally
from evenodds.tally_file import read_with_extra, write

CURRENT = "current.json"
_INDEX = "versions.json"
_FORMAT = "evenodds-versions"


@dataclass(frozen=True)
class Version:
    """One model.

    Attributes
    ----------
    number
        From 1 on; never used twice.
    batch
        The last batch in the counts that it was fitted on; -1 for what did not come from a stream.
    at
        When it was fitted, as text.
    rows
        In those counts.
    reason
        Why it was fitted: "first", "schedule", "drift", or a person's words.
    sha256
        Of the file.
    """

    number: int
    batch: int
    at: str
    rows: int
    reason: str
    sha256: str

    @property
    def file(self) -> str:
        """The model's file name."""
        return f"model-{self.number:06d}.json"

    @property
    def tally(self) -> str:
        """The name of the tally that it was fitted on."""
        return f"model-{self.number:06d}.tally"


class Versions:
    """The models of a folder.

    Parameters
    ----------
    folder
        Where they are, or shall be.
    keep
        How many to keep; the one in use is kept in any case.
    """

    def __init__(self, folder: str | Path, keep: int = 10) -> None:
        self.folder = Path(folder)
        self.keep = keep

    @property
    def listed(self) -> list[Version]:
        """Every model that can be used, the oldest first."""
        return [Version(**entry) for entry in self._index()["versions"]]

    @property
    def current(self) -> Version | None:
        """The one in use."""
        index = self._index()
        found = [Version(**entry) for entry in index["versions"] if entry["number"] == index["current"]]
        return found[0] if found else None

    @property
    def pinned(self) -> bool:
        """Whether a person chose it: newer models are then kept ready and not put to use."""
        return bool(self._index()["pinned"])

    def model(self, version: Version) -> Reranker:
        """Load a model."""
        return load(self.folder / version.file)

    def counts(self, version: Version) -> tuple[Tally, dict[str, Any]]:
        """Load what a model was fitted on, and what was written with it."""
        tally, extra = read_with_extra(self.folder / version.tally)
        return tally, extra or {}

    def add(
        self,
        model: Reranker,
        tally: Tally,
        *,
        batch: int,
        at: str,
        reason: str,
        extra: dict[str, Any] | None = None,
    ) -> Version:
        """Keep a model under the next number, and put it to use unless a person has pinned another."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            index = self._index()
            for entry in index["versions"]:
                if batch >= 0 and entry["batch"] == batch:  # fitted before a crash
                    return Version(**entry)
            number = index["last"] + 1
            draft = Version(number, batch, at, tally.rows, reason, "")
            model.save(self.folder / draft.file, overwrite=True)
            write(tally, self.folder / draft.tally, overwrite=True, extra=extra, durable=True)
            digest = hashlib.sha256((self.folder / draft.file).read_bytes()).hexdigest()
            version = Version(number, batch, at, tally.rows, reason, digest)
            index["versions"].append(asdict(version))
            index["last"] = number
            if not index["pinned"] or index["current"] is None:
                index["current"] = number
            gone = self._pruned(index)
            self._write(index)
            for old in gone:
                for name in (old.file, old.tally):
                    with suppress(FileNotFoundError):
                        (self.folder / name).unlink()
        return version

    def use(self, number: int | None = None) -> Version:
        """Put a model to use and pin it; without a number the one before the one in use."""
        with self._locked():
            index = self._index()
            numbers = [entry["number"] for entry in index["versions"]]
            if not numbers:
                raise EvenoddsError(
                    f"{self.folder} holds no models", hint="evenodds stream ... --fit-every 10"
                )
            if number is None:
                older = [known for known in numbers if known < index["current"]]
                if not older:
                    raise EvenoddsError(f"there is no model before number {index['current']}")
                number = older[-1]
            if number not in numbers:
                kept = ", ".join(map(str, numbers))
                raise EvenoddsError(f"there is no model number {number}; kept are {kept}")
            index["current"], index["pinned"] = number, True
            self._write(index)
        return next(version for version in self.listed if version.number == number)

    def release(self) -> Version:
        """Let newer models be put to use again, the newest at once."""
        with self._locked():
            index = self._index()
            if not index["versions"]:
                raise EvenoddsError(f"{self.folder} holds no models")
            index["current"], index["pinned"] = index["versions"][-1]["number"], False
            self._write(index)
        return self.listed[-1]

    def repair(self) -> None:
        """Put `current.json` right if a crash came between the index and it."""
        if (self.folder / _INDEX).exists():
            with self._locked():
                self._show(self._index())

    def _pruned(self, index: dict[str, Any]) -> list[Version]:
        """Take versions past the last `keep` out of the index, but for the one in use."""
        kept, gone = index["versions"][-self.keep :], index["versions"][: -self.keep]
        held = [entry for entry in gone if entry["number"] == index["current"]]
        index["versions"] = held + kept
        return [Version(**entry) for entry in gone if entry not in held]

    def _index(self) -> dict[str, Any]:
        path = self.folder / _INDEX
        try:
            index = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return {
                "format": _FORMAT,
                "version": 1,
                "current": None,
                "pinned": False,
                "last": 0,
                "versions": [],
            }
        except (OSError, ValueError):
            raise DamagedFileError(f"{path} cannot be read") from None
        if not isinstance(index, dict) or index.get("format") != _FORMAT:
            raise DamagedFileError(f"{path} is not a list of models")
        return index

    def _write(self, index: dict[str, Any]) -> None:
        text = json.dumps(index, indent=2) + "\n"
        with written_aside(self.folder / _INDEX, overwrite=True, durable=True) as aside:
            aside.write_text(text, "utf-8")
        self._show(index)

    def _show(self, index: dict[str, Any]) -> None:
        """Make `current.json` the copy of the model in use."""
        if index["current"] is None:
            return
        entry = next(entry for entry in index["versions"] if entry["number"] == index["current"])
        content = (self.folder / Version(**entry).file).read_bytes()
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise DamagedFileError(
                f"{self.folder / Version(**entry).file} has been changed since it was fitted"
            )
        shown = self.folder / CURRENT
        if not shown.exists() or shown.read_bytes() != content:
            with written_aside(shown, overwrite=True, durable=True) as aside:
                aside.write_bytes(content)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep the stream and a person from writing at once."""
        if not self.folder.is_dir():
            raise EvenoddsError(f"there is no folder {self.folder}")
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
