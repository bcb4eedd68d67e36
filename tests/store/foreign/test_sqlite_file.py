"""SQLite files of others: read without a trace beside them, and with nothing called that they bring along."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from chiplog.store.foreign.sqlite_file import Database, NotSqlite, Unreadable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE points (step INTEGER, value REAL)")
        connection.execute("CREATE VIEW shown AS SELECT step FROM points")
        connection.executemany("INSERT INTO points VALUES (?, ?)", [(1, 0.5), (2, 0.25)])
    connection.close()
    return path


def test_tables_and_rows_are_read(path: Path) -> None:
    """Ordinary tables only, with their columns."""
    database = Database(path)
    assert database.tables() == {"points": ["step", "value"]}
    assert database.all("SELECT step, value FROM points WHERE step > ?", (1,)) == [(2, 0.25)]


@pytest.mark.parametrize("query", ["DELETE FROM points", "SELECT upper('x')", "ATTACH ':memory:' AS other"])
def test_only_reading_is_allowed(path: Path, query: str) -> None:
    """No write, and no function but `min`."""
    database = Database(path)
    with pytest.raises(Unreadable):
        database.all(query)
    assert database.all("SELECT min(step) FROM points") == [(1,)]


def test_a_database_in_wal_mode_is_read_with_what_its_log_has(path: Path) -> None:
    """From a copy: no file appears or changes beside the original."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("INSERT INTO points VALUES (3, 0.125)")
    connection.commit()
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    database = Database(path)
    assert database.all("SELECT value FROM points WHERE step = 3") == [(0.125,)]
    copy = Path(str(database._copy))
    database.close()
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before and not copy.exists()
    connection.close()


def test_another_file_has_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Silently if it only has the same ending; a damaged database is reported."""
    other, damaged = tmp_path / "thumbs.db", tmp_path / "damaged.db"
    other.write_bytes(b"\xd0\xcf\x11\xe0")
    damaged.write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    assert Database(other).tables() == {} and capsys.readouterr().err == ""
    with pytest.raises(NotSqlite):
        Database(other).all("SELECT 1")
    assert Database(damaged).tables() == {} and "damaged.db cannot be read" in capsys.readouterr().err
