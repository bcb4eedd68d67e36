"""Charts as SVG."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np

from chiplog.views.charts import svg


def test_a_heat_map_leaves_out_what_is_not_finite() -> None:
    """One rectangle per finite value, and valid SVG."""
    drawn = ElementTree.fromstring(svg.heat(np.array([[1.0, math.nan], [math.inf, 4.0]]), "layer", "expert"))
    assert len(drawn.findall("rect")) == 2
    assert svg.heat(np.array([[math.nan]]), "a", "b") == ""


def test_no_curves_are_no_chart() -> None:
    """An empty text rather than an empty frame."""
    assert svg.chart([]) == ""
