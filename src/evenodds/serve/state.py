"""What all workers agree on: a folder with the models that were served, and one small file.

Models lie under their version and never change. ``state.json`` names the one to serve; it is replaced
as a whole, by one worker at a time (a lock on a file), and every worker looks at it a few times a second.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from evenodds.errors import DamagedFileError, EvenoddsError, OutputError
from evenodds.files import written_aside
from evenodds.serve.loaded import Loaded
from evenodds.serve.problem import Problem
from evenodds.serve.settings import ServeSettings

_KEPT = 10  # earlier models that a rollback can reach
_TAIL = 100  # the end of a model file, with its checksum


class State(msgspec.Struct, kw_only=True):
    """The content of state.json.

    Attributes
    ----------
    generation
        Counts the changes.
    current, previous
        The version that is served, and those before it, the latest last.
    file
        What the watched file looked like when it was last read, whatever came of it.
    refused
        Why it was refused, if it was.
    """

    generation: int
    current: str
    previous: list[str]
    ramp: float
    shadow: bool
    file: str
    refused: str | None = None


class Store:
    """Reads and changes the state; `checks` may refuse a model before it is served."""

    def __init__(self, settings: ServeSettings, checks: Sequence[Callable[[Loaded], None]] = ()) -> None:
        self.settings = settings
        self.checks = tuple(checks)
        self.folder = Path(settings.state)
        self.file = Path(settings.model)
        self._state = self.folder / "state.json"
        self._models = self.folder / "models"

    def prepare(self) -> None:
        """Make the folders."""
        try:
            self._models.mkdir(parents=True, exist_ok=True)
            (self.folder / "workers").mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"cannot use the state folder {self.folder}: {error.strerror or error}",
                hint="--state takes a folder that may be written to",
            ) from None

    def forget_workers(self) -> None:
        """Clear away the counts of workers of an earlier server: the same process numbers come again."""
        for path in (self.folder / "workers").glob("*.json"):
            path.unlink(missing_ok=True)

    def open(self) -> State:
        """Take the model file in, unless it is the one that was seen last."""
        with self._locked():
            known = self._read() if self.exists() else None
            look = self.look()
            if known is not None and known.file == look:
                return known
            loaded = self._keep(self._raw(), self.file.name)
            state = State(
                generation=1 if known is None else known.generation + 1,
                current=loaded.version,
                previous=[] if known is None else _followed(known, loaded.version),
                ramp=self.settings.ramp if known is None else known.ramp,
                shadow=self.settings.shadow if known is None else known.shadow,
                file=look,
            )
            self._write(state)
            return state

    def join(self) -> State:
        """Return the state that other workers know already; make it if there is none.

        A worker that starts anew must not fail because the model file is damaged just then.
        """
        return self._read() if self.exists() else self.open()

    def exists(self) -> bool:
        """Whether there is a state."""
        return self._state.exists()

    def read(self) -> State:
        """Return the present state."""
        return self._read()

    def mark(self) -> tuple[int, int, int]:
        """Return what tells a changed state without reading it."""
        known = self._state.stat()
        return known.st_mtime_ns, known.st_ino, known.st_size

    def look(self) -> str:
        """Return what tells a changed model file, its checksum among it, without reading it all."""
        try:
            with self.file.open("rb") as file:
                known = file.seek(0, 2)
                file.seek(max(known - _TAIL, 0))
                tail = file.read(_TAIL)
            seen = self.file.stat()
        except OSError as error:
            return f"unreadable: {error.strerror}"
        return f"{seen.st_ino} {seen.st_size} {seen.st_mtime_ns} {tail.hex()}"

    def take_file(self) -> tuple[State, EvenoddsError | None]:
        """Serve what the watched file holds now; a file that is refused changes nothing but the note of it."""
        with self._locked():
            state, look = self._read(), self.look()
            if state.file == look:  # another worker was first
                return state, None
            try:
                return self._serve(state, self._raw(), self.file.name, look), None
            except EvenoddsError as error:
                state = msgspec.structs.replace(
                    state, generation=state.generation + 1, file=look, refused=str(error)
                )
                self._write(state)
                return state, error

    def publish(self, raw: bytes, expected: str | None) -> State:
        """Serve a posted model; `expected` is the version that its sender takes for the present one."""
        with self._locked():
            state = self._read()
            if expected is not None and expected != state.current:
                raise Problem(
                    412,
                    f"the model served now is {state.current}, not {expected}: nothing was changed",
                    hint="GET /model, and decide again",
                )
            return self._serve(state, raw, "the posted model", state.file)

    def rollback(self) -> State:
        """Serve the model before this one again."""

        def back(state: State) -> State:
            if not state.previous:
                raise Problem(409, "there is no earlier model to go back to: nothing was changed")
            *previous, current = state.previous
            return msgspec.structs.replace(state, current=current, previous=previous)

        return self.change(back)

    def change(self, change: Callable[[State], State]) -> State:
        """Replace the state by what `change` makes of it."""
        with self._locked():
            state = change(self._read())
            state = msgspec.structs.replace(state, generation=state.generation + 1)
            self._write(state)
            return state

    def load(self, version: str) -> Loaded:
        """Read a model that was taken in."""
        path = self._models / f"{version}.json"
        return Loaded.of(path.read_bytes(), path.name, self.settings.max_candidates)

    def _serve(self, state: State, raw: bytes, name: str, look: str) -> State:
        loaded = self._keep(raw, name)
        present = self.load(state.current)
        if loaded.file_version < present.file_version:
            raise DamagedFileError(
                f"{name} has model version {loaded.file_version}, older than the {present.file_version} served now",
                hint="make it again with this version of evenodds fit",
            )
        state = msgspec.structs.replace(
            state,
            generation=state.generation + 1,
            current=loaded.version,
            previous=_followed(state, loaded.version),
            file=look,
            refused=None,
        )
        self._write(state)
        return state

    def _raw(self) -> bytes:
        try:
            if self.file.stat().st_size > self.settings.max_model:
                raise DamagedFileError(f"{self.file} is larger than {self.settings.max_model:,} bytes")
            return self.file.read_bytes()
        except OSError as error:
            raise DamagedFileError(f"cannot read {self.file}: {error.strerror or error}") from None

    def _keep(self, raw: bytes, name: str) -> Loaded:
        """Check a model and lay it down under its version."""
        loaded = Loaded.of(raw, name, self.settings.max_candidates)
        for check in self.checks:
            check(loaded)
        path = self._models / f"{loaded.version}.json"
        if not path.exists():
            with written_aside(path) as aside:
                aside.write_bytes(raw)
        return loaded

    def _read(self) -> State:
        return msgspec.json.decode(self._state.read_bytes(), type=State)

    def _write(self, state: State) -> None:
        with written_aside(self._state, overwrite=True) as aside:
            aside.write_bytes(msgspec.json.encode(state))
        for path in self._models.glob("*.json"):
            if path.stem != state.current and path.stem not in state.previous:
                path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _followed(state: State, version: str) -> list[str]:
    """Return the earlier versions once `version` is served."""
    if version == state.current:
        return state.previous
    return [*state.previous, state.current][-_KEPT:]
