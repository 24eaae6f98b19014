"""A tally that is kept current from a stream, and the models that are fitted on it as time goes by.

Nothing here knows where rows come from: an engine hands over batches, each with its number, and what
is done with them happens once, however often a batch is handed over.
"""

from evenodds.stream.job import Batch, Counts, Job
from evenodds.stream.settings import StreamSettings
from evenodds.stream.state import State
from evenodds.stream.versions import Version, Versions

__all__ = ["Batch", "Counts", "Job", "State", "StreamSettings", "Version", "Versions"]
