"""evenodds: make any ranking fair to equally qualified people, from nothing but its logs.

log -> tally -> {position bias, audit} -> reranker -> {apply, serve, export, report}
"""

from evenodds._version import __version__
from evenodds.audit import Audit, audit
from evenodds.errors import (
    DamagedFileError,
    EvenoddsError,
    EvenoddsWarning,
    FileFormatError,
    GridMismatchError,
    HomogeneityWarning,
    LogError,
    MissingExtraError,
    NewerVersionError,
    OutputError,
    RandomDrawWarning,
    SettingsError,
    SmallGroupWarning,
    TallyError,
    UnknownGroupError,
)
from evenodds.log import Log
from evenodds.odds.equalized import EqualizedOdds
from evenodds.opportunity import EqualOpportunity
from evenodds.position import PositionBias, position_bias
from evenodds.reranker import Reranker, load
from evenodds.simulate import simulate
from evenodds.tally import Tally, tally
from evenodds.tradeoff import Prospect, Tradeoff, sweep

__all__ = [
    "Audit",
    "DamagedFileError",
    "EqualOpportunity",
    "EqualizedOdds",
    "EvenoddsError",
    "EvenoddsWarning",
    "FileFormatError",
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
    "Tally",
    "TallyError",
    "Tradeoff",
    "UnknownGroupError",
    "__version__",
    "audit",
    "load",
    "position_bias",
    "simulate",
    "sweep",
    "tally",
]
