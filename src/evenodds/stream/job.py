"""What is done with each batch of a stream: count it once, fit when it is time, look for drift.

The order of the steps makes a crash between any two of them harmless:

1. the counts are committed together with the batch's number (:mod:`evenodds.stream.state`);
2. a model that is due is fitted on the committed counts and kept under the batch's number, so that a
   fit that is repeated after a crash finds itself done;
3. the fit is noted in the state.

A batch that was committed and is handed over again goes to step 2 at once.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenodds.drift import Drift, drift
from evenodds.errors import EvenoddsError, EvenoddsWarning, LogError
from evenodds.files import written_aside
from evenodds.grid import Grid
from evenodds.log import Roles
from evenodds.reranker import Reranker
from evenodds.stream.settings import StreamSettings
from evenodds.stream.state import State, since
from evenodds.stream.versions import Version, Versions
from evenodds.tally import Tally
from evenodds.tally_file import read_with_extra, write

Floats = npt.NDArray[np.float64]

SCHEMA = "evenodds-stream/1"
STATUS = "status.json"
MODELS = "models"
QUARANTINE = "quarantine"
LOOKED = "looked.tally"  # the counts at the last look that was sure that all is well
_FORGIVEN = 10  # refused rows of a batch that never stop a stream
_FEW_SCORES = 10_000  # for a grid that serves for good


@dataclass(frozen=True)
class Counts:
    """What a batch came to: its counts, None without a good row, and rows refused by reason."""

    tally: Tally | None
    seen: int
    refused: dict[str, int]


class Batch(Protocol):
    """What an engine hands over."""

    @property
    def number(self) -> int:
        """The batch's number; the same rows come under the same number again after a crash."""
        ...

    def scores(self) -> Floats:
        """Return a sample of the scores, the same every time."""
        ...

    def count(self, grid: Grid, depth: int) -> Counts:
        """Count the rows that can be counted."""
        ...

    def clock(self) -> float | None:
        """Return the latest time among the rows in seconds since 1970; None where rows have none."""
        ...

    def set_aside(self, folder: Path) -> None:
        """Write the refused rows with their reasons, in place of what an earlier try has written."""
        ...


