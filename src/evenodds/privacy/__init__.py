"""Tallies that can be given away: no count in them stands for fewer than k rows."""

from evenodds.privacy.anonymous import Suppressed, suppress
from evenodds.privacy.effect import Effect

__all__ = ["Effect", "Suppressed", "suppress"]
