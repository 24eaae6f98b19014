"""What Prometheus reads: counted by each worker for itself, added up when it is asked for.

A request only leaves its figures in a list; they are summed by the hundred. Each worker writes its sums
down once a second, and the worker that is asked adds the others' to its own: a figure is at most a second
old, and what a worker had counted when it ended still counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from evenodds.files import written_aside
from evenodds.serve.loaded import Live, Loaded
from evenodds.serve.rerank import Served, moved, would_be_order

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BATCH = 128  # lists whose figures are summed at a time, and
_BATCH_CANDIDATES = 20_000  # candidates, so that long lists do not pile up

Places = npt.NDArray[np.intp]
Table = dict[str, dict[str, float]]


class Sums(msgspec.Struct, kw_only=True):
    """What a worker has counted, and how far it has followed the state."""

    pid: int
    generation: int = 0
    requests: Table = {}
    lists: dict[str, float] = {}
    candidates: Table = {}
    exposure: Table = {}
    moved: dict[str, float] = {}
    seconds: dict[str, list[float]] = {}
    total_seconds: dict[str, float] = {}
    events: dict[str, float] = {}

    def add(self, other: Sums) -> None:
        """Add another worker's sums to these."""
        for mine, more in (
            (self.requests, other.requests),
            (self.candidates, other.candidates),
            (self.exposure, other.exposure),
        ):
            for name, row in more.items():
                _add(mine.setdefault(name, {}), row)
        for sums, more_sums in (
            (self.lists, other.lists),
            (self.moved, other.moved),
            (self.total_seconds, other.total_seconds),
            (self.events, other.events),
        ):
            _add(sums, more_sums)
        for path, counts in other.seconds.items():
            known = self.seconds.get(path, [0.0] * len(counts))
            self.seconds[path] = [a + b for a, b in zip(known, counts, strict=True)]


