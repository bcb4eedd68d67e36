"""The tables of statements in the pages of front ends: every line names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs" / "frontends"


@pytest.mark.parametrize("page", ["ezpz", "kempnerforge", "surogate", "tunix"])
def test_every_statement_names_a_test_that_exists(page: str) -> None:
    """A statement without the test that holds it is a guess."""
    table = (PAGES / f"{page}.md").read_text().partition("tatement by statement")[2]
    lines = [line for line in table.splitlines()[6:] if line.startswith("| ") and not line.endswith("|  |  |")]
    assert len(lines) > 30
    for line in lines:
        named = re.findall(r"`(?:(?:[\w/]+/)?(test_\w+\.py)::)?(test_\w+)[`\[]", line)
        assert named, line
        before = ""
        for file, test in named:
            before = file or before  # a name alone is in the file named before it
            places = [*(HERE / page).rglob(before), *(HERE.parent).rglob(before)] if before else []
            assert any(f"def {test}(" in place.read_text() for place in places), f"{before}::{test}"
