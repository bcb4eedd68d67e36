"""The journals of a run: listed once, and their ends decoded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.records import Step
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.runs.state_journals import StateJournals

ONE = Segment(0, 1, 0)


def written(run: Path, count: int) -> bytes:
    (run / "journal").mkdir(parents=True)
    data = b"".join(lines.line_of(Step(seq, seq, seq, {"loss": 0.5})) for seq in range(count))
    (run / "journal" / ONE.filename).write_bytes(data)
    return data


@pytest.mark.parametrize("count", [10, 2000])
def test_an_end_is_what_the_scanner_reads_there(tmp_path: Path, count: int) -> None:
    """Of a short journal, which is decoded as a whole, and of a long one; a line that is cut is not in it."""
    size = len(written(tmp_path, count))
    looks = (100, 1000, 50_000, 1 << 20)
    expected = [list(lines.Scanner(tmp_path / "journal" / ONE.filename, max(0, size - look)).read()) for look in looks]
    found = list(StateJournals(tmp_path).endings(ONE, *looks))
    assert found == expected[: len(found)] and len(found[-1]) == count


def test_a_short_journal_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked about it, and however often."""
    written(tmp_path, 50)
    decoded = []
    unseal = lines.unseal
    monkeypatch.setattr(lines, "unseal", lambda line: decoded.append(line) or unseal(line))
    files = StateJournals(tmp_path)
    assert files.first(ONE) == next(iter(next(files.endings(ONE, 1 << 20))))
    assert [len(records) for records in files.endings(ONE, 1000, 1 << 20)][-1] == 50
    assert len(decoded) == 50


def test_what_is_missing_has_no_end(tmp_path: Path) -> None:
    """Neither an empty run nor a compressed segment."""
    assert StateJournals(tmp_path).segments == []
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / f"{ONE.filename}.zst").touch()
    files = StateJournals(tmp_path)
    assert files.segments == [ONE] and files.is_pruned(ONE) and list(files.endings(ONE, 100)) == []
