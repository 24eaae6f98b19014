"""A store in PostgreSQL, in a schema `evenodds` of its own: for several servers. Needs psycopg."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from evenodds.errors import DamagedFileError, MissingExtraError, StoreError
from evenodds.feedback import schema
from evenodds.feedback.database import Database, Pair, Row
from evenodds.feedback.ids import Stored

if TYPE_CHECKING:
    import psycopg

_LOCK = 0x45564F44
_TIMEOUT = 10  # seconds for a connection, and for a lock
_SCHEMES = ("postgresql://", "postgres://")


def is_url(target: object) -> bool:
    """Tell the URL of a PostgreSQL database from a path."""
    return isinstance(target, str) and target.lower().startswith(_SCHEMES)


def named(url: str) -> str:
    """Return a URL for messages and provenance: without user, password and options.

    >>> named("postgresql://anna:secret@db.example:5432/logs?sslmode=require")
    'postgresql://db.example:5432/logs'
    """
    parts = urlsplit(url)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Postgres(Database):
    """One connection; a lost one is opened again by the next transaction."""

    def __init__(self, url: str, *, write: bool, busy: float = _TIMEOUT) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError(
                "a feedback store in PostgreSQL needs psycopg", hint="pip install 'evenodds[postgres]'"
            ) from None
        self._psycopg = psycopg
        self._url = url
        self._write = write
        self._busy = busy
        self.name = named(url)
        self._held: psycopg.Connection[Row] | None = None
        self._open()

    def _open(self) -> psycopg.Connection[Row]:
        if self._held is not None and not self._held.closed:
            return self._held
        with self._errors():
            self._held = self._psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=_TIMEOUT,
                options=f"-c search_path=evenodds -c synchronous_commit=on -c lock_timeout={self._busy * 1000:.0f} "
                f"-c default_transaction_read_only={'off' if self._write else 'on'} -c client_min_messages=error",
            )
        return self._held

    def has_tables(self) -> bool:
        """Whether this is a store already."""
        return self.execute("SELECT to_regclass('evenodds.meta')")[0][0] is not None

    def create(self) -> None:
        """Make the tables that are not there; servers that start together take turns."""
        words = {
            "id": "BIGINT" if self.kind == "hashed" else 'TEXT COLLATE "C"',
            "blob": "BYTEA",
            "serial": "BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY",
            "clustered": "",
        }
        self.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        self.execute("CREATE SCHEMA IF NOT EXISTS evenodds")
        for table in schema.TABLES:
            self.execute(table.format(**words))

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        connection = self._open()
        try:
            with self._errors():
                connection.execute(cast("Any", begin))
            yield
            with self._errors():
                connection.execute("COMMIT")
        except BaseException:
            with suppress(self._psycopg.Error):
                connection.execute("ROLLBACK")
            if connection.broken:
                connection.close()
            raise

    def writing(self) -> Any:
        """Open a transaction; servers write at the same time, and merge row by row."""
        return self._transaction("BEGIN")

    @contextmanager
    def folding(self) -> Iterator[None]:
        """Open a transaction during which servers wait before they write."""
        with self._transaction("BEGIN"):
            self.execute("LOCK TABLE lists, labels IN SHARE ROW EXCLUSIVE MODE")
            yield

    def reading(self) -> Any:
        """Hold one state of the store."""
        return self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement of the schema; return its rows."""
        with self._errors():
            cursor = self._open().execute(_translated(statement), values)
            return cursor.fetchall() if cursor.description is not None else []

    def stream(self, statement: str, values: Sequence[object], size: int) -> Iterator[list[Row]]:
        """Run a query and yield its rows; the server holds the rest."""
        with self._errors(), self._open().cursor(name="evenodds", binary=True) as cursor:
            cursor.itersize = size
            cursor.execute(_translated(statement), values)
            while rows := cursor.fetchmany(size):
                yield rows

    def put_lists(self, rows: Sequence[Row]) -> None:
        """Add lists that are not there yet."""
        kinds = (self._id, "bigint", "bigint", "bigint", "bytea", "bytea", "bytea")
        # In one order everywhere, so that two servers never wait for each other.
        self._unnest(schema.PUT_LIST, kinds, sorted(rows, key=lambda row: row[:2]), schema.KEEP_FIRST)

    def merge_labels(self, rows: Sequence[Row]) -> set[Pair]:
        """Merge labels; return the pairs that this changed."""
        kinds = (self._id, self._id, "smallint", "integer", "bigint", "smallint")
        ordered = sorted(rows, key=lambda row: row[:2])
        changed = self._unnest(
            schema.PUT_LABEL, kinds, ordered, f"{schema.MERGE_LABEL} RETURNING labels.key, labels.item"
        )
        return {(key, item) for key, item in changed}

    def _unnest(self, head: str, kinds: Sequence[str], rows: Sequence[Row], tail: str) -> list[Row]:
        if not rows:
            return []
        columns = [list(column) for column in zip(*rows, strict=True)]
        arrays = ", ".join(f"?::{kind}[]" for kind in kinds)
        return self.execute(f"{head} SELECT * FROM unnest({arrays}) {tail}", columns)  # noqa: S608  (of the schema)

    @property
    def _id(self) -> str:
        return "bigint" if self.kind == "hashed" else "text"

    def items_of(self, keys: Sequence[Stored]) -> Iterable[tuple[Stored, bytes]]:
        """Return the packed items of all lists of some keys."""
        found = self.execute(schema.ITEMS_OF_KEYS.replace("?", f"?::{self._id}[]"), (list(keys),))
        return [(key, bytes(items)) for key, items in found]

    def delete(self, keys: Sequence[Stored]) -> None:
        """Delete the lists and the labels of some keys."""
        for table in ("labels", "lists"):
            self.execute(f"DELETE FROM {table} WHERE key = ANY(?::{self._id}[])", (list(keys),))  # noqa: S608

    def size(self) -> int:
        """Return the bytes of the tables and their indexes."""
        found = self.execute(
            "SELECT sum(pg_total_relation_size(part::regclass)) "
            "FROM unnest(ARRAY['lists', 'labels', 'names', 'meta', 'folded']) AS part"
        )
        return int(found[0][0])

    def tidy(self) -> None:
        """Let PostgreSQL use the room of deleted rows again."""
        for table in ("lists", "labels", "folded"):
            self.execute(f"VACUUM {table}")

    def close(self) -> None:
        """Close the connection."""
        if self._held is not None:
            self._held.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say what PostgreSQL says in one line."""
        try:
            yield
        except self._psycopg.Error as error:
            raise self._explained(error) from None

    def _explained(self, error: psycopg.Error) -> Exception:
        errors = self._psycopg.errors
        lost = self._held is not None and (self._held.closed or self._held.broken)
        self.again = lost or isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)
        said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        if isinstance(error, errors.LockNotAvailable):
            return StoreError(
                f"{self.name} is locked by another process for more than {self._busy:g} s",
                hint="nothing was stored; try again",
            )
        if isinstance(error, errors.DiskFull):
            return StoreError(f"cannot write {self.name}: no space left", hint="nothing was stored")
        if isinstance(error, errors.ReadOnlySqlTransaction | errors.InsufficientPrivilege):
            return StoreError(f"cannot write {self.name}: {said}", hint="nothing was stored")
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.DatatypeMismatch):
            return DamagedFileError(f"{self.name} is not a whole feedback store: {said}")
        if isinstance(error, self._psycopg.OperationalError):
            return StoreError(f"cannot reach {self.name}: {said}", hint="nothing was stored; try again")
        return StoreError(f"{self.name}: {said}")


def _translated(statement: str) -> Any:
    return statement.replace("?", "%s")
