"""`chiplog show --json`."""

from __future__ import annotations

import json

import pytest

import chiplog
from tests.commands.conftest import Cli


@pytest.mark.usefixtures("path")
def test_the_same_after_compaction(cli: Cli) -> None:
    """What a run says does not change when it is compacted."""
    before = json.loads(cli("show", "--json")[1])
    cli("compact")
    assert json.loads(cli("show", "--json")[1]) == before


def test_numbers_that_are_none_are_still_json(cli: Cli) -> None:
    """NaN and infinities are strings in `--json`."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        run.log({"loss": float("nan"), "x": float("inf")})
        run.eval({"loss": float("nan")})
    facts = json.loads(cli("show", "--json")[1], parse_constant=pytest.fail)
    assert facts["series"]["x"]["max"] == "inf"
    assert facts["evals"][0]["loss"] == "nan"
