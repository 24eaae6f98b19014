"""A whole study: run it, decide its claims, write results and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenodds._version import __version__
from evenodds.errors import OutputError, SettingsError
from evenodds.files import check_output, written_aside
from evenodds.reproduce.claims import Claim

Study = Literal["paper", "network"]
STUDIES: tuple[Study, ...] = ("paper", "network")
SCHEMA = 1


@dataclass(frozen=True)
class Reproduced:
    """What came out.

    Attributes
    ----------
    document
        The content of results.json. Only "timings" differs between two runs of the same seed.
    claims
        Each with its numbers and whether it holds.
    """

    document: dict[str, Any]
    claims: tuple[Claim, ...]


def steps(study: Study, *, quick: bool) -> int:
    """Return how many times `progress` will be called."""
    return int(_size(study, quick=quick).replicates)


def reproduce(
    study: Study = "paper",
    *,
    quick: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Reproduced:
    """Repeat a study of the paper; `quick` is a small one, for continuous integration."""
    from evenodds.reproduce.claims import decide
    from evenodds.reproduce.network_claims import decide_network
    from evenodds.reproduce.paper import run_paper
    from evenodds.reproduce.trial import run_network

    if study not in STUDIES:
        raise SettingsError(f"unknown study {study!r}; expected {', '.join(STUDIES)}")
    if seed < 0:
        raise SettingsError(f"seed must not be negative, got {seed}")
    size = _size(study, quick=quick)
    if study == "paper":
        results = run_paper(size, seed=seed, progress=progress)
        claims = decide(results)
    else:
        results = run_network(size, seed=seed, progress=progress)
        claims = decide_network(results)
    timings = results.pop("timings", None)
    document = {
        "schema": SCHEMA,
        "study": study,
        "quick": quick,
        "simulated": True,
        "seed": seed,
        "written_by": f"evenodds {__version__}",
        "claims": [claim.to_dict() for claim in claims],
        "results": results,
        "timings": timings,
    }
    return Reproduced(document, tuple(claims))


def _size(study: Study, *, quick: bool) -> Any:
    from evenodds.reproduce.paper import FULL, QUICK
    from evenodds.reproduce.trial import FULL_NETWORK, QUICK_NETWORK

    if study == "network":
        return QUICK_NETWORK if quick else FULL_NETWORK
    return QUICK if quick else FULL


def check_folder(study: Study, folder: Path, *, pictures: bool, overwrite: bool) -> None:
    """Make the folder, and refuse files that are there, before any work is done."""
    from evenodds.reproduce.pictures import paths

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from None
    for path in (folder / "results.json", *(paths(study, folder) if pictures else ())):
        check_output(path, overwrite=overwrite)


def write_results(found: Reproduced, folder: Path, *, overwrite: bool = False) -> Path:
    """Write results.json, whole or not at all."""
    path = folder / "results.json"
    with written_aside(path, overwrite=overwrite) as aside:
        aside.write_text(json.dumps(found.document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def timing_table(timings: dict[str, Any]) -> str:
    """Lay our times out beside the paper's.

    >>> seconds = {"counting": 0.5, "position bias, joint": 0.1, "position bias, adjacent": 0.02}
    >>> print(timing_table({"rows": 5, "seconds": seconds | {"EOpp": 0.1, "EOdds": 0.4, "EOdds observed": 2.0},
    ...     "paper_seconds": {"position bias": 7.0, "EOpp": 9.0, "EOdds": 100.0}, "note": "..."}))
    seconds to learn from 5 rows      here   paper
    counting the log                  0.50       -
    position bias, adjacent           0.02     7.0
    position bias, joint              0.10       -
    EOpp                              0.10     9.0
    EOdds                             0.40   100.0
    EOdds, target observed            2.00       -
    (...)
    """
    ours, paper = timings["seconds"], timings["paper_seconds"]
    lines = [f"seconds to learn from {timings['rows']:,} rows".ljust(38) + "here".rjust(8) + "paper".rjust(8)]
    for title, name, theirs in (
        ("counting the log", "counting", None),
        ("position bias, adjacent", "position bias, adjacent", paper["position bias"]),
        ("position bias, joint", "position bias, joint", None),
        ("EOpp", "EOpp", paper["EOpp"]),
        ("EOdds", "EOdds", paper["EOdds"]),
        ("EOdds, target observed", "EOdds observed", None),
    ):
        lines.append(f"{title:<38}{ours[name]:>8.2f}{'-' if theirs is None else f'{theirs:.1f}':>8}")
    return "\n".join([*lines, f"({timings['note']})"])
