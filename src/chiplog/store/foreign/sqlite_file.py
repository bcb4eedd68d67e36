"""Other programs' SQLite files: opened read-only, without writing next to them, and not trusted.

A file in WAL mode is copied first, because SQLite would create its shared memory next to it. Only tables are read,
never views, and no function is called but `min`.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from chiplog.core import messages
from chiplog.core.errors import ChiplogError
from chiplog.core.files import reading

MAGIC = b"SQLite format 3\0"
ENDINGS = (".db", ".sqlite", ".sqlite3")
PATIENCE = 2.0  # s for a lock
LONGEST = 64 << 20  # bytes of one value
BATCH = 20_000  # rows
CHUNK = 1 << 20  # bytes
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION)
_WAL = 2  # in byte 18 of the header


class Unreadable(ChiplogError, ValueError):
    """A database that cannot be read, and why."""


class NotSqlite(Unreadable):
    """Another file with the same ending."""


class Database:
    """A SQLite file, opened when it is first needed and closed with this object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._copy: str | None = None
        self._tables: dict[str, list[str]] = {}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)
            self._copy = None

    def tables(self) -> dict[str, list[str]]:
        """The columns of every ordinary table; none if the file cannot be read, which is reported."""
        try:
            self._open()
        except NotSqlite:
            return {}
        except (Unreadable, OSError) as error:
            messages.once(f"foreign {self.path}", f"{self.path} cannot be read: {error}")
            return {}
        return self._tables

    def rows(self, query: str, values: Sequence[object] = ()) -> Iterator[list[tuple[object, ...]]]:
        """The rows of a query, in batches; raises `Unreadable`."""
        try:
            cursor = self._open().execute(query, values)
            while batch := cursor.fetchmany(BATCH):
                yield batch
        except sqlite3.Error as error:
            raise Unreadable(f"{self.path.name}: {error}") from None

    def all(self, query: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        return [row for batch in self.rows(query, values) for row in batch]

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        with reading.open_path(self.path, regular=True) as file:
            head = file.read(100)
        if not head.startswith(MAGIC) or len(head) < 100:
            raise NotSqlite(f"{self.path.name} is not a SQLite file")
        for side in ("-journal", "-wal", "-shm"):  # which SQLite opens by itself, and would wait for a pipe
            if os.path.lexists(beside := self.path.with_name(f"{self.path.name}{side}")):
                reading.status(beside.parent, beside.name)
        path = self._copied() if head[18] == _WAL or head[19] == _WAL else self.path
        uri = f"{path.absolute().as_uri()}?mode=ro"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, check_same_thread=False)
        except sqlite3.Error as error:
            raise Unreadable(f"{self.path.name}: {error}") from None
        try:
            connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            connection.execute("PRAGMA trusted_schema=OFF")
            listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type='table'").fetchall()
            for name, sql in listed:
                if isinstance(sql, str) and sql.lstrip().upper().startswith("CREATE TABLE"):
                    quoted = str(name).replace('"', '""')
                    columns = connection.execute(f'PRAGMA table_info("{quoted}")').fetchall()
                    self._tables[str(name)] = [str(column[1]) for column in columns]
            connection.set_authorizer(_authorize)
        except (sqlite3.Error, ValueError) as error:
            connection.close()
            raise Unreadable(f"{self.path.name}: {error}") from None
        self._connection = connection
        return connection

    def _copied(self) -> Path:
        """A copy of the file and of what has been committed behind it."""
        self._copy = tempfile.mkdtemp(prefix="chiplog-")
        target = Path(self._copy) / "copy.db"
        for _ in range(3):
            before = _stamps(self.path)
            _copy(self.path, target)
            wal = self.path.with_name(f"{self.path.name}-wal")
            if reading.exists(wal.parent, wal.name):
                _copy(wal, target.with_name("copy.db-wal"))
            if _stamps(self.path) == before:
                break
        return target


def _copy(path: Path, target: Path) -> None:
    with reading.open_path(path, regular=True) as file, target.open("wb") as copy:
        while data := file.read(CHUNK):
            copy.write(data)


def files_of(path: Path) -> tuple[Path, ...]:
    """The files whose change means that a database has changed."""
    return path, path.with_name(f"{path.name}-wal")


def _stamps(path: Path) -> list[tuple[int, int]]:
    return [(one.stat().st_size, one.stat().st_mtime_ns) for one in files_of(path) if one.is_file()]


def _authorize(action: int, _: object, name: object, *__: object) -> int:
    allowed = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and str(name).lower() == "min")
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
