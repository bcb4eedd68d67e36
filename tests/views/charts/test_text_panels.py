"""Curves of different size."""

from __future__ import annotations

from chiplog.views.charts.text_panels import panels


def test_curves_share_a_scale_if_both_can_be_seen() -> None:
    """Curves of one name always do, and a logarithmic scale fits all."""
    curves = [(name, [0.0, 1.0], values) for name, values in (
        ("loss", [2.0, 1.0]), ("eval", [3.0, 2.5]), ("tokens", [1e6, 2e6]), ("other tokens", [1.0, 2.0]), ("nan", [float("nan")] * 2),
    )]  # fmt: skip
    names = ["loss", "eval", "tokens", "tokens", "nan"]
    assert [[curve[0] for curve in group] for group in panels(curves, names)] == [
        ["loss", "eval", "nan"],
        ["tokens", "other tokens"],
    ]
    assert len(panels(curves, names, log=True)) == 1
