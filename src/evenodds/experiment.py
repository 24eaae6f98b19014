"""What a reranker did: an A/B readout per group and metric.

A metric is a ratio of sums over an arm's units u, ``R = sum x_u / sum d_u``: positives per unit
(d = 1) or per impression (d = the unit's impressions). Units were randomised, impressions were not, so
the variance is that of units (delta method; Deng, Knoblich and Lu, "Applying the Delta Method in
Metric Analytics", KDD 2018):

    var R = n / (n - 1)  sum (x_u - R d_u)^2 / (sum d_u)^2.

The p-value is that of the difference R_t - R_c (Welch's t test), the interval of the lift
R_t / R_c - 1 is Fieller's, which leaves zero out exactly when that p-value is below 0.05.
Rows are read once; what is kept in memory is one row of sums for each unit and group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenodds.errors import LogError, SettingsError, nearest
from evenodds.log import Log
from evenodds.readout import ALL, Comparison, Experiment, SampleRatio
from evenodds.sources import Source, open_source
from evenodds.unit_sums import Sums, read_sums

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_TINY = 1e-24  # of the squared mean: a variance below it is rounding
_FEW_UNITS = 30


def experiment(
    log: object,
    *,
    arm: str = "arm",
    unit: str = "member",
    group: str | Sequence[str] | None = None,
    label: str | None = None,
    metrics: Sequence[str] | None = None,
    control: str | None = None,
    split: Mapping[str, float] | None = None,
    group_of: str = "auto",
    confidence: float = 0.95,
    settle: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Experiment:
    """Read out an A/B test.

    Parameters
    ----------
    log
        A :class:`Log`, or anything that `Log` takes. No score column is needed.
    arm, unit
        Columns: which arm a row was shown under, and what was randomised.
    group, label
        Columns; those of the Log, else "group" and "label".
    metrics
        Columns to compare: outcomes, or any numbers; the label, if not given.
    control
        The arm that the others are compared with; None takes one called control, else the first by name.
    split
        The planned shares of units by arm; equal, if not given.
    group_of
        "item": groups are those of the items shown, and positives of a group count per unit of any
        kind; "unit": groups of units, and they count per unit of the group. "auto" takes "unit" if no
        unit has rows of two groups.
    confidence
        Of the intervals; p-values below 1 - confidence, corrected, count as a change.
    settle
        For feedback stores, as in :class:`Log`. A ramp's arms are in the column `arm`, and its units the keys
        of requests, in `query`.
    progress
        Called with the number of rows after each batch.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rng = np.random.default_rng(1)
    >>> member = np.repeat(np.arange(2000), 5)
    >>> rate = np.where(member % 2, 0.3, 0.2)
    >>> log = pa.table({"member": member, "arm": np.array(["control", "fair"])[member % 2],
    ...                 "group": np.array(["FM", "IM"])[rng.integers(0, 2, member.size)],
    ...                 "label": (rng.random(member.size) < rate).astype(int)})
    >>> print(experiment(log).verdict)
    fair, label per member: FM up 49.1 %, IM up 40.8 %, all up 44.9 %
    """
    if group_of not in {"auto", "item", "unit"}:
        raise SettingsError(f"group_of must be 'auto', 'item' or 'unit', got {group_of!r}")
    if not 0 < confidence < 1:
        raise SettingsError(f"confidence must lie between 0 and 1, got {confidence}", hint="0.95 is usual")
    from evenodds.feedback.store import is_store

    if is_store(log):
        log = Log(log, settle=settle)
    source, groups, asked, kinds = _columns(log, arm, unit, group, label, metrics)
    sums = read_sums(source, arm, unit, groups, asked, kinds, progress)
    arms = _ordered(sums.arms, control, arm)
    _check_arms(sums, arm, unit)
    own = group_of == "unit" or (group_of == "auto" and len(sums.groups) > 1 and sums.one_group_each)
    if group_of == "unit" and not sums.one_group_each:
        raise LogError(
            [f"some units have rows of more than one group in column {'/'.join(groups)}"],
            hint="group_of='item' (--group-of item): the groups are those of the items shown",
        )
    found = []
    for other in arms[1:]:
        for metric in range(len(asked)):
            for denominator in (unit, "impression"):
                for place in _places(sums):
                    pair = [
                        _unit_ratios(sums, name, place, metric, denominator == "impression", own)
                        for name in (arms[0], other)
                    ]
                    name = ALL if place is None else sums.groups[place]
                    found.append(
                        _compared(other, name, asked[metric], denominator, pair[0], pair[1], confidence)
                    )
    notes = []
    if own:
        notes.append(f"groups are those of units: a group's positives count per {unit} of that group")
    counts = {name: int((sums.unit_arm == sums.arms.index(name)).sum()) for name in arms}
    notes += [
        f"arm {name} has {count} units: intervals are rough"
        for name, count in counts.items()
        if count < _FEW_UNITS
    ]
    return Experiment(
        arm=arm,
        unit=unit,
        control=arms[0],
        rows=sums.rows,
        units=counts,
        confidence=confidence,
        sample_ratio=_sample_ratio(counts, split),
        comparisons=_holm(found),
        notes=tuple(notes),
    )


def _places(sums: Sums) -> list[int | None]:
    """Return each group's number, and None for all units together where that says more."""
    groups: list[int | None] = list(range(len(sums.groups)))
    return groups if len(groups) == 1 else [*groups, None]


