"""What k-anonymity costs a fit, and how many positives may be joined to a neighbouring score cell.

python bench/suppression.py

Each row: a log, k, the share of positives that may be joined; then the shape that was chosen, and the
unfairness that equality of opportunity, fitted on what is left, leaves on all counts. Without suppression it
leaves 0.000.
"""

from __future__ import annotations

import warnings

import evenodds as eo
from evenodds.privacy import anonymous

LOGS = {"50,000 rows": 1_000, "1,000,000 rows": 20_000}
ALLOWED = (0.05, 0.1, 0.2, 0.35)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", eo.EvenoddsWarning)
    chosen = anonymous._MOVED  # noqa: SLF001
    print(f"{'log':<15} {'k':>3} {'joined':>7} {'cells':>6} {'positions':>9} {'unfairness left':>16}")
    for name, queries in LOGS.items():
        tally = eo.tally(eo.simulate(queries, seed=1))
        for k in (5, 10, 20):
            for allowed in ALLOWED:
                anonymous._MOVED = allowed  # noqa: SLF001
                kept = tally.suppress(k)
                left = kept.effect().suppressed.merit["positive"]
                positions = min(kept.tally.depth, 50)
                mark = "  (chosen)" if allowed == chosen else ""
                print(
                    f"{name:<15} {k:>3} {allowed:>7.2f} {kept.tally.grid.cells:>6} {positions:>9} {left:>16.4f}{mark}"
                )


if __name__ == "__main__":
    main()
