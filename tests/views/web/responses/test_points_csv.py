"""All points of series as CSV."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.views.web.responses import points_csv


def test_points_are_exact_and_in_pieces(tmp_path: Path) -> None:
    """A large integer keeps its digits, a name that a spreadsheet would run is a text."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none", alerts=False) as run:
        for step, value in enumerate((2**63 + 1, 0.1, float("nan"), float("-inf"))):
            run.log({"=x,y": value}, step=step + 0.5)
    series = chiplog.read(tmp_path / "p" / "r").series("=x,y")
    pieces = list(points_csv.points_csv([("a", -1, series), ("b", 3, series)]))
    lines = b"".join(pieces).decode().splitlines()
    assert len(pieces) == 3 and len(lines) == 9
    assert [line.rpartition(",")[2] for line in lines[1:5]] == ["9223372036854775809", "0.1", "nan", "-inf"]
    assert lines[1].startswith('a,"\'=x,y",,0.5,20') and lines[5].startswith('b,"\'=x,y",3,0.5,20')


def test_long_names_make_small_pieces(tmp_path: Path) -> None:
    """Every line repeats the name of the run, which may be long: a piece has fewer lines then."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none", alerts=False) as run:
        for step in range(300):
            run.log({"loss": 1.0}, step=step)
    series = chiplog.read(tmp_path / "p" / "r").series("loss")
    pieces = list(points_csv.points_csv([("n" * 50_000, -1, series)]))
    assert max(map(len, pieces)) < 2 * points_csv.PIECE and sum(piece.count(b"\n") for piece in pieces) == 301
