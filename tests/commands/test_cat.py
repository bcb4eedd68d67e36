"""`chiplog cat`."""

from __future__ import annotations

import json

import pytest

import chiplog

from .conftest import Cli


@pytest.mark.usefixtures("path")
def test_every_record_is_a_line_of_json(cli: Cli) -> None:
    """All records come out in order, each strict JSON with its kind."""
    found = [json.loads(line, parse_constant=pytest.fail) for line in cli("cat")[1].splitlines()]
    assert found[0]["log"] == "attempt" and found[-1]["log"] == "finish"
    assert [record["seq"] for record in found] == list(range(len(found)))


@pytest.mark.usefixtures("path")
def test_one_kind_alone(cli: Cli) -> None:
    """`--kind step` leaves out the rest."""
    found = [json.loads(line) for line in cli("cat", "--kind", "step")[1].splitlines()]
    assert [record["step"] for record in found] == list(range(50))


def test_not_a_number_is_a_string(cli: Cli) -> None:
    """NaN comes out as a string, so that every reader of JSON takes it."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"x": float("nan")})
    assert json.loads(cli("cat", "--kind", "step")[1])["metrics"] == {"x": "nan"}


@pytest.mark.usefixtures("path")
def test_a_kind_that_is_none(cli: Cli) -> None:
    """A kind that does not exist is a mistake, with the kinds there are."""
    code, _, err = cli("cat", "--kind", "stpe")
    assert code == 2
    assert "available: attempt, step" in err


@pytest.mark.usefixtures("path")
def test_a_rank_that_does_not_exist_is_an_error(cli: Cli) -> None:
    """`--rank` keeps to one rank, and lists them."""
    code, out, err = cli("cat", "--rank", "7")
    assert (code, out) == (2, "") and "has no rank 7; available: 0" in err
    assert cli("cat", "--rank", "0")[1] == cli("cat")[1]
