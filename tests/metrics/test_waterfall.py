"""The parts of a step add up to it, each with how it is known."""

from __future__ import annotations

import pytest

from chiplog.metrics.waterfall import MEASURED, MODELLED, REST, waterfall


def test_the_parts_add_up_in_the_order_of_the_fall() -> None:
    """Compute, memory, communication, data, host, and the rest."""
    parts = waterfall(1.0, compute=0.4, memory=0.5, communication=0.1, data=0.05, host=0.15)
    assert [(part.name, pytest.approx(part.seconds), part.source) for part in parts] == [
        ("compute at peak", 0.4, MODELLED),
        ("memory-bound", 0.1, MODELLED),
        ("exposed communication", 0.1, MEASURED),
        ("data wait", 0.05, MEASURED),
        ("host overhead", 0.15, MEASURED),
        ("everything else", 0.2, REST),
    ]


def test_what_is_not_known_is_in_the_rest() -> None:
    """Nothing is made up: without a peak there is no compute."""
    assert [(part.name, part.seconds) for part in waterfall(1.0, data=0.25)] == [
        ("data wait", 0.25),
        ("everything else", 0.75),
    ]
    assert waterfall(1.0, compute=float("nan"))[0].name == "everything else"


def test_a_model_that_says_too_much_is_cut_to_the_time_there_is() -> None:
    """What is measured is believed first."""
    parts = {part.name: part.seconds for part in waterfall(1.0, compute=5.0, data=0.3)}
    assert parts == {"compute at peak": 0.7, "data wait": 0.3, "everything else": 0.0}


def test_memory_below_compute_costs_nothing() -> None:
    """It is hidden behind it."""
    parts = {part.name: part.seconds for part in waterfall(1.0, compute=0.5, memory=0.2)}
    assert parts["memory-bound"] == 0.0
