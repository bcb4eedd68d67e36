"""The study that was written: what Optuna itself returns for it."""

from __future__ import annotations

import math

from chiplog.core.records import Plain
from chiplog.store.reader import Stored
from tests.support.foreign_stores import Values

LR = (
    0.00046568046379195655,
    2.3407464805767515e-05,
    0.00047509237210306113,
    0.0048069548249615995,
    0.015957993164212966,
)
LAYERS, ACT = (3, 1, 3, 2, 4), ("gelu", None, "gelu", "relu", None)
STATES = ("finished", "finished", "pruned", "failed", "finished")
REPORTS = (5, 5, 4, 2, 5)  # of each trial
RESULTS = (LR[0], LR[1], 0.0019003694884122445, None, LR[4])


def config(number: int) -> dict[str, Plain]:
    return {"lr": LR[number], "layers": LAYERS[number], "act": ACT[number]}


def reported(number: int) -> Values:
    odd = {2: math.nan, 3: math.inf} if number == 1 else {}
    return {"value": [(step, odd.get(step, LR[number] * (step + 1))) for step in range(REPORTS[number])]}


def by_number(runs: list[Stored], study: str = "lr-search") -> dict[int, Stored]:
    return {int(run.name.removeprefix("trial-")): run for run in runs if run.project == study}
