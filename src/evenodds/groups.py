"""From group values, as a caller has them, to the rows of a model's tables."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from evenodds.errors import SettingsError, UnknownGroupError

Group = tuple[str, ...]
Codes = npt.NDArray[np.intp]
Unknown = Literal["pooled", "keep", "error"]
UNKNOWN_POLICIES = ("pooled", "keep", "error")
_FEW = 2_000  # so few values are looked up one by one
_FEW_NAMES = 32
_BLOCK = 32_768  # rows whose texts fit the second-level cache


def group_name(group: Group) -> str:
    """Name a group for people: crossed columns are joined by a sign that no column uses.

    >>> group_name(("female", "30-39"))
    'female × 30-39'
    """
    return " × ".join(group)


class GroupIndex:
    """Looks up groups; a null or unseen group gets the last code, one past the known ones.

    Names, whole numbers and booleans are the same group when they print alike: 1 and "1". Where a column
    of the log was boolean, 1 and 0 mean true and false, and the other way round: such columns change
    their type from one store to the next. Several group columns come as a tuple of columns, in the order
    of the log's roles.
    """

    def __init__(self, groups: Sequence[Group], columns: Sequence[str], stride: int = 1) -> None:
        self.groups = tuple(groups)
        self.columns = tuple(columns)
        self.unknown = len(groups) * stride
        self._stride = stride
        self._crossed = {group: place * stride for place, group in enumerate(groups)}
        single = {group[0]: place * stride for group, place in zip(groups, range(len(groups)), strict=True)}
        self._alike = [other_names({group[place] for group in groups}) for place in range(len(self.columns))]
        if len(self.columns) == 1:
            single |= {other: single[name] for other, name in self._alike[0].items() if name in single}
        self._codes = _Lookup(self.unknown, single if len(self.columns) == 1 else {})
        self._numbers = (
            {group[0]: place for place, group in enumerate(groups)}
            if self._codes and len(groups) < 256
            else {}
        )
        self._strides = np.arange(len(groups), dtype=np.intp) * stride

    def codes(self, groups: object, size: int) -> Codes:
        """Return each item's code, multiplied by the stride."""
        if len(self.columns) == 1:
            known = self.known_codes(groups, size)
            return self._column(_single(groups), size, self._codes) if known is None else known
        if not isinstance(groups, tuple) or len(groups) != len(self.columns):
            raise SettingsError(
                f"this model has groups by {' × '.join(self.columns)}; expected a tuple of {len(self.columns)} columns"
            )
        parts = []
        for column, alike in zip(groups, self._alike, strict=True):
            names: dict[str, int] = {}
            seen = _Numbering(names, alike)
            parts.append((self._column(column, size, seen), names))
        packed = np.zeros(size, dtype=np.intp)
        for codes, names in parts:
            packed = packed * (len(names) + 1) + codes
        table = np.full(int(np.prod([len(names) + 1 for _, names in parts])), self.unknown, dtype=np.intp)
        for group, code in self._crossed.items():
            numbers = [names.get(name) for name, (_, names) in zip(group, parts, strict=True)]
            if None in numbers:  # not among these items
                continue
            place = 0
            for number, (_, names) in zip(cast("list[int]", numbers), parts, strict=True):
                place = place * (len(names) + 1) + number
            table[place] = code
        return table[packed]

    def known_codes(self, groups: object, size: int) -> Codes | None:
        """Return the same for a request's worth of names, all of them known; None for anything else."""
        if self._numbers and type(groups) is list and 1 < len(groups) == size <= _FEW:
            try:  # one loop in C over a plain dict, codes as bytes
                return self._strides.take(np.frombuffer(bytes(itemgetter(*groups)(self._numbers)), np.uint8))
            except (KeyError, TypeError):
                pass
        return None

    def name(self, code: int) -> str:
        """Name the group of a code."""
        place = code // self._stride
        return group_name(self.groups[place]) if place < len(self.groups) else "unknown"

    def _column(self, values: object, size: int, lookup: dict[Any, int]) -> Codes:
        codes = _codes(values, lookup)
        if codes.size != size:
            raise SettingsError(f"{size} scores but {codes.size} groups; expected one group an item")
        return codes

    def check_known(self, codes: Codes, groups: object) -> None:
        """Raise for the first null or unseen group."""
        missing = np.flatnonzero(codes == self.unknown)
        if missing.size:
            first = int(missing[0])
            columns = groups if isinstance(groups, tuple) else (groups,)
            value = group_name(tuple(str(_listed(column)[first]) for column in columns))
            known = ", ".join(map(group_name, self.groups))
            raise UnknownGroupError(
                f"unknown group {value!r} for {missing.size} of {codes.size} items, first at {first}; known: {known}",
                hint="unknown='pooled' gives such items the map of all groups together",
            )


class _Lookup(dict[Any, int]):
    """Codes by value; what is not there is looked up by its printed form once, then remembered."""

    _REMEMBERED = 10_000  # unseen values must not fill the memory of a server

    def __init__(self, unknown: int, names: dict[str, int]) -> None:
        super().__init__(names)
        self._unknown = unknown
        self._names = names

    def __missing__(self, value: Any) -> int:
        code = self._names.get(printed_group(value), self._unknown)
        # Not 0 and 1: a dict takes them for False and True, which are other groups.
        if len(self) < self._REMEMBERED and value not in {0, 1}:
            self[value] = code
        return code


