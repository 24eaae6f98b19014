"""Make an impression log of the image-search study, as in ``python prepare.py LOG.parquet``.

Rows are images as they were shown. The study has no model score. Two columns can stand in for one:

- score: the place in the list, the first highest. All that a search engine tells of its model.
- typical: the share of people in the occupation who have the gender that the image shows.

A few participants saw two lists for the same occupation; each list is a query of its own.
"""

import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

SOURCE = Path(__file__).parent / "selected_images.csv.gz"


def main() -> None:
    """Read the study, write the log."""
    rows = pc.read_csv(SOURCE).to_pylist()
    seen: Counter[tuple[str, str, int]] = Counter()
    log = []
    for row in rows:
        place = (row["participant"], row["search_term"], row["image_position"])
        seen[place] += 1
        log.append(
            {
                "query": f"{row['participant']}, {row['search_term']}, {seen[place]}",
                "position": row["image_position"],
                "group": row["image_gender"],
                "label": int(row["image_selected"]),
                "score": -float(row["image_position"]),
                "typical": row["bls_p_image_gender"],
                "occupation": row["search_term"],
                "women_shown": row["synthetic_p_women"],
            }
        )
    pq.write_table(pa.Table.from_pylist(log), sys.argv[1])
    print(f"wrote {sys.argv[1]}: {len(log):,} images in {len({row['query'] for row in log})} lists")


if __name__ == "__main__":
    main()
