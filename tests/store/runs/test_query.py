"""The language that chooses runs."""

from __future__ import annotations

from datetime import datetime

import pytest

from chiplog.core.errors import BadQuery
from chiplog.store.runs.query import Query, Value

NOW = datetime(2026, 11, 18, 12).timestamp()
RUN: dict[str, Value] = {
    "project": "sweep",
    "name": "Wide ResNet",
    "id": "261118-1",
    "state": "finished",
    "tag": ["baseline", "gpu"],
    "step": 20_000,
    "lr": 0.001,
    "optim": "AdamW",
    "amp": True,
    "eval/loss": 0.5,
    "nan": "nan",
    "started": NOW - 5400,
    "ran": 5000.0,
    "age": 5400.0,
}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "lr>0.0001 and state=finished",
        "lr > 0.0001 state = finished",
        "lr=1e-3",
        "lr:0.001",
        "lr=1e-4..1e-2",
        "lr=..1e-3",
        "lr>=0.001 lr<=0.001",
        "state=failed or eval/loss<1",
        "-state=failed",
        "not (state=failed or lr>1)",
        "state=failed,finished",
        "state!=failed",
        "optim=adam*",
        "optim~dam",
        "amp=true",
        'name="wide resnet"',
        "resnet",
        "261118-*",
        "tag=gpu -tag=old",
        "tag!=old",
        "step=20k",
        "nan=nan",
        "missing=none",
        "started=today",
        "started>-2h started<-1h",
        "started>yesterday",
        'started>"2h ago"',
        "started=2026-11-18",
        "started>=2026-11-18T10:00",
        "started=yesterday..today",
        "ran>1h ran<1h30m",
        "age<2h",
        "LR=1 OR lr=0.001",
    ],
)
def test_a_query_describes_the_run(query: str) -> None:
    """Numbers, texts, patterns, ranges, tags, durations and times."""
    assert Query(query, NOW)(RUN.get)


@pytest.mark.parametrize(
    "query",
    [
        "lr>0.001",
        "lr=1e-4..5e-4",
        "-resnet",
        "state=finished and lr>1 or state=failed",
        "state=finished (lr>1 or state=failed)",
        "tag=old",
        "tag!=gpu",
        "missing!=3",
        "missing>3",
        'optim="adam*"',
        "nan<1",
        "started=yesterday",
        "started>today",
        "age<1h",
        "vision",
    ],
)
def test_a_query_describes_another_run(query: str) -> None:
    """`and` binds closer than `or`, and what a run does not have is neither more nor less nor different."""
    assert not Query(query, NOW)(RUN.get)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("lr>", "cannot parse 'lr>'"),
        ("lr => 3", "cannot parse '=> 3'"),
        ("lr>fast", "'fast' is not a number"),
        ("lr=1 and", "a test is missing at the end"),
        ("or lr=1", "a test is missing at 'or lr=1'"),
        ("(lr=1", r"a '\)' is missing"),
        ("lr=1)", r"unexpected '\)'"),
        ('name="x', "cannot parse"),
        ("started>2h", "write -2h for two hours ago"),
        ("ran>long", "'long' is not a duration"),
        ("lr=1..high", "a range is two numbers"),
        ("started>9999-12-31", "'9999-12-31' is not a time"),
        ("started<0001-01-01", "'0001-01-01' is not a time"),
        ("(" * 600 + "lr=1" + ")" * 600, "more than 50 parentheses and negations"),
        ("-" * 1000 + "lr=1", "more than 50 parentheses and negations"),
        ("not " * 1000 + "lr=1", "more than 50 parentheses and negations"),
    ],
)
def test_what_is_not_understood_is_named(query: str, message: str) -> None:
    """With an example of what would be."""
    with pytest.raises(BadQuery, match=message) as error:
        Query(query, NOW)
    assert "such as lr>0.001" in str(error.value)


def test_the_keys_of_a_query_are_known() -> None:
    """For the columns of a list."""
    assert Query('lr>1 or -"eval/loss"<2 lr<3 word').keys == ("lr", "eval/loss")
