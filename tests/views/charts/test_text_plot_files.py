"""A run's curves as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.views.charts import text_plot_files
from chiplog.views.charts.text_style import TextStyle


def stored(rows: int = 30, **more: float) -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for step in range(rows):
            run.log({"train/loss": 3.0 / (step + 1), "train/step": step, **more}, step=step)
    return chiplog.read(run.dir)


STATISTICS = {"train/loss/mean": 0.5, "train/loss/min": 0.1, "train/loss/max": 2.0, "train/loss/std": 0.2}


def test_a_metric_is_a_line_a_histogram_and_a_summary() -> None:
    ((family, text),) = text_plot_files.texts(stored())
    assert family.name == "train/loss"  # and not the counter
    assert text.startswith("train/loss\n") and "train/loss histogram" in text and "points" in text


def test_statistics_have_a_panel_each_and_lie_over_each_other() -> None:
    """Raw, mean, min, max and std alone; then `·` mean, `-` min and `+` max together; a histogram for each."""
    ((_, text),) = text_plot_files.texts(stored(**STATISTICS))
    for stat in ("mean", "min", "max", "std"):
        assert f"train/loss/{stat} histogram" in text
    legend = next(line for line in text.splitlines() if "++ train/loss/max" in line)
    assert "-- train/loss/min" in legend and "·· train/loss/mean" in legend and "⠒⠒ train/loss" in legend
    assert "░" in text  # the band between the ranks


def test_files_have_no_escape_codes(tmp_path: Path) -> None:
    """Whatever the terminal shows, and however wide it is."""
    ((path, shown),) = text_plot_files.write(stored(), tmp_path, TextStyle(colour=True, ascii=True, width=60))
    assert path == tmp_path / "train" / "loss.txt"
    assert "\x1b[" in shown() and "\x1b" not in path.read_text()
    assert path.read_text() == next(text_plot_files.texts(stored()))[1]


@pytest.mark.parametrize(("marker", "sign"), [("braille", "⠒⠉⠤⣀"), ("hd", "▀▄"), ("fhd", "\U0001fb02\U0001fb2d")])
def test_markers(marker: str, sign: str) -> None:
    """Dots of two by four, blocks of two by two, or of two by three."""
    ((_, text),) = text_plot_files.texts(stored(), TextStyle(marker=marker))
    assert any(char in text for char in sign)


def test_ascii_is_ascii() -> None:
    ((_, text),) = text_plot_files.texts(stored(**STATISTICS), TextStyle(ascii=True))
    assert text.isascii()


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_width_is_kept(width: int) -> None:
    ((_, text),) = text_plot_files.texts(stored(**STATISTICS), TextStyle(width=width))
    assert max(map(len, text.splitlines())) <= width


def test_a_histogram_may_come_first() -> None:
    ((_, text),) = text_plot_files.texts(stored(), TextStyle(kind="hist"))
    assert text.startswith("train/loss histogram")


def test_an_unknown_kind_or_marker_is_said() -> None:
    with pytest.raises(BadSetting, match="available: line, hist"):
        list(text_plot_files.texts(stored(), TextStyle(kind="pie")))
    with pytest.raises(BadSetting, match="available: braille, fhd, hd"):
        list(text_plot_files.texts(stored(), TextStyle(marker="dot")))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e308, 0.0, True])
def test_one_odd_value_is_drawn_or_explained(value: float) -> None:
    """A metric of a single point, of NaN alone, of the largest double."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        run.log({"odd": value})
    ((_, text),) = text_plot_files.texts(chiplog.read(run.dir))
    assert "odd" in text


def test_names_stay_within_the_folder(tmp_path: Path) -> None:
    """Unicode, dots and slashes; two names that look alike have a file each."""
    names = ["../up", "a b", "a_b", "größe", "..", "x/../../y", "A_b"]
    with chiplog.init(project="p", sinks="none") as run:
        run.log(dict.fromkeys(names, 1.0))
    out = tmp_path / "out"
    paths = [path for path, _ in text_plot_files.write(chiplog.read(run.dir), out)]
    assert len({str(path).casefold() for path in paths}) == len(names)
    assert all(out in path.resolve().parents for path in paths)
