"""Ranks that are started once for all tests of a session, also where several processes share the tests."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = [
    *(
        "synchronous",
        "two",
        "four",
        "everyone",
        "asynchronous",
        "automatic",
        "silent",
        "silent_synchronously",
        "uneven",
    ),
    *("not_finite", "straggler", "fallback", "alone", "forks", "restarted", "early", "stopped_synchronously"),
    *(
        "evaluations",
        "routers",
        "started_again",
        "several_calls",
        "own_rows",
        "closed_under_way",
        "gone_before",
        "refused",
        "one_after_the_other",
    ),
]


PATIENCE = 300  # s: on a busy machine, all scenarios together take minutes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first waits until all scenarios have been played."""
    for item in items:
        if isinstance(item, pytest.Function) and "launched" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(PATIENCE))


class Told(NamedTuple):
    """What the ranks of a scenario returned, and where they ran."""

    ranks: list[Any]
    errors: list[str]
    seconds: float


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every scenario has been played."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "ranks"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "results.json").exists():
            subprocess.run(
                [sys.executable, "-m", "tests.runtime.ranks.nursery", str(folder), *SCENARIOS],
                cwd=ROOT,
                env={key: value for key, value in os.environ.items() if not key.startswith("CHIPLOG_")},
                check=True,
                timeout=PATIENCE - 10,
            )
    return folder


@pytest.fixture
def told(launched: Path, request: pytest.FixtureRequest) -> Told:
    """The scenario that a test names with `@pytest.mark.parametrize("told", [...], indirect=True)`."""
    name = request.param
    found = json.loads((launched / "results.json").read_text())[name]
    ranks = found["ranks"]
    errors = [(launched / name / f"{rank}.err").read_text() for rank in range(len(ranks))]
    assert not any("code" in rank for rank in ranks), "\n".join(errors)
    return Told([rank["value"] for rank in ranks], errors, found["seconds"])
