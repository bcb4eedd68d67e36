"""The figures of accelerators."""

from __future__ import annotations

from chiplog.metrics.datasheets import SHEETS

ROWS = [row for rows in SHEETS.values() for row in rows]


def test_every_name_is_listed_once() -> None:
    """One device has one row."""
    names = [name.strip().lower() for row in ROWS for name in row[0].split("|")]
    assert sorted(names) == sorted(set(names))


def test_the_figures_of_a_device_agree() -> None:
    """Positive, and fewer bits are never slower: a figure in the wrong column fails here."""
    for name, fp32, tf32, bf16, fp16, fp8, fp4, memory, link in ROWS:
        figures = (fp32, tf32, bf16, fp16, fp8, fp4, memory, link)
        assert all(figure is None or figure > 0 for figure in figures), name
        by_width = [figure for figure in (tf32, bf16, fp8, fp4) if figure is not None]
        assert by_width == sorted(by_width), name
        assert memory is None or link is None or link <= memory, name
