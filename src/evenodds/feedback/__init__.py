"""What was served, and what came of it: a store that closes the loop from serving to the next fit.

**What is stored.** Two tables. `lists` holds one row a served list: the key that names the request, when
it was served, by which model, and, in the order in which they were shown, the items' ids, original
scores and group codes, packed (some 20 bytes an impression). `labels` holds one row for each (key, item)
that feedback came for: the label, and the position where the client says that the item was shown.

**Counted once.** Labels have the primary key (key, item), and merging two of one item is a maximum: the
higher label wins, and of two positions the one nearer to the top; a position that was told beats none.
A maximum does not depend on order or repetition, so an event may be sent again, late, or out of order, by
several servers, and counts once. A label can be corrected upwards only: a click is not taken back.
Lists have the primary key (key, digest of the ids): a request that is repeated with the same candidates is one
list. An item that stands in two lists of one key was shown once, where the first list showed it.

**Before and after.** Labels and lists are joined when they are read, by key and item, so it does not
matter which came first. A label without a list waits; after `WAIT` (a day) without one it is dropped, and
past `MAX_WAITING` of them further ones are refused.

**What is a negative.** A list is *settled* once it is older than the settling time (an hour, unless told
otherwise). Reading gives the settled lists whole: items with a label have it, all others have label 0. Lists
that are still open are left out with their positives too, or recent positives would be over-represented.

**Nothing acknowledged is lost.** A write is acknowledged after its transaction is committed and synced:
SQLite in WAL mode with synchronous=FULL, PostgreSQL with synchronous_commit=on. Writes that arrive while
a commit is under way share the next one (:mod:`evenodds.feedback.writer`). Several processes may write one
SQLite file on one machine; several machines write to one PostgreSQL.

**No ids of people.** Ids are stored as 64-bit BLAKE2b hashes under a secret that is not in the store (see
:mod:`evenodds.feedback.ids`), unless the store is made with plain ids.

**Bounded.** ``evenodds feedback compact`` folds lists older than a retention time (30 days) into a tally
that is kept in the store, and deletes them with their labels, in one transaction: what was served is either
a row or counted, never both. A label that comes later than that finds no list, waits, and is dropped.

Reading a store gives Arrow record batches, like every other log (:mod:`evenodds.feedback.rows`): the counting
is that of every other log.
"""

from evenodds.feedback.events import Event, Fate, ServedList, Status
from evenodds.feedback.store import Store
from evenodds.feedback.writer import Writer

__all__ = ["Event", "Fate", "ServedList", "Status", "Store", "Writer"]