def _add(sums: dict[str, float], more: dict[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value


class Metrics:
    """Counts for one worker."""

    def __init__(self, folder: Path) -> None:
        self.sums = Sums(pid=os.getpid())
        self._folder = folder
        self._own = folder / f"{os.getpid()}.json"
        self._lists: list[tuple[Loaded, Served]] = []
        self._held = 0
        self._times: dict[str, list[float]] = {}

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        row = self.sums.requests.get(path)
        if row is None:
            row = self.sums.requests[path] = {}
        name = str(status)
        row[name] = row.get(name, 0.0) + 1.0
        times = self._times.setdefault(path, [])
        times.append(seconds)
        if len(times) >= _BATCH:
            self._flush_times()

    def served(self, loaded: Loaded, served: Served) -> None:
        """Count a list."""
        self._lists.append((loaded, served))
        self._held += served.scores.size
        if len(self._lists) >= _BATCH or self._held >= _BATCH_CANDIDATES:
            self._flush_lists()

    def event(self, name: str, count: float = 1.0) -> None:
        """Count something that happened to the server."""
        self.sums.events[name] = self.sums.events.get(name, 0.0) + count

    def flush(self) -> None:
        """Sum what was left in lists."""
        self._flush_times()
        self._flush_lists()

    def write(self, generation: int) -> None:
        """Write the sums down for the other workers; also the sign that this one lives."""
        self.flush()
        self.sums.generation = generation
        with written_aside(self._own, overwrite=True) as aside:
            aside.write_bytes(msgspec.json.encode(self.sums))

    def others(self) -> list[tuple[Path, Sums]]:
        """Return what the other workers have written."""
        found = []
        for path in self._folder.glob("*.json"):
            if path != self._own:
                try:
                    found.append((path, msgspec.json.decode(path.read_bytes(), type=Sums)))
                except (OSError, msgspec.MsgspecError):
                    continue
        return found

    def text(self, live: Live) -> bytes:
        """Return everything in Prometheus' format."""
        self.flush()
        everything = Sums(pid=0)
        everything.add(self.sums)
        for _, sums in self.others():
            everything.add(sums)
        registry = CollectorRegistry()
        registry.register(_Collector(everything, live))
        return generate_latest(registry)

    def _flush_times(self) -> None:
        for path, times in self._times.items():
            if times:
                places = np.searchsorted(BUCKETS, times)
                counts = np.bincount(places, minlength=len(BUCKETS) + 1).tolist()
                known = self.sums.seconds.get(path, [0.0] * len(counts))
                self.sums.seconds[path] = [a + b for a, b in zip(known, counts, strict=True)]
                self.sums.total_seconds[path] = self.sums.total_seconds.get(path, 0.0) + sum(times)
                times.clear()

    def _flush_lists(self) -> None:
        lists, self._lists, self._held = self._lists, [], 0
        by_model: dict[tuple[int, str], list[tuple[Loaded, Served]]] = {}
        for loaded, served in lists:
            by_model.setdefault((id(loaded), served.arm), []).append((loaded, served))
        for (_, arm), part in by_model.items():
            loaded = part[0][0]
            self.sums.lists[arm] = self.sums.lists.get(arm, 0.0) + len(part)
            self._exposed(arm, loaded, [served.codes[served.order] for _, served in part])
            if arm == "shadow":
                # What was shown is counted under "shadow"; what the model would have shown beside it.
                would = [would_be_order(served) for _, served in part]
                codes = [served.codes[order] for (_, served), order in zip(part, would, strict=True)]
                self._exposed("shadow, fair", loaded, codes)
                elsewhere = sum(moved(served) for _, served in part)
                self.sums.moved[arm] = self.sums.moved.get(arm, 0.0) + elsewhere

    def _exposed(self, arm: str, loaded: Loaded, codes: list[Places]) -> None:
        """Add up the candidates of each group, and the weights of the positions where they stand."""
        group = np.concatenate(codes) // loaded.stride
        weights = np.concatenate([loaded.weights[: part.size] for part in codes])
        count = np.bincount(group, minlength=len(loaded.names)).tolist()
        exposure = np.bincount(group, weights, minlength=len(loaded.names)).tolist()
        for sums, values in ((self.sums.candidates, count), (self.sums.exposure, exposure)):
            _add(sums.setdefault(arm, {}), dict(zip(loaded.names, values, strict=True)))


class _Collector:
    """Hands the sums to prometheus_client."""

    def __init__(self, sums: Sums, live: Live) -> None:
        self._sums, self._live = sums, live

    def collect(self) -> Iterator[Any]:
        """Yield every family."""
        sums, live = self._sums, self._live
        requests = CounterMetricFamily("evenodds_requests", "Requests answered.", labels=["path", "status"])
        for path, row in sums.requests.items():
            for status, count in row.items():
                requests.add_metric([path, status], count)
        yield requests
        seconds = HistogramMetricFamily(
            "evenodds_request_seconds", "Time to answer, from the request's first byte.", labels=["path"]
        )
        for path, counts in sums.seconds.items():
            running = np.cumsum(counts).tolist()
            names = [*(str(bound) for bound in BUCKETS), "+Inf"]
            seconds.add_metric(
                [path], list(zip(names, running, strict=True)), sums.total_seconds.get(path, 0.0)
            )
        yield seconds
        lists = CounterMetricFamily("evenodds_lists", "Lists ranked.", labels=["arm"])
        for arm, count in sums.lists.items():
            lists.add_metric([arm], count)
        yield lists
        candidates = CounterMetricFamily("evenodds_candidates", "Candidates ranked.", labels=["arm", "group"])
        exposure = CounterMetricFamily(
            "evenodds_exposure", "Sum of position weights of the candidates.", labels=["arm", "group"]
        )
        average = GaugeMetricFamily(
            "evenodds_average_exposure",
            "Position weight of a candidate, on average.",
            labels=["arm", "group"],
        )
        unknown = CounterMetricFamily(
            "evenodds_unknown_groups", "Candidates with a null or unseen group.", labels=["arm"]
        )
        for arm, row in sums.candidates.items():
            for group, count in row.items():
                candidates.add_metric([arm, group], count)
                exposure.add_metric([arm, group], sums.exposure[arm][group])
                if count:
                    average.add_metric([arm, group], sums.exposure[arm][group] / count)
            unknown.add_metric([arm], row.get("unknown", 0.0))
        yield from (candidates, exposure, average, unknown)
        moved = CounterMetricFamily(
            "evenodds_shadow_moved", "Candidates that the model would have put elsewhere.", labels=[]
        )
        moved.add_metric([], sums.moved.get("shadow", 0.0))
        yield moved
        events = CounterMetricFamily(
            "evenodds_events", "Models taken in or refused, and the like.", labels=["event"]
        )
        for event, count in sums.events.items():
            events.add_metric([event], count)
        yield events
        info = GaugeMetricFamily(
            "evenodds_model_info", "The model served now.", labels=["version", "criterion"]
        )
        info.add_metric([live.loaded.version, str(live.loaded.card["criterion"])], 1)
        yield info
        for name, help_text, value in (
            ("evenodds_ramp", "Share of request keys that are served the fair order.", live.ramp),
            ("evenodds_shadow", "1 while fair scores are computed and not shown.", float(live.shadow)),
            ("evenodds_generation", "Changes of state so far.", float(live.generation)),
        ):
            yield GaugeMetricFamily(name, help_text, value=value)