def _columns(
    log: object,
    arm: str,
    unit: str,
    group: str | Sequence[str] | None,
    label: str | None,
    metrics: Sequence[str] | None,
) -> tuple[Source | Log, tuple[str, ...], list[str], set[str]]:
    """Return where rows are, the group columns, the metrics, and those of them with several outcomes."""
    source: Source | Log = log if isinstance(log, Log) else open_source(log)
    roles = log.roles if isinstance(log, Log) else None
    if group is None:
        groups = roles.group if roles is not None else ("group",)
    else:
        groups = (group,) if isinstance(group, str) else tuple(group)
    if label is None:
        label = roles.label if roles is not None else "label"
    asked = list(dict.fromkeys(metrics)) if metrics else [label]
    names = source.schema.names
    wanted = {"arm": [arm], "unit": [unit], "group": list(groups), "metric": asked}
    problems = [
        f"no column {name!r} for {role}"
        + (f", did you mean {close!r}?" if (close := nearest(name, names)) else "")
        for role, columns in wanted.items()
        for name in columns
        if name not in names
    ]
    if problems:
        raise LogError(problems, hint=f"columns: {', '.join(names)}")
    several = {label} if roles is not None and roles.outcomes > 1 else set()
    return source, groups, asked, several


def _ordered(arms: Sequence[str], control: str | None, column: str) -> list[str]:
    """Return the arms, the control first."""
    if len(arms) < 2:
        raise LogError(
            [f"only one arm ({arms[0]}) in column {column!r}: there is nothing to compare"],
            hint="is this the right column?",
        )
    if control is None:
        control = next((name for name in arms if name.lower() == "control"), arms[0])
    if control not in arms:
        close = nearest(control, arms)
        raise SettingsError(
            f"no arm {control!r} in column {column!r}; arms: {', '.join(arms)}",
            hint=f"did you mean {close!r}?" if close else None,
        )
    return [control, *(name for name in arms if name != control)]


def _check_arms(sums: Sums, arm: str, unit: str) -> None:
    if sums.crossed:
        said = (
            f"{sums.crossed:,} of {sums.units:,} units (column {unit!r}) are in more than one arm "
            f"(column {arm!r}), for instance that of row {sums.crossed_row}"
        )
        raise LogError(
            [said],
            hint="leave such units out, and find out why; or is this what was randomised?",
        )
    counts = np.bincount(sums.unit_arm, minlength=len(sums.arms))
    lone = [name for name, count in zip(sums.arms, counts, strict=True) if count < 2]
    if lone:
        raise LogError(
            [f"arm {lone[0]!r} has one unit in column {unit!r}: its variance cannot be told"],
            hint="two units an arm at the least; is this what was randomised?",
        )


