"""evenodds: make any ranking fair to equally qualified people, from nothing but its logs.

log -> tally -> {position bias, audit} -> reranker -> {apply, serve, export, report}
"""

from typing import TYPE_CHECKING

from evenodds._version import __version__
from evenodds.apply import apply
from evenodds.audit import Audit, audit
from evenodds.causal import CausalReading, causal
from evenodds.drift import Drift, drift
from evenodds.errors import (
    DamagedFileError,
    EvenoddsError,
    EvenoddsWarning,
    FileFormatError,
    GraphError,
    GridMismatchError,
    HomogeneityWarning,
    LogError,
    MissingExtraError,
    NewerVersionError,
    OutputError,
    RandomDrawWarning,
    SettingsError,
    SmallGroupWarning,
    StoreError,
    TallyError,
    UnknownGroupError,
)
from evenodds.experiment import experiment
from evenodds.forecast import forecast
from evenodds.log import Log
from evenodds.opportunity import EqualOpportunity
from evenodds.outlook import Forecast
from evenodds.position import PositionBias, position_bias
from evenodds.privacy import Suppressed
from evenodds.readout import Experiment
from evenodds.report import report
from evenodds.reranker import Reranker, load
from evenodds.simulate import simulate
from evenodds.tally import Tally, tally
from evenodds.tradeoff import Prospect, Tradeoff, sweep

if TYPE_CHECKING:
    from evenodds.odds.equalized import EqualizedOdds
else:

    def __getattr__(name: str) -> object:
        """Import equalized odds, and SciPy with it, when it is asked for."""
        if name == "EqualizedOdds":
            from evenodds.odds.equalized import EqualizedOdds

            return EqualizedOdds
        raise AttributeError(f"module 'evenodds' has no attribute {name!r}")


__all__ = [
    "Audit",
    "CausalReading",
    "DamagedFileError",
    "Drift",
    "EqualOpportunity",
    "EqualizedOdds",
    "EvenoddsError",
    "EvenoddsWarning",
    "Experiment",
    "FileFormatError",
    "Forecast",
    "GraphError",
    "GridMismatchError",
    "HomogeneityWarning",
    "Log",
    "LogError",
    "MissingExtraError",
    "NewerVersionError",
    "OutputError",
    "PositionBias",
    "Prospect",
    "RandomDrawWarning",
    "Reranker",
    "SettingsError",
    "SmallGroupWarning",
    "StoreError",
    "Suppressed",
    "Tally",
    "TallyError",
    "Tradeoff",
    "UnknownGroupError",
    "__version__",
    "apply",
    "audit",
    "causal",
    "drift",
    "experiment",
    "forecast",
    "load",
    "position_bias",
    "report",
    "simulate",
    "sweep",
    "tally",
]