class Job:
    """A stream's folder, and what happens to it batch by batch.

    Parameters
    ----------
    folder
        Holds the state, the models, refused rows and the status.
    settings
        What the job was told.
    roles
        Which column is what.
    source
        Where rows come from, for people.
    query
        The stream's own name for itself: a state belongs to one checkpoint.
    unfitted
        Makes a model to be fitted.
    grid
        Score cells to count in; without them the first rows cut them.
    say
        Is told what happens, one line at a time.
    """

    def __init__(
        self,
        folder: str | Path,
        settings: StreamSettings,
        *,
        roles: Roles,
        source: str,
        query: str,
        unfitted: Callable[[], Reranker],
        grid: Grid | None = None,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.folder = Path(folder)
        self.settings = settings
        self.roles = roles
        self.source = source
        self.versions = Versions(self.folder / MODELS, settings.keep)
        self._unfitted = unfitted
        self._say = say
        known = State.load(self.folder)
        self.fresh = known is None
        self.state = known or State.fresh(roles, settings.depth, query, grid, source)
        self._check(query, grid)
        self.versions.repair()

    def _check(self, query: str, grid: Grid | None) -> None:
        """Refuse a state that belongs to other columns, cells or checkpoints."""
        facts, tally = self.state.facts, self.state.tally
        if facts.query != query:
            raise EvenoddsError(
                f"the counts in {self.folder} belong to another checkpoint: rows would be counted twice or not at all",
                hint="give the checkpoint back, or start in an empty folder",
            )
        if tally.roles != self.roles:
            raise EvenoddsError(
                f"the counts in {self.folder} were made of other columns: {tally.roles.to_dict()}",
                hint="give the same columns, or start in an empty folder",
            )
        if grid is not None and facts.cut and tally.grid != grid:
            raise EvenoddsError(
                f"the counts in {self.folder} lie in other score cells than --grid-from gives",
                hint="leave --grid-from out, or start in an empty folder",
            )
        if tally.depth != self.settings.depth:
            raise EvenoddsError(
                f"the counts in {self.folder} reach to depth {tally.depth}, not {self.settings.depth}"
            )

    def batch(self, batch: Batch) -> None:
        """Take a batch in."""
        began = time.monotonic()
        facts = self.state.facts
        if batch.number > facts.batch:
            if self.fresh and batch.number > 0:
                raise EvenoddsError(
                    f"{self.folder} holds no counts, but its checkpoint is at batch {batch.number}",
                    hint="bring the counts back, or remove the checkpoint, too, to begin anew",
                )
            counted = self._counted(batch)
            self.state.save(self.folder)
            self.fresh = False
            rate = counted.seen / max(time.monotonic() - began, 1e-9)
            bad = sum(counted.refused.values())
            self._say(
                f"batch {batch.number}: {counted.seen - bad:,} rows counted"
                + (f", {bad:,} refused" if bad else "")
                + f", {rate:,.0f} rows/s; {self.state.tally.rows:,} in all"
            )
        told = self._maintain() if self.settings.fits else None
        self._report(told, time.monotonic() - began)

    def late(self, rows: int) -> None:
        """Note rows that the engine dropped because they came after the watermark."""
        if rows:
            facts = self.state.facts
            self.state = State(self.state.tally, replace(facts, late=facts.late + rows))
            self._say(f"{rows:,} rows came after the watermark and are not counted")

    def finish(self, late: int) -> None:
        """Note rows that came too late for the last batch, and write that down."""
        if late:
            self.late(late)
            self.state.save(self.folder)
            self._report(None, 0.0)

    def _counted(self, batch: Batch) -> Counts:
        """Count a batch into the state, in memory."""
        state = self.state
        if not state.facts.cut:
            state = self._cut(state, batch.scores())
        counted = batch.count(state.tally.grid, self.settings.depth)
        bad = sum(counted.refused.values())
        if bad:
            place = self.folder / QUARANTINE / f"batch-{batch.number:06d}"
            batch.set_aside(place)
            share = bad / counted.seen
            if bad > _FORGIVEN and share > self.settings.max_bad:
                listed = "; ".join(f"{why} in {count:,} rows" for why, count in counted.refused.items())
                raise LogError(
                    [f"batch {batch.number}: {bad:,} of {counted.seen:,} rows cannot be counted: {listed}"],
                    hint=f"they lie in {place}; mend the source, or allow more with --max-bad {share:.2g}",
                )
        tally = counted.tally
        if tally is not None:
            tally = replace(tally, sources=(self.source,))
        clock = batch.clock()
        if clock is None and self.settings.half_life is not None:
            clock = time.time()
        self.state = state.plus(tally, batch.number, clock, self.settings.half_life)
        facts = self.state.facts
        refused = dict(facts.refused)
        for why, count in counted.refused.items():
            refused[why] = refused.get(why, 0) + count
        cut = facts.cut and bool(self.state.tally.groups or state.tally.grid.cells > 1)
        facts = replace(facts, seen=facts.seen + counted.seen, refused=refused, cut=cut)
        self.state = State(self.state.tally, facts)
        return counted

    def _cut(self, state: State, scores: Floats) -> State:
        """Cut score cells by the first rows."""
        if scores.size == 0:
            return state
        grid = Grid.from_sample(scores, self.settings.cells)
        if scores.size < _FEW_SCORES:
            self._say(
                f"note: score cells were cut from {scores.size:,} scores only, and stay so: "
                "--grid-from the tally of a day is safer"
            )
        fresh = State.fresh(self.roles, self.settings.depth, state.facts.query, grid, self.source)
        return State(fresh.tally, replace(state.facts, cut=True))

    # Fitting

    def _maintain(self) -> Drift | None:
        """Fit if it is time, or if the model in use is found to have drifted."""
        facts, settings = self.state.facts, self.settings
        fitted = facts.fitted
        done = [version for version in self.versions.listed if version.batch == facts.batch]
        if done:  # fitted before a crash, or on a batch that is handed over again
            if fitted.get("batch") != facts.batch:
                self._note_fit(done[0])
            return None
        if not self.state.tally.groups:
            return None
        if not fitted:
            if self._current() is None:
                self._fit("first", self.state.tally)
            return None
        if settings.due(facts.batch - int(fitted["batch"]), time.time() - float(fitted["at"])):
            self._fit("schedule", self.state.tally)
            return None
        if settings.fit_on_drift and (facts.batch - int(fitted["batch"])) % settings.drift_every == 0:
            return self._look()
        return None

    def _current(self) -> Version | None:
        return self.versions.current

    def _look(self) -> Drift | None:
        """Compare what came lately with what the model in use was fitted on.

        Lately: since the last look that was sure that all is well, or since the last fit. Rows that have
        been found to be fair would only water down what came after them.
        """
        current = self._current()
        if current is None:
            return None
        before, _ = self.versions.counts(current)
        facts = self.state.facts
        recent = self._recent()
        # Many looks, one chance of a false alarm: the k-th gets 6 / (pi k)^2 of it, which sums to 1.
        looks = int(facts.fitted.get("checks", 0)) + 1
        level = self.settings.level * 6.0 / (math.pi * looks) ** 2
        self.state = State(self.state.tally, replace(facts, fitted={**facts.fitted, "checks": looks}))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvenoddsWarning)
                found = drift(
                    before, recent, self.versions.model(current), limit=self.settings.limit, level=level
                )
        except EvenoddsError as error:  # too few rows so far, or one group only
            self._say(f"look for drift: {error.message}")
            self.state.save(self.folder)
            return None
        self._say(f"look for drift: {found.verdict()}")
        if found.status == "drifted":
            self._fit("drift", recent, forget=True)
        elif found.status == "unfair":  # there are more rows now than it was fitted on
            self._fit("unfair", self.state.tally)
        else:
            if found.status == "holds":
                noted = {"batch": facts.batch, "epoch": facts.epoch, "faded": facts.faded}
                write(self.state.tally, self.folder / LOOKED, overwrite=True, extra=noted, durable=True)
            self.state.save(self.folder)
        return found

    def _recent(self) -> Tally:
        """Return the counts of what came since the last sure look, or the last fit."""
        facts, now = self.state.facts, self.state.tally
        latest = self.versions.listed[-1]
        start, told = self.versions.counts(latest)
        reached = latest.batch
        if (self.folder / LOOKED).exists():
            looked, noted = read_with_extra(self.folder / LOOKED)
            # A look at this very batch was made before a crash: it starts nothing.
            if noted is not None and reached < noted["batch"] < facts.batch:
                start, told, reached = looked, noted, noted["batch"]
        if told.get("epoch") == facts.epoch:
            now = since(now, start, facts.faded - float(told["faded"]))
        return replace(now, sources=(f"{self.source} after batch {reached}",))

    def _fit(self, reason: str, tally: Tally, *, forget: bool = False) -> None:
        """Fit and keep a model; with `forget` what the model in use was fitted on belongs to another world."""
        model = self._unfitted()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvenoddsWarning)
                model.fit(tally)
        except EvenoddsError as error:
            self._say(f"not fitted: {error.message}")
            self.state.save(self.folder)
            return
        facts = self.state.facts
        if forget:
            kept = replace(tally, sources=self.state.tally.sources)
            facts = replace(facts, epoch=facts.epoch + 1)
            self.state = State(kept, facts)
        version = self.versions.add(
            model,
            self.state.tally,
            batch=facts.batch,
            at=_now(),
            reason=reason,
            extra={"epoch": facts.epoch, "faded": facts.faded},
        )
        self._note_fit(version)
        used = "" if self._current() == version else "; another one is pinned and stays in use"
        self._say(f"fitted {version.file} on {tally.rows:,} rows ({reason}){used}")

    def _note_fit(self, version: Version) -> None:
        facts = self.state.facts
        if version.reason == "drift":  # the counts it was fitted on are the state from now on
            counts, extra = self.versions.counts(version)
            facts = replace(facts, epoch=int(extra["epoch"]))
            self.state = State(counts, facts)
        noted = {"batch": facts.batch, "at": time.time(), "checks": 0}
        self.state = State(self.state.tally, replace(facts, fitted=noted))
        self.state.save(self.folder)

    # Telling

    def _report(self, found: Drift | None, took: float) -> None:
        """Write the status, for people and for monitors."""
        facts, tally = self.state.facts, self.state.tally
        current = self._current()
        status: dict[str, Any] = {
            "schema": SCHEMA,
            "at": _now(),
            "source": self.source,
            "batch": facts.batch,
            "seconds": round(took, 3),
            "rows": tally.rows,
            "weight": float(f"{float(tally.counts.sum()):.6g}"),
            "reaches": None if facts.clock is None else datetime.fromtimestamp(facts.clock, UTC).isoformat(),
            "seen": facts.seen,
            "refused": facts.refused,
            "late": facts.late,
            "model": None if current is None else {**asdict(current), "pinned": self.versions.pinned},
            "drift": self._last_drift(found),
        }
        with written_aside(self.folder / STATUS, overwrite=True) as aside:
            aside.write_text(json.dumps(status, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _last_drift(self, found: Drift | None) -> dict[str, Any] | None:
        """Return what the last look found."""
        if found is not None:
            return {"batch": self.state.facts.batch, "status": found.status, "verdict": found.verdict()}
        try:
            before: dict[str, Any] = json.loads((self.folder / STATUS).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return before.get("drift")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
