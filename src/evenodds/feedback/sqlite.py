"""A store in one SQLite file: many processes of one machine, no server."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from evenodds.errors import DamagedFileError, EvenoddsError, StoreError
from evenodds.feedback import schema
from evenodds.feedback.database import Database, Pair, Row
from evenodds.feedback.ids import Stored

MAGIC = b"SQLite format 3\0"
APPLICATION = 0x45564F44  # "EVOD", in the file's head
_APPLICATION_AT = 68
_HEAD = 100
_BUSY = 10.0  # seconds to wait for other processes' transactions
_LOOK_AGAIN = 0.002


def is_sqlite(path: str) -> bool:
    """Tell a SQLite file by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _connect(path: Path, mode: str, busy: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy,
        isolation_level=None,
        check_same_thread=False,
    )


def _locked(turn: int) -> bool:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class SQLite(Database):
    """The file in WAL mode: readers and one writer at a time do not wait for each other."""

    def __init__(self, path: str | Path, *, write: bool, busy: float = _BUSY) -> None:
        self.path = Path(path)
        self.name = str(path)
        self._busy = busy
        self._turn = -1
        if write and not self.path.exists():
            self._make()
        self._check()
        with self._errors():
            self._connection = _connect(self.path, "rw" if write else "ro", busy)
        try:
            with self._errors():
                if write:
                    self._prepare()
                self._connection.execute("PRAGMA cache_size = -65536")
        except EvenoddsError:
            self.close()
            raise

    def _make(self) -> None:
        """Make an empty store aside and give it its name when it is whole: a kill leaves no half of one."""
        if not self.path.parent.is_dir():
            raise StoreError(f"cannot make {self.name}: there is no folder {self.path.parent}")
        aside = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            aside.unlink(missing_ok=True)
            with self._errors(), closing(_connect(aside, "rwc", self._busy)) as made:
                made.execute("PRAGMA auto_vacuum = INCREMENTAL")
                made.execute(f"PRAGMA application_id = {APPLICATION}")
                made.execute("PRAGMA journal_mode = WAL")
            with suppress(FileExistsError):  # another worker was first: theirs counts
                os.link(aside, self.path)
        except OSError as error:
            raise StoreError(f"cannot make {self.name}: {error.strerror or error}") from None
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def _check(self) -> None:
        """Refuse what is not a store before SQLite touches it."""
        if self.path.is_dir():
            raise StoreError(f"{self.name} is a folder; expected a file name")
        try:
            with self.path.open("rb") as file:
                head = file.read(_HEAD)
        except FileNotFoundError:
            raise StoreError(f"no such file: {self.name}") from None
        except OSError as error:
            raise StoreError(f"cannot read {self.name}: {error.strerror or error}") from None
        if not head.startswith(MAGIC):
            raise DamagedFileError(
                f"{self.name} is not a feedback store", hint="evenodds serve --feedback FILE makes one"
            )
        if int.from_bytes(head[_APPLICATION_AT : _APPLICATION_AT + 4], "big") != APPLICATION:
            raise DamagedFileError(
                f"{self.name} is a SQLite database of another program, not a feedback store"
            )

    def _prepare(self) -> None:
        """Set what every writing connection needs."""
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA journal_size_limit = 67108864")

    def has_tables(self) -> bool:
        """Whether this is a store already."""
        found = self.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'")
        return bool(found[0][0])

    def create(self) -> None:
        """Make the tables that are not there."""
        words = {
            "id": "INTEGER" if self.kind == "hashed" else "TEXT",
            "blob": "BLOB",
            "serial": "INTEGER PRIMARY KEY",
            "clustered": "WITHOUT ROWID",
        }
        for table in schema.TABLES:
            self.execute(table.format(**words))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Take the write lock, in turn with other processes."""
        self._begin()
        with self._ended():
            yield

    folding = writing

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold one state of the store."""
        self._run("BEGIN")
        with self._ended():
            yield

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """End a transaction: keep what was done in it, or nothing of it."""
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

    def _begin(self) -> None:
        """Begin to write, when it is this connection's turn.

        SQLite lets whoever waits look again ten times a second, so that a writer without pauses would keep
        all others out. Here one waiter at a time holds a second lock, the turn, without which nobody
        begins: who has written queues up behind it.
        """
        until = time.monotonic() + self._busy
        try:
            if self._turn < 0:
                held = self.path.with_name(f"{self.path.name}.turn")
                self._turn = os.open(held, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            while not _locked(self._turn):
                self._wait(until)
        except OSError as error:
            raise StoreError(f"cannot write {self.name}: {error.strerror or error}") from None
        try:
            self._run("PRAGMA busy_timeout = 0")
            while not self._begun():
                self._wait(until)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            self._run(f"PRAGMA busy_timeout = {1000 * self._busy:.0f}")

    def _begun(self) -> bool:
        with self._errors():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return False
            return True

    def _wait(self, until: float) -> None:
        if time.monotonic() > until:
            raise self._is_locked()
        time.sleep(_LOOK_AGAIN)

    def _run(self, statement: str) -> None:
        with self._errors():
            self._connection.execute(statement)

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement of the schema; return its rows."""
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    def stream(self, statement: str, values: Sequence[object], size: int) -> Iterator[list[Row]]:
        """Run a query and yield its rows."""
        with self._errors():
            cursor = self._connection.execute(statement, values)
            while rows := cursor.fetchmany(size):
                yield rows

    def put_lists(self, rows: Sequence[Row]) -> None:
        """Add lists that are not there yet."""
        statement = f"{schema.PUT_LIST} VALUES (?, ?, ?, ?, ?, ?, ?) {schema.KEEP_FIRST}"
        with self._errors():
            self._connection.executemany(statement, rows)

    def merge_labels(self, rows: Sequence[Row]) -> set[Pair]:
        """Merge labels; return the pairs that this changed."""
        statement = f"{schema.PUT_LABEL} VALUES (?, ?, ?, ?, ?, ?) {schema.MERGE_LABEL}"
        cursor = self._connection.cursor()
        with self._errors():
            return {(row[0], row[1]) for row in rows if cursor.execute(statement, row).rowcount > 0}

    def items_of(self, keys: Sequence[Stored]) -> Iterable[tuple[Stored, bytes]]:
        """Return the packed items of all lists of some keys."""
        cursor = self._connection.cursor()
        with self._errors():
            return [row for key in keys for row in cursor.execute(schema.ITEMS_OF_KEY, (key,))]

    def delete(self, keys: Sequence[Stored]) -> None:
        """Delete the lists and the labels of some keys."""
        values = [(key,) for key in keys]
        with self._errors():
            self._connection.executemany("DELETE FROM labels WHERE key = ?", values)
            self._connection.executemany("DELETE FROM lists WHERE key = ?", values)

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        parts = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def tidy(self) -> None:
        """Give free pages back to the file system, and empty the log if no reader holds it."""
        with self._errors():
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._turn >= 0:
            os.close(self._turn)
            self._turn = -1

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say what SQLite says in one line."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._explained(error) from None
        except UnicodeEncodeError as error:
            raise StoreError(f"cannot write {self.name}: {error}") from None

    def _is_locked(self) -> StoreError:
        return StoreError(
            f"{self.name} is locked by another process for more than {self._busy:g} s",
            hint="nothing was stored; try again",
        )

    def _explained(self, error: sqlite3.DatabaseError) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return DamagedFileError(f"{self.name} is not a feedback store")
        if code == sqlite3.SQLITE_CORRUPT:
            return DamagedFileError(
                f"{self.name} is damaged: {error}", hint="sqlite3 FILE .recover saves what can be saved"
            )
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return self._is_locked()
        if code == sqlite3.SQLITE_FULL:
            return StoreError(f"cannot write {self.name}: no space left", hint="nothing was stored")
        if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
            return StoreError(f"cannot write {self.name}: it is read-only", hint="nothing was stored")
        if code == sqlite3.SQLITE_CANTOPEN:
            return StoreError(f"cannot open {self.name}: no such file, or no permission for it or its folder")
        return StoreError(f"{self.name}: {error}")
