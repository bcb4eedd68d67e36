"""A trial of Optuna as a run."""

from __future__ import annotations

import json
import math

import pytest

from chiplog.core import records
from chiplog.core.records import Plain
from chiplog.store.foreign.formats.optuna.trial import Trial, param
from chiplog.store.foreign.protocol import Position

CHOICES = [None, True, 7, "relu"]


def distribution(kind: str, **attributes: Plain) -> dict[str, Plain]:
    """As Optuna stores it."""
    return {"name": f"{kind}Distribution", "attributes": attributes}


ACTS = distribution("Categorical", choices=CHOICES)
LAYERS = distribution("Int", log=False, step=1, low=1, high=8)
LR = distribution("Float", log=True, step=None, low=1e-5, high=0.1)


@pytest.mark.parametrize(
    ("about", "stored", "value"),
    [
        (LR, 0.001, 0.001),
        (LR, 4.0, 4.0),
        (LAYERS, 4.0, 4),
        (distribution("IntUniform", low=1, high=8), 4.0, 4),  # of older versions
        *((ACTS, float(index), choice) for index, choice in enumerate(CHOICES)),
    ],
)
def test_a_param_is_as_it_was_suggested(about: dict[str, Plain], stored: float, value: Plain) -> None:
    """Optuna stores each as a decimal; an integer is one again, and a choice is the choice itself."""
    for one in (about, json.dumps(about)):  # a journal has it as it is, a database as text
        assert repr(param(stored, one)) == repr(value)


@pytest.mark.parametrize("stored", [-1.0, 4.0, 1.5, 1e300])
def test_an_index_of_no_choice_is_left_as_it_is(stored: float) -> None:
    """As in a file that somebody has changed."""
    assert param(stored, ACTS) == stored


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("about", [ACTS, LAYERS, LR], ids=lambda about: about["name"])
def test_a_number_that_is_not_finite_stays(odd: float, about: dict[str, Plain]) -> None:
    """It is neither the index of a choice nor an integer."""
    assert repr(param(odd, about)) == repr(odd)


@pytest.mark.parametrize(
    "about", [None, "", "{", "[]", '{"name": "CategoricalDistribution"}', 5, {"name": 3}, {**ACTS, "attributes": None}]
)
def test_a_distribution_that_cannot_be_read_changes_nothing(about: Plain) -> None:
    """The number is that of the file; text is never a number."""
    assert param(2.5, about) == 2.5 and param("text", about) == "text"


def test_only_new_reports_are_read() -> None:
    """From the position of the last time, in the order of the reports, and of no time of their own."""
    trial = Trial("study", 3, started=5, reported={2: 0.5, 1: math.inf})
    first, second, last = trial.items(None)
    assert first == records.Step(0, 5, 2, {"value": 0.5}) and second == records.Step(0, 5, 1, {"value": math.inf})
    assert isinstance(last, Position) and last.value == 2
    assert list(trial.items(2)) == [last]
    trial.reported[9] = 0.1
    assert next(trial.items(2)) == records.Step(0, 5, 9, {"value": 0.1})


@pytest.mark.parametrize(
    ("values", "summary"), [([], {}), ([0.5], {"value": 0.5}), ([0.5, 2.0], {"value/0": 0.5, "value/1": 2.0})]
)
def test_the_result_is_the_summary(values: list[float], summary: dict[str, Plain]) -> None:
    """With a number for each objective if there are several."""
    about = Trial("study", 3, state="PRUNED", values=list(values), attributes={"a": 1}).about()
    assert about.summary == summary and (about.project, about.id, about.state) == ("study", "trial-3", "pruned")
    assert about.source == {"study": "study", "attributes": {"a": 1}}
    assert Trial("study", 3, state="WAITING").about().state == "" and Trial("study", 3).about().state == "running"
