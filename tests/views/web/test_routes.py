"""The list of runs, from a real server without a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.views.web import serving as tools
from tests.views.web import stores


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tools.Served]:
    root = tmp_path_factory.mktemp("asked") / "runs"
    stores.rich(root)
    for number in range(3):
        stores.simple(root, f"run-{number}", lr=1e-4 * (number + 1))
    stores.damage(stores.simple(root, "broken"))
    with tools.serving(root) as server:
        yield server


def test_the_list_says_only_what_is_new(served: tools.Served) -> None:
    """After a version, nothing until something changes; columns are settings and last values."""
    all_of_them = served.get("runs", columns='["c:lr","v:train/loss","c:model.dim"]')
    row = next(run for run in all_of_them["runs"] if run["id"] == "run-1")
    assert row["cells"]["c:lr"] == 2e-4 and row["cells"]["c:model.dim"] == 64 and row["cells"]["v:train/loss"] < 4
    assert served.get("runs", since=all_of_them["version"])["runs"] == []
    assert "lr" in served.get("columns")["config"]


def test_an_unknown_path_is_not_found(served: tools.Served) -> None:
    """Below /api/ as elsewhere; a run that does not exist says so."""
    assert served.ask("/api/other").status == 404
    assert served.ask("/other").status == 404
    answer = served.ask("/api/run?run=other")
    assert answer.status == 404 and b"no such run" in answer.body
