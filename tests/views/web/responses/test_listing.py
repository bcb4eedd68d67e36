"""A run in the list."""

from __future__ import annotations

from pathlib import Path

from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.web.responses.listing import row
from tests.views.web import stores


def test_only_columns_that_a_run_has_are_cells(tmp_path: Path) -> None:
    """A setting by `c:`, a last value by `v:`."""
    stores.simple(tmp_path, "one", lr=0.5)
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    (entry,) = summaries.entries()
    cells = row(entry, ["c:lr", "c:other", "v:train/tokens"])["cells"]
    assert cells == {"c:lr": 0.5, "v:train/tokens": 4096}
