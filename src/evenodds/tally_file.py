"""A tally on disk: one Parquet file, sparse counts as rows, everything else as JSON metadata."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evenodds._version import __version__
from evenodds.engines.arrow import Counts
from evenodds.errors import DamagedFileError, NewerVersionError
from evenodds.files import written_aside
from evenodds.grid import Grid
from evenodds.log import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from evenodds.tally import Tally

FORMAT = "evenodds-tally"
VERSION = 1
_KEY = b"evenodds"
_COLUMNS = ["array", "place", "count"]
_ARRAYS = ("counts", "squares", "folds", "swaps")


def write(
    tally: Tally,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    extra: dict[str, Any] | None = None,
    durable: bool = False,
) -> None:
    """Write the file aside, then rename it; `extra` are facts that stand and fall with the counts."""
    table = _laid_out(tally, extra)
    with written_aside(path, overwrite=overwrite, durable=durable) as aside:
        _write(table, aside)


def to_bytes(tally: Tally) -> bytes:
    """Return what would stand in the file."""
    import pyarrow as pa

    held = pa.BufferOutputStream()
    _write(_laid_out(tally), held)
    return cast("bytes", held.getvalue().to_pybytes())


def from_bytes(content: bytes, name: str) -> Tally:
    """Read what `to_bytes` returned; `name` is for messages."""
    import pyarrow as pa

    return _read(pa.BufferReader(content), name)[0]


def _write(table: pa.Table, where: object) -> None:
    import pyarrow.parquet as pq

    # Places ascend within an array, so that their differences take a byte or two each.
    pq.write_table(
        table,
        where,
        compression="zstd",
        use_dictionary=["array", "count"],
        column_encoding={"place": "DELTA_BINARY_PACKED"},
    )


def _laid_out(tally: Tally, extra: dict[str, Any] | None = None) -> pa.Table:
    """Lay the counts that are not zero out as rows, with everything else as metadata."""
    import pyarrow as pa

    shapes: dict[str, list[int]] = {}
    parts = []
    for number, name in enumerate(_ARRAYS):
        array = cast("Counts | None", getattr(tally, name))
        if array is None:
            continue
        shapes[name] = list(array.shape)
        flat = array.ravel()
        place = np.flatnonzero(flat)
        parts.append(
            pa.table(
                {
                    "array": pa.array(np.full(place.size, number, np.int8)),
                    "place": pa.array(place.astype(np.int64)),
                    "count": pa.array(flat[place]),
                }
            )
        )
    table = pa.concat_tables(parts)
    head: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"evenodds {__version__}",
        "rows": tally.rows,
        "sources": list(tally.sources),
        "roles": asdict(tally.roles),
        "groups": [list(group) for group in tally.groups],
        "depth": tally.depth,
        "score_range": list(tally.score_range),
        "arrays": {name: shapes.get(name) for name in _ARRAYS},
        "grid": {"boundaries": tally.grid.boundaries.tolist(), "atoms": tally.grid.atoms.tolist()},
    }
    if extra is not None:
        head["extra"] = extra
    head["checksum"] = _checksum(head, table)
    return table.replace_schema_metadata({_KEY: json.dumps(head).encode()})


def read(path: str | os.PathLike[str]) -> Tally:
    """Read the file, check it, and lay the counts out again."""
    return _read(os.fspath(path), os.fspath(path))[0]


def read_with_extra(path: str | os.PathLike[str]) -> tuple[Tally, dict[str, Any] | None]:
    """Read the file and what was written with the counts."""
    return _read(os.fspath(path), os.fspath(path))


def _read(source: object, name: str) -> tuple[Tally, dict[str, Any] | None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evenodds.tally import Tally

    try:
        table = pq.read_table(source, partitioning=None)
        head = json.loads((table.schema.metadata or {}).get(_KEY, b"null"))
        columns = table.column_names
    except FileNotFoundError:
        raise DamagedFileError(f"no such file: {name}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedFileError(
            f"{name} is not a whole tally file: {reason}", hint="make it again with evenodds tally"
        ) from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DamagedFileError(
            f"{name} is not a tally file", hint="evenodds tally LOG -o day.tally makes one"
        )
    version = head.get("version")
    if isinstance(version, int) and version > VERSION:
        raise NewerVersionError(
            f"{name} has tally version {version}; this program reads up to {VERSION}",
            hint="upgrade evenodds",
        )
    if columns != _COLUMNS or head.pop("checksum", None) != _checksum(head, table):
        raise DamagedFileError(f"{name} has been changed since it was written: its checksum does not fit")
    number = table["array"].to_numpy()
    places, counts = table["place"].to_numpy(), table["count"].to_numpy()
    arrays: dict[str, Counts | None] = {}
    for index, key in enumerate(_ARRAYS):
        shape = head["arrays"][key]
        if shape is None:
            arrays[key] = None
            continue
        low, high = np.searchsorted(number, (index, index + 1))
        dense = np.zeros(int(np.prod(shape)), counts.dtype)
        dense[places[low:high]] = counts[low:high]
        arrays[key] = dense.reshape(shape)
    roles = head["roles"]
    roles["group"] = tuple(roles["group"])
    grid = head["grid"]
    counted = Tally(
        grid=Grid(np.array(grid["boundaries"], np.float64), np.array(grid["atoms"], np.int64)),
        groups=tuple(map(tuple, head["groups"])),
        roles=Roles(**roles),
        counts=cast("Counts", arrays["counts"]),
        squares=cast("Counts", arrays["squares"]),
        folds=arrays["folds"],
        swaps=arrays["swaps"],
        depth=head["depth"],
        score_range=(head["score_range"][0], head["score_range"][1]),
        rows=head["rows"],
        sources=tuple(head["sources"]),
    )
    return counted, head.get("extra")


def is_tally(path: str | os.PathLike[str]) -> bool:
    """Tell a tally file from a log; what cannot be read is left to whoever opens it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if os.fspath(path).lower().endswith(".tally"):
        return True
    if "://" in os.fspath(path):  # an address: only Spark opens it
        return False
    try:
        return _KEY in (pq.read_schema(os.fspath(path)).metadata or {})
    except (pa.ArrowException, OSError, ValueError):
        return False


def _checksum(head: dict[str, object], table: pa.Table) -> str:
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for column in _COLUMNS:
        digest.update(np.ascontiguousarray(table[column].to_numpy()).tobytes())
    return f"sha256:{digest.hexdigest()}"
