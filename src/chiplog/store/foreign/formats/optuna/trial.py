"""A trial of Optuna as a run: what it reported is the series `value`, and its result is in the summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.store.foreign.protocol import About, Item, Position
from chiplog.store.foreign.yaml_and_json import decoded

NAME = "optuna"
STATES = ("RUNNING", "COMPLETE", "PRUNED", "FAIL", "WAITING")  # by their numbers in a journal
WAITING = "WAITING"
_STATES = {"RUNNING": "running", "COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}


@dataclass
class Trial:
    """As of now; times are nanoseconds, 0 if there is none."""

    study: str
    number: int
    state: str = "RUNNING"
    started: int = 0
    ended: int = 0
    params: dict[str, Plain] = field(default_factory=dict)
    attributes: dict[str, Plain] = field(default_factory=dict)
    values: list[Number] = field(default_factory=list)
    reported: dict[int, Number] = field(default_factory=dict)  # by step, in the order of the reports
    about_study: dict[str, Plain] = field(default_factory=dict)

    def about(self) -> About:
        values = {"value": self.values[0]} if len(self.values) == 1 else _numbered(self.values)
        return About(
            project=self.study,
            id=f"trial-{self.number}",
            created=self.started,
            ended=self.ended,
            config=self.params,
            source={
                "study": self.study,
                **self.about_study,
                **({"attributes": self.attributes} if self.attributes else {}),
            },
            summary=values,
            state=_STATES.get(self.state, ""),
        )

    def items(self, position: Plain) -> Iterator[Item]:
        """The reports from a position on; Optuna keeps no times for them."""
        done = position if isinstance(position, int) else 0
        for step, value in list(self.reported.items())[done:]:
            yield records.Step(0, self.started, step, {"value": value})
        yield Position(len(self.reported), 1.0)


def param(value: Plain, distribution: Plain) -> Plain:
    """A param as it was suggested: Optuna stores integers as decimals, and choices as their index."""
    about = decoded(distribution.encode()) if isinstance(distribution, str) else distribution
    if not isinstance(about, dict) or not isinstance(value, (int, float)) or value - value != 0:
        return value
    if about.get("name") == "CategoricalDistribution":
        attributes = about.get("attributes")
        choices = attributes.get("choices") if isinstance(attributes, dict) else None
        if isinstance(choices, list) and value == int(value) and 0 <= value < len(choices):
            return choices[int(value)]
        return value
    return int(value) if str(about.get("name", "")).startswith("Int") else value


def _numbered(values: list[Number]) -> dict[str, Plain]:
    return {f"value/{number}": value for number, value in enumerate(values)}
