"""Equalized odds: bins, the linear program or the exact ROC frontier, and sampling from the result."""