@dataclass(frozen=True)
class _Ratio:
    """A ratio of sums over one arm's units, with its variance."""

    units: int
    value: float
    variance: float


def _unit_ratios(
    sums: Sums, arm: str, group: int | None, metric: int, per_impression: bool, own: bool
) -> _Ratio:
    members = sums.unit_arm == sums.arms.index(arm)
    chosen = slice(None) if group is None else slice(group, group + 1)
    shown = sums.impressions[members, chosen].sum(axis=1)
    total = sums.totals[members, chosen, metric].sum(axis=1)
    if own and group is not None:
        total, shown = total[shown > 0], shown[shown > 0]
    over = shown if per_impression else np.ones(shown.size)
    if total.size < 2 or over.sum() == 0:
        return _Ratio(total.size, float("nan"), float("nan"))
    value = float(total.sum() / over.sum())
    left = total - value * over
    variance = float(total.size / (total.size - 1) * (left @ left) / over.sum() ** 2)
    return _Ratio(total.size, value, variance if variance > _TINY * value**2 else 0.0)


def _compared(
    arm: str, group: str, metric: str, over: str, control: _Ratio, treated: _Ratio, confidence: float
) -> Comparison:
    """Compare two ratios: Welch's t test, and Fieller's interval of the lift."""
    from scipy.special import stdtr, stdtrit

    lift = treated.value / control.value - 1 if control.value else float("nan")
    variance = control.variance + treated.variance
    p_value = interval = None
    if variance > 0:  # false for NaN, too
        parts = np.array([control.variance, treated.variance])
        degrees = float(variance**2 / (parts**2 / (np.array([control.units, treated.units]) - 1)).sum())
        p_value = float(2 * stdtr(degrees, -abs(treated.value - control.value) / np.sqrt(variance)))
        interval = _fieller(control, treated, float(stdtrit(degrees, (1 + confidence) / 2)))
    return Comparison(
        arm=arm,
        group=group,
        metric=metric,
        per=over,
        control=control.value,
        treated=treated.value,
        lift=lift,
        interval=interval,
        p_value=p_value,
        adjusted=None,
        changed=False,
        confidence=confidence,
    )


def _fieller(control: _Ratio, treated: _Ratio, reach: float) -> tuple[float, float] | None:
    """Solve ``(R_t - q R_c)^2 = reach^2 (var_t + q^2 var_c)`` for q; None where the interval is open."""
    a = control.value**2 - reach**2 * control.variance
    c = treated.value**2 - reach**2 * treated.variance
    b = treated.value * control.value
    root = b * b - a * c
    if a <= 0 or root < 0:  # the control could be zero
        return None
    return (b - float(np.sqrt(root))) / a - 1, (b + float(np.sqrt(root))) / a - 1


def _holm(found: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Correct all p-values of the readout together (Holm, 1979)."""
    tested = [place for place, one in enumerate(found) if one.p_value is not None]
    tested.sort(key=lambda place: found[place].p_value or 0.0)
    adjusted: dict[int, float] = {}
    largest = 0.0
    for rank, place in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * (found[place].p_value or 0.0)))
        adjusted[place] = largest
    return tuple(one.corrected(adjusted.get(place)) for place, one in enumerate(found))


def _sample_ratio(counts: dict[str, int], split: Mapping[str, float] | None) -> SampleRatio:
    """Test the arms' sizes against the planned split (chi-square)."""
    from scipy.special import chdtrc

    if split is not None and (
        set(split) != set(counts) or not all(np.isfinite(part) and part > 0 for part in split.values())
    ):
        raise SettingsError(
            f"split must give a share above 0 for each of the arms {', '.join(counts)}, got {dict(split)}"
        )
    planned = np.array([1.0 if split is None else split[name] for name in counts])
    seen = np.array(list(counts.values()), dtype=np.float64)
    expected = planned / planned.sum() * seen.sum()
    statistic = float(((seen - expected) ** 2 / expected).sum())
    shares = {name: float(part) for name, part in zip(counts, planned / planned.sum(), strict=True)}
    return SampleRatio(shares, statistic, float(chdtrc(len(counts) - 1, statistic)))
