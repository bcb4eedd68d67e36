"""The rules of a run: when each is asked, what becomes of its findings, and the state it carries over a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from chiplog.core.engine.alerts import Alerts
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import Finding, Rule, Stage
from chiplog.core.records import Row


class Rules:
    """Asks the rules in turn and rings for what they find; one that raises is reported and asked again."""

    def __init__(self, rules: Sequence[Rule], alerts: Alerts, recorder: Recorder) -> None:
        self._alerts, self._recorder = alerts, recorder
        self.replace(rules)

    def replace(self, rules: Sequence[Rule]) -> None:
        """Ask these from here on."""
        self._rules = tuple(rules)
        self._hearing = [rule for rule in rules if hasattr(rule, "events")]
        self._ticking = [rule for rule in rules if hasattr(rule, "tick")]
        self.active = bool(rules)

    def look(self, row: Row, step: int | float) -> None:
        """Show all rules a row that has been written."""
        for rule in self._rules:
            try:
                if (finding := rule(row, step)) is not None:
                    self._tell(finding, rule, step)
            except Exception as error:
                self._recorder.failed(f"rule {name_of(rule)}", error)

    def hear(self, name: str, data: Mapping[str, Any], step: int | float) -> None:
        """Tell those who listen for it about an event, whole."""
        for rule in self._hearing:
            if name in rule.events:
                self._ask(rule, step, partial(rule.event, data, step))  # type: ignore[attr-defined]

    def tick(self, step: int | float) -> None:
        """Ask those who want to be asked also when no row comes."""
        for rule in self._ticking:
            self._ask(rule, step, rule.tick)

    def _ask(self, rule: Rule, step: int | float, question: Callable[[], Finding | None]) -> None:
        try:
            if (finding := question()) is not None:
                self._tell(finding, rule, step)
        except Exception as error:
            self._recorder.failed(f"rule {name_of(rule)}", error)

    def _tell(self, finding: Finding, rule: Rule, step: int | float) -> None:
        for one in (finding, *finding.beside):
            self._alerts.ring(one, name_of(rule), step)


class CarriedState:
    """What stages and rules know of the past, kept over a restart.

    A run that goes on behind its last step starts with what was known then. One that goes back to an older step starts
    from scratch: what was seen after that step belongs to the abandoned attempt, and would be mixed with this one.
    """

    def __init__(self, parts: Sequence[Stage | Rule], highest: int | float = -1) -> None:
        self._highest = highest
        self._parts = {name_of(part): part for part in parts if hasattr(part, "state") and hasattr(part, "restore")}
        self._waiting: Mapping[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def state(self, step: int | float) -> dict[str, Any]:
        if step > self._highest:
            self._highest = step
        return {
            "step": step,
            "highest": self._highest,
            "parts": {name: part.state() for name, part in self._parts.items()},
        }

    def expect(self, saved: Mapping[str, Any]) -> None:
        """Keep what was saved until the first step says whether it holds."""
        self._waiting = saved

    def begin(self, step: int | float) -> None:
        """The first step of this attempt."""
        saved, self._waiting = self._waiting, {}
        if saved and step > saved.get("step", step):
            for name, state in saved.get("parts", {}).items():
                if name in self._parts:
                    self._parts[name].restore(state)

    @property
    def pending(self) -> bool:
        return bool(self._waiting)


def name_of(part: object) -> str:
    """What a stage or rule is called."""
    return str(getattr(part, "name", None) or getattr(part, "__name__", type(part).__name__))
