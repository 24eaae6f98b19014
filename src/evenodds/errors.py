"""Every error and warning of evenodds.

::

    EvenoddsError            everything below; its text is one line, with a hint
    ├── LogError             the log cannot be counted; carries every problem found
    ├── TallyError           counts that cannot be used: one group, no positives, nothing in them
    │   └── GridMismatchError    tallies whose score cells or roles differ
    ├── SettingsError        a setting outside its range, or settings that contradict each other
    ├── FileFormatError      a model or tally file that cannot be trusted
    │   ├── DamagedFileError     truncated, edited, or not ours
    │   └── NewerVersionError    written by a later version
    ├── GraphError           a causal graph that cannot be read: a cycle, a role missing
    ├── OutputError          a path that exists, or cannot be written
    ├── StoreError           a feedback store that cannot be read or written now: locked, full, away
    ├── UnknownGroupError    a group the model has not seen, under unknown="error"
    └── MissingExtraError    an optional dependency is not installed

    EvenoddsWarning          the base of all warnings
    ├── HomogeneityWarning   position bias differs between items: joint's assumption fails
    ├── SmallGroupWarning    a group too small for a map of its own
    └── RandomDrawWarning    draws made without keys: they repeat only with the seed that is named
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EvenoddsError(Exception):
    """Base class: what is wrong, where, what was expected; and a hint."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = " ".join(message.split())
        self.hint = hint
        super().__init__(self.message if hint is None else f"{self.message} (hint: {hint})")


class LogError(EvenoddsError):
    """The log has problems; all of them are in `problems`."""

    def __init__(self, problems: Iterable[str], *, hint: str | None = None) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "" if count == 1 else f"{count} problems in the log: "
        super().__init__(head + "; ".join(self.problems), hint=hint)


class TallyError(EvenoddsError):
    """Counts that cannot be used."""


class GridMismatchError(TallyError):
    """Tallies whose score cells or roles differ."""


class SettingsError(EvenoddsError, ValueError):
    """A setting outside its range, or settings that contradict each other."""


class FileFormatError(EvenoddsError):
    """A model or tally file that cannot be trusted."""


class DamagedFileError(FileFormatError):
    """A file that is truncated, edited, or not ours."""


class NewerVersionError(FileFormatError):
    """A file written by a later version."""


class GraphError(EvenoddsError):
    """A causal graph that cannot be read."""


class OutputError(EvenoddsError):
    """A path that exists, or cannot be written."""


class StoreError(EvenoddsError):
    """A feedback store that cannot be read or written now."""


class UnknownGroupError(EvenoddsError):
    """A group the model has not seen, under ``unknown="error"``."""


class MissingExtraError(EvenoddsError, ImportError):
    """An optional dependency is not installed."""


class EvenoddsWarning(UserWarning):
    """Base class of all warnings."""


class HomogeneityWarning(EvenoddsWarning):
    """Position bias differs between items."""


class SmallGroupWarning(EvenoddsWarning):
    """A group too small for a map of its own."""


class RandomDrawWarning(EvenoddsWarning):
    """Draws made without keys."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt one, for "did you mean ...?".

    >>> nearest("scroe", ["score", "group"])
    'score'
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return close[0]
    lowered = {known_name.lower(): known_name for known_name in names}
    return lowered.get(name.lower())