class _Numbering(dict[Any, int]):
    """Numbers values in order of appearance, by their printed form; null is 0 and matches nothing."""

    def __init__(self, names: dict[str, int], alike: dict[str, str]) -> None:
        super().__init__()
        self._names = names
        self._alike = alike

    def __missing__(self, value: Any) -> int:
        printed = printed_group(value)
        printed = self._alike.get(printed, printed)
        code = (
            0
            if printed == "" and not isinstance(value, str)
            else self._names.setdefault(printed, len(self._names) + 1)
        )
        if value not in {0, 1}:  # which are False and True to a dict
            self[value] = code
        return code


def other_names(names: set[str]) -> dict[str, str]:
    """Return what else a column's names go by: a column of two truth values, by numbers or by words.

    >>> other_names({"true", "false"}), other_names({"0", "1"}), other_names({"0", "1", "2"})
    ({'1': 'true', '0': 'false'}, {'true': '1', 'false': '0'}, {})
    """
    if names <= {"true", "false"}:
        return {"1": "true", "0": "false"}
    return {"true": "1", "false": "0"} if names <= {"0", "1"} else {}


def printed_group(value: object) -> str:
    """Print a value as Arrow's cast to text does."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))  # whole numbers that a null turned into floats
    return ""


def _single(groups: object) -> object:
    return groups[0] if isinstance(groups, tuple) and len(groups) == 1 else groups


def _listed(values: object) -> list[Any]:
    listed = (
        getattr(values, "tolist", None)
        or getattr(values, "to_pylist", None)
        or getattr(values, "to_list", None)
    )
    return cast("list[Any]", listed()) if listed is not None else list(cast("Sequence[Any]", values))


def _codes(values: object, lookup: dict[Any, int]) -> Codes:
    """Look up a column, each distinct value once where there are many rows."""
    if isinstance(values, str):
        raise SettingsError(
            f"groups is the text {values!r}; expected one group an item, in a list or an array"
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "iub" and values.size > _FEW:
        distinct, places = np.unique(values, return_inverse=True)
        return np.array([lookup[value] for value in distinct.tolist()], dtype=np.intp)[places]
    try:
        size = len(cast("Sequence[Any]", values))
    except TypeError:
        raise SettingsError(
            f"groups is a {type(values).__name__}; expected one group an item, in a list or an array"
        ) from None
    if size <= _FEW:
        return np.array([lookup[value] for value in _listed(values)], dtype=np.intp)
    return _many(values, lookup)


def _many(values: object, lookup: dict[Any, int]) -> Codes:
    """Let Arrow number the distinct values of a long column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        return _fixed_width(values, lookup)
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else None
    if column is None and hasattr(values, "__arrow_c_stream__"):
        column = pa.chunked_array(values)
    if column is None:
        try:
            column = pa.array(cast("Any", values), from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types
            return np.array([lookup[value] for value in _listed(values)], dtype=np.intp)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # some types do not combine into one array
        column = pa.concat_arrays(column.chunks)
    encoded = column if isinstance(column, pa.DictionaryArray) else pc.dictionary_encode(column)
    table = np.array(
        [*(lookup[value] for value in encoded.dictionary.to_pylist()), lookup[None]], dtype=np.intp
    )
    places = (
        encoded.indices.cast(pa.int64()).fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    )
    return table[places]


def _fixed_width(values: npt.NDArray[np.str_], lookup: dict[Any, int]) -> Codes:
    """Look up texts of fixed width by their bytes, block by block: no object is made for any of them."""
    size = values.dtype.itemsize
    word = np.dtype(np.uint64 if size % 8 == 0 else np.uint32)
    if size == 0:  # an array of nothing but empty texts
        return np.full(values.size, lookup[""], dtype=np.intp)
    words = np.ascontiguousarray(values).view(word).reshape(values.size, size // word.itemsize)
    codes = np.full(values.size, -1, dtype=np.intp)
    known: list[tuple[npt.NDArray[Any], int]] = []
    for start in range(0, values.size, _BLOCK):
        block, found = words[start : start + _BLOCK], codes[start : start + _BLOCK]
        for pattern, code in known:
            found[_equal(block, pattern)] = code
        while (left := np.flatnonzero(found < 0)).size:
            if len(known) == _FEW_NAMES:  # there are few groups as a rule, but nothing says so
                distinct, places = np.unique(values[start + left], return_inverse=True)
                found[left] = np.array([lookup[value] for value in distinct.tolist()], dtype=np.intp)[places]
                break
            first = int(left[0])
            known.append((block[first].copy(), lookup[str(values[start + first])]))
            found[left[_equal(block[left], known[-1][0])]] = known[-1][1]
    return codes


def _equal(rows: npt.NDArray[Any], pattern: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    same = rows[:, 0] == pattern[0]
    for place in range(1, pattern.size):
        same &= rows[:, place] == pattern[place]
    return cast("npt.NDArray[np.bool_]", same)
