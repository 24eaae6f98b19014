"""Make the golden files anew, by python tests/golden/make.py.

Keys come from the independent arithmetic of `oracles.hashing`. The model and its transforms come from
the program itself: make them anew only when the format or the method is meant to change.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
KEYS = ["", "a", "anna", "béla", "東京/7", "x" * 40, 0, 1, -1, 2**31, 2**63 - 1, -(2**63)]
PAIRS = [["anna", "job7"], ["anna", 7], [7, "anna"], [1, 2, 3]]
SALTS = ["0000000000000000", "0123456789abcdef", "ffffffffffffffff"]


def golden_keys():
    """Rows of key, salt, words, uniform number (as a hexadecimal float), fold."""
    from oracles import hashing

    for place, key in enumerate([*KEYS, *PAIRS]):
        salt = SALTS[place % len(SALTS)]
        whole = tuple(key) if isinstance(key, list) else key
        yield {
            "key": key,
            "salt": salt,
            "words": list(hashing.words(whole)),
            "uniform": hashing.uniform(whole, int(salt, 16)).hex(),
            "fold": hashing.fold(whole),
        }


def golden_model():
    """Fit a model on a small log with ties; return it and what it makes of a few scores."""
    import numpy as np
    import pyarrow as pa

    import evenodds as eo

    rng = np.random.default_rng(11)
    size = 4_000
    group = rng.integers(0, 2, size)
    score = np.where(rng.random(size) < 0.2, 0.5, np.round(rng.beta(2 + group, 2, size), 6))
    label = (rng.random(size) < 0.2 + 0.5 * score).astype(np.int8)
    position = np.tile(np.arange(1, 9), size // 8)
    label[rng.random(size) > (1 / np.log2(1 + np.arange(1, 9)))[position - 1]] = 0
    log = pa.table(
        {"score": score, "group": np.array(["x", "y"])[group], "label": label, "position": position}
    )
    counts = eo.tally(log, cells=40)
    model = eo.EqualOpportunity(points=30, position_bias=[1 / np.log2(1 + j) for j in range(1, 9)]).fit(
        counts
    )
    model.fitted_on_["sources"] = ["golden"]
    scores = [0.01, 0.2, 0.499999, 0.5, 0.5, 0.500001, 0.73, 0.99, -3.0, 4.0]
    groups = ["x", "y", "x", "x", "y", "y", None, "unseen", "x", "y"]
    keys = [f"viewer{i}/item{i * i}" for i in range(len(scores))]
    fair = model.transform(scores, groups, keys=keys)
    table = {"scores": scores, "groups": groups, "keys": keys, "fair": [float(f).hex() for f in fair]}
    return model, table


def main():
    """Write them."""
    sys.path.insert(0, str(HERE.parent))
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in golden_keys())
    (HERE / "keys.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    model, table = golden_model()
    model.save(HERE / "model.json", overwrite=True)
    (HERE / "transforms.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
