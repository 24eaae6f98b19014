"""A causal graph held against a log: the distances of an audit beside what the arrows imply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evenodds.audit import Audit, audit, label_name
from evenodds.audit.intervals import Figure
from evenodds.errors import SettingsError
from evenodds.log import Log
from evenodds.sources import open_source
from evenodds.tally import Tally, is_counted

if TYPE_CHECKING:
    from evenodds.causal.reading import CausalReading

Outcome = Literal["agree", "disagree", "not seen", "not tested"]

SURE = 0.05


@dataclass(frozen=True)
class Tested:
    """Independence of score and group given one label, in a log.

    Attributes
    ----------
    label
        0 for negatives, 1 for positives, 2, ... for further outcomes.
    distance
        The largest Kolmogorov-Smirnov distance between two groups, with its 95 % interval.
    p_value
        Of independence, corrected for all pairs and labels; None without enough folds.
    outcome
        "agree" or "disagree" with the graph; "not seen" if the graph leaves a path open and the log shows
        no dependence, which a weak or cancelled path can do; "not tested".
    """

    label: int
    distance: Figure
    p_value: float | None
    outcome: Outcome


@dataclass(frozen=True)
class Agreement:
    """What a log says to a graph; prints as text.

    Attributes
    ----------
    tests
        One for each label.
    kind
        "merit" labels, with position bias undone, or "observed" ones, as logged.
    """

    reading: CausalReading
    tests: tuple[Tested, ...]
    kind: str
    rows: int
    outcomes: int = 1

    @property
    def agrees(self) -> bool:
        """Whether no test contradicts the graph."""
        return all(test.outcome != "disagree" for test in self.tests)

    def verdict(self) -> str:
        """Say in one sentence whether log and graph agree."""
        graph, found = self.reading.graph, {test.outcome for test in self.tests}
        pair = f"{graph.score} and {graph.group} given {graph.label}"
        if "disagree" in found:
            return (
                f"the log disagrees with the graph: {pair} should be independent and are not; "
                "an arrow or a common cause is missing, or this label is not the graph's"
            )
        if found == {"not tested"}:
            return "too few rows to test: the log says nothing about the graph"
        if self.reading.equalized_odds:
            return f"the log agrees with the graph: no dependence of {pair} beyond chance"
        seen = [test for test in self.tests if test.outcome == "agree"]
        if not seen:
            return (
                f"the graph leaves a path open and the log shows no dependence of {pair}: the path is weak, "
                "cancelled by another, or not there"
            )
        if all(test.label == 0 for test in seen) and len(found) > 1:
            return (
                "the log agrees with the graph for negatives only: equality of opportunity holds here, which no "
                "graph can tell from equalized odds"
            )
        return f"the log agrees with the graph: {pair} are dependent"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "verdict": self.verdict(),
            "agrees": self.agrees,
            "kind": self.kind,
            "rows": self.rows,
            "tests": [
                {
                    "label": label_name(test.label, self.outcomes),
                    "ks": test.distance.to_dict(),
                    "p_adjusted": test.p_value,
                    "outcome": test.outcome,
                }
                for test in self.tests
            ],
        }

    def __str__(self) -> str:
        implied = "independent" if self.reading.equalized_odds else "connected"
        lines = [f"in the log: {self.rows:,} rows, {self.kind} labels; {self.verdict()}"]
        for test in self.tests:
            name = f"given {label_name(test.label, self.outcomes)}"
            p = "not tested" if test.p_value is None else f"p = {test.p_value:.2g}"
            if test.p_value is not None and test.p_value < 0.01:
                p = "p < 0.01"
            said = {"disagree": "disagrees", "agree": "agrees"}.get(test.outcome, test.outcome)
            lines.append(f"  {name:<14}  graph: {implied:<11}  log: KS {test.distance.text()}, {p}  {said}")
        return "\n".join(lines)


def compare(reading: CausalReading, data: object, roles: dict[str, Any]) -> Agreement:
    """Audit a log and lay it beside a reading; see :meth:`evenodds.CausalReading.compare`."""
    kind = roles.pop("kind", None)
    if kind not in {None, "merit", "observed"}:
        raise SettingsError(f"kind must be merit or observed, got {kind!r}")
    if isinstance(data, Audit):
        if roles:
            raise SettingsError(f"an audit is counted already: {', '.join(roles)} would have no effect")
        found = data
    elif is_counted(data) or isinstance(data, Log):
        found = audit(data, **roles)
    else:
        found = audit(data, **_columns(reading, data, roles))
    # Where position bias is known to be none, merit labels are the observed ones.
    known = {one.kind for one in found.distances}
    kind = (kind or found.main_kind) if "merit" in known else "observed"
    labels = sorted({one.label for one in found.distances}, reverse=True)
    tests = tuple(_tested(reading, found, label, kind) for label in labels)
    return Agreement(reading, tests, kind, found.rows, found.outcomes)


def node_roles(reading: CausalReading, names: list[str]) -> dict[str, str]:
    """Return which column is what: the one named as the variable, where the log has it."""
    graph = reading.graph
    variables = {"score": graph.score, "group": graph.group, "label": graph.label}
    return {role: name for role, name in variables.items() if name in names}


def _columns(reading: CausalReading, data: object, roles: dict[str, Any]) -> dict[str, Any]:
    if isinstance(data, Tally):
        return roles
    return {**node_roles(reading, open_source(data).schema.names), **roles}


def _tested(reading: CausalReading, found: Audit, label: int, kind: str) -> Tested:
    pairs = [one for one in found.distances if one.label == label and one.kind == kind]
    judged = [one for one in pairs if one.small is None] or pairs
    top = max(judged, key=lambda one: one.before)
    known = [one.logged.p_adjusted for one in judged if one.logged.p_adjusted is not None]
    p_value = min(known, default=None)
    outcome: Outcome
    if p_value is None:
        outcome = "not tested"
    elif p_value < SURE:
        outcome = "disagree" if reading.equalized_odds else "agree"
    else:
        outcome = "agree" if reading.equalized_odds else "not seen"
    return Tested(label, top.logged.ks, p_value, outcome)
