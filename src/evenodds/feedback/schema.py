"""The tables of a store, and every statement that both databases share; ``?`` stands for a value.

Merging labels is written as a maximum by column, so that any order and any repetition ends in the same
row. The condition at its end tells a repetition, which changes nothing, from news.
"""

from __future__ import annotations

VERSION = 1

TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS names (number {serial}, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name))",
    """CREATE TABLE IF NOT EXISTS lists (key {id} NOT NULL, part BIGINT NOT NULL, served BIGINT NOT NULL,
    model BIGINT NOT NULL, items {blob} NOT NULL, scores {blob} NOT NULL, codes {blob} NOT NULL,
    PRIMARY KEY (key, part))""",
    """CREATE TABLE IF NOT EXISTS labels (key {id} NOT NULL, item {id} NOT NULL, label SMALLINT NOT NULL,
    position INTEGER, heard BIGINT NOT NULL, waiting SMALLINT NOT NULL, PRIMARY KEY (key, item)) {clustered}""",
    "CREATE INDEX IF NOT EXISTS labels_waiting ON labels (heard) WHERE waiting = 1",
    """CREATE TABLE IF NOT EXISTS folded (number INTEGER PRIMARY KEY, tally {blob} NOT NULL,
    lists BIGINT NOT NULL, rows BIGINT NOT NULL, until BIGINT NOT NULL)""",
)

GET_META = "SELECT name, value FROM meta"
PUT_META = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"

GET_NAMES = "SELECT number, kind, name FROM names"
PUT_NAME = "INSERT INTO names (kind, name) VALUES (?, ?) ON CONFLICT (kind, name) DO NOTHING"
GET_NAME = "SELECT number FROM names WHERE kind = ? AND name = ?"

LIST_COLUMNS = ("key", "part", "served", "model", "items", "scores", "codes")
PUT_LIST = f"INSERT INTO lists ({', '.join(LIST_COLUMNS)}) "
KEEP_FIRST = " ON CONFLICT (key, part) DO NOTHING"
ITEMS_OF_KEY = "SELECT key, items FROM lists WHERE key = ?"
ITEMS_OF_KEYS = "SELECT key, items FROM lists WHERE key = ANY(?)"

LABEL_COLUMNS = ("key", "item", "label", "position", "heard", "waiting")
PUT_LABEL = f"INSERT INTO labels ({', '.join(LABEL_COLUMNS)}) "
MERGE_LABEL = (
    " ON CONFLICT (key, item) DO UPDATE SET"
    " label = CASE WHEN excluded.label > labels.label THEN excluded.label ELSE labels.label END,"
    " position = CASE WHEN labels.position IS NULL OR excluded.position < labels.position"
    " THEN excluded.position ELSE labels.position END"
    " WHERE excluded.label > labels.label OR excluded.position < labels.position"
    " OR (labels.position IS NULL AND excluded.position IS NOT NULL)"
)

_LISTED = "EXISTS (SELECT 1 FROM lists WHERE lists.key = labels.key)"
COUNT_WAITING = "SELECT count(*) FROM labels WHERE waiting = 1"
COUNT_UNLISTED = f"SELECT count(*) FROM labels WHERE waiting = 1 AND NOT {_LISTED}"  # noqa: S608  (constants, here and below)
STOP_WAITING = f"UPDATE labels SET waiting = 0 WHERE waiting = 1 AND {_LISTED}"  # noqa: S608
DROP_WAITING = f"DELETE FROM labels WHERE waiting = 1 AND heard < ? AND NOT {_LISTED}"  # noqa: S608

# A key is settled when its last list is.
_SETTLED = "served <= ? AND NOT EXISTS (SELECT 1 FROM lists AS later WHERE later.key = lists.key AND later.served > ?)"
READ_LISTS = (
    "SELECT key, served, model, items, scores, codes FROM lists WHERE served <= ? ORDER BY key, served, part"
)
FOLD_LISTS = (
    f"SELECT key, served, model, items, scores, codes FROM lists WHERE key >= ? AND {_SETTLED} "  # noqa: S608
    "ORDER BY key, served, part LIMIT ?"
)
LISTS_OF_KEY = (
    "SELECT key, served, model, items, scores, codes FROM lists WHERE key = ? ORDER BY served, part"
)
FIRST_KEY = "SELECT min(key) FROM lists"
READ_LABELS = "SELECT key, item, label, position FROM labels WHERE key >= ? AND key <= ? ORDER BY key, item"
COUNT_LISTS = "SELECT count(*), sum(length(codes)) / 4, min(served), max(served) FROM lists WHERE served <= ?"
COUNT_LABELS = "SELECT label, count(*) FROM labels WHERE waiting = 0 GROUP BY label ORDER BY label"

GET_FOLDED = "SELECT tally, lists, rows, until FROM folded"
PUT_FOLDED = (
    "INSERT INTO folded (number, tally, lists, rows, until) VALUES (1, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE "
    "SET tally = excluded.tally, lists = excluded.lists, rows = excluded.rows, until = excluded.until"
)
