"""The rows of a rank without a journal."""

from __future__ import annotations

import pytest

from chiplog.frontends.ezpz import rows_in_memory
from chiplog.frontends.ezpz.rows_in_memory import RowsInMemory


def test_values_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, as plain values, and only the newest of them."""
    monkeypatch.setattr(rows_in_memory, "MOST", 2)
    memory = RowsInMemory()
    for step in range(3):
        memory.add({"loss": float(step), "vector": (step, step)})
    memory.add({"note": "text"})
    assert memory.by_name() == {"loss": [1.0, 2.0], "vector": [[1, 1], [2, 2]], "note": ["text"]}
