"""What this worker serves now, and how it follows the state."""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from evenodds.serve.loaded import Live, Loaded
from evenodds.serve.logs import Log
from evenodds.serve.metrics import Metrics
from evenodds.serve.state import State, Store

Result = TypeVar("Result")

_BEAT = 1.0  # seconds between two signs of life
_PATIENCE = 5.0  # seconds to wait for the other workers after a change


def give_back_memory() -> None:
    """Return what the tables of a model before have left to the system, where the C library can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Holder:
    """Holds the live model; readers take `live` once, and keep it until they have answered."""

    def __init__(self, store: Store, metrics: Metrics, log: Log) -> None:
        self._store, self._metrics, self._log = store, metrics, log
        self._turn = asyncio.Lock()
        # One thread for all that touches files and models: each thread would keep memory of its own for
        # what a model's tables need while they are made.
        self._thread = ThreadPoolExecutor(1, "models")
        self._mark = (0, 0, 0)
        self.live, state = self._first()
        self._look = state.file
        self.refused = state.refused

    async def apart(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do work that takes its time beside the requests."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _first(self) -> tuple[Live, State]:
        while True:
            self._mark = self._store.mark() if self._store.exists() else self._mark
            state = self._store.join()
            try:
                return self._live(state, None), state
            except FileNotFoundError:  # replaced and cleared away meanwhile: the state names another
                if self._store.read().generation == state.generation:
                    raise

    async def follow(self) -> None:
        """Look at the model file and the state, again and again."""
        beat = 0.0
        while True:
            try:
                await self.look()
                if time.monotonic() - beat >= _BEAT:
                    beat = time.monotonic()
                    await self.apart(self._metrics.write, self.live.generation)
                    self._log.flush()
            except Exception as error:  # noqa: BLE001  (a full disk must not end the watch)
                self._log.event("watch failed", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(self._store.settings.poll)

    async def look(self) -> None:
        """Take in what has changed."""
        look = await self.apart(self._store.look)
        if look != self._look:
            self._look = look
            _, error = await self.apart(self._store.take_file)
            if error is not None:
                self._metrics.event("model refused")
                self._log.event(
                    "model refused", source="file", reason=str(error), kept=self.live.loaded.version
                )
        if self._store.mark() != self._mark:
            await self.refresh()

    async def refresh(self) -> None:
        """Serve what the state says."""
        async with self._turn:
            mark = self._store.mark()
            state = await self.apart(self._store.read)
            before = self.live
            if state.generation != before.generation:
                try:
                    live = await self.apart(self._live, state, before)
                except FileNotFoundError:  # replaced once more meanwhile: the next look sees it
                    return
                self.live = live  # one assignment: a request has the old one or the new one
                self.refused = state.refused
                self._tell(before, live)
                del before, live
                await self.apart(give_back_memory)
            self._mark = mark

    async def everywhere(self, generation: int) -> int:
        """Wait until all workers have followed; return how many there are."""
        await self.refresh()
        deadline = time.monotonic() + _PATIENCE
        while True:
            others = await self.apart(self._alive)
            if all(known >= generation for known in others) or time.monotonic() > deadline:
                return 1 + sum(known >= generation for known in others)
            await asyncio.sleep(self._store.settings.poll / 2)

    def _alive(self) -> list[int]:
        """Return the generations of the other workers that have written lately."""
        now = time.time()
        found = []
        for path, sums in self._metrics.others():
            with suppress(OSError):
                if now - path.stat().st_mtime < 3 * _BEAT:
                    found.append(sums.generation)
        return found

    def _live(self, state: State, before: Live | None) -> Live:
        loaded: Loaded
        if before is not None and before.loaded.version == state.current:
            loaded = before.loaded
        else:
            loaded = self._store.load(state.current)
        return Live(loaded, state.generation, state.ramp, state.shadow, tuple(state.previous))

    def _tell(self, before: Live, live: Live) -> None:
        if live.loaded.version != before.loaded.version:
            self._metrics.event("model changed")
            self._log.event("model changed", model=live.loaded.version, before=before.loaded.version)
        if (live.ramp, live.shadow) != (before.ramp, before.shadow):
            self._log.event("mode changed", ramp=live.ramp, shadow=live.shadow)
