"""The benchmark's own machinery: what it prints and draws. What it measures is not a test."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.peers import PEERS, TRACERS
from bench.report import BEGIN, END, Result, line, load, picture, report
from bench.rows import ROWS, Figure, row

ABOUT = {"date": "2026-01-01", "machine": "2 cores", "python": "3.11", "versions": ["wandb==1"]}


@pytest.fixture
def result() -> Result:
    costs = [Figure(PEERS[name].title, 4.0**number, "µs", p99=3.0, peer=name) for number, name in enumerate(PEERS)]
    return Result(ABOUT, {"log": "A call.", "paced": "Paced."}, {"log": costs, "paced": costs})


def test_a_bar_is_a_bound_from_above_or_from_below() -> None:
    assert Figure("cost", 2.0, "x", 2.0).met
    assert not Figure("cost", 2.1, "x", 2.0).met
    assert Figure("rate", 2.0, "x", 2.0, at_least=True).met
    assert not Figure("rate", 1.9, "x", 2.0, at_least=True).met
    assert Figure("shown only", 1e9, "x").met
    assert "MISSED" in line(Figure("cost", 2.1, "x", 2.0))


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (3.0, 1)])
def test_a_missed_bar_has_its_own_exit_code(
    value: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tiny_() -> list[Figure]:
        """A row."""
        return [Figure("cost", value, "x", 2.0, p99=4.0)]

    row(tiny_)
    monkeypatch.setattr("sys.argv", ["bench", "--only", "tiny", "-o", str(tmp_path / "out.json")])
    try:
        assert main() == code
    finally:
        del ROWS["tiny"]
    assert load(tmp_path / "out.json").rows == {"tiny": [Figure("cost", value, "x", 2.0, p99=4.0)]}
    assert f"{code} bars missed" in capsys.readouterr().out


def test_a_row_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--only", "log,speed"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "no row 'speed'" in capsys.readouterr().err


def test_the_picture_shows_every_tracker(result: Result) -> None:
    drawn = ElementTree.fromstring(picture(result))
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {peer.title for peer in PEERS.values()} <= set(words)
    assert {"1 µs", "100 ms", "65.5 ms"} <= set(words)


def test_the_page_is_written_between_its_marks(result: Result, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    report(result, tmp_path)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| W&B, offline | 64 µs | 3 |  |  |" in text
    report(result, tmp_path)
    assert page.read_text() == text


def test_every_version_is_pinned() -> None:
    assert all("==" in package for peer in (PEERS | TRACERS).values() for package in peer.packages)
