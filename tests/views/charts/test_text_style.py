"""The style of text plots."""

from __future__ import annotations

import subprocess
import sys

from chiplog.views.charts.text_style import KINDS, TextStyle


def test_the_default_style_is_of_a_known_kind() -> None:
    """Wide enough to read, without colour for files."""
    style = TextStyle()
    assert style.kind in KINDS and style.width >= 60 and not style.colour


def test_a_style_needs_no_numpy() -> None:
    """The help of `chiplog report` works without it."""
    code = "import sys, chiplog.views.charts.text_style; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
