"""The rules of a run: when each is called, its findings, and the state it carries over a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from chiplog.core.engine.alerts import Alerts
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import Finding, Rule, Stage
from chiplog.core.records import Number, Plain, Row


class Rules:
    """Calls the rules in turn and turns findings into alerts; a rule that raises is reported and called again."""

    def __init__(self, rules: Sequence[Rule], alerts: Alerts, recorder: Recorder) -> None:
        self._alerts, self._recorder = alerts, recorder
        self.replace(rules)

    def replace(self, rules: Sequence[Rule]) -> None:
        """Use these rules from now on."""
        self._rules = tuple(rules)
        self._with_events = [rule for rule in rules if hasattr(rule, "events")]
        self._with_ticks = [rule for rule in rules if hasattr(rule, "tick")]
        self.active = bool(rules)

    def check(self, row: Row, step: Number) -> None:
        """Call all rules with a row that has been written."""
        for rule in self._rules:
            try:
                if (finding := rule(row, step)) is not None:
                    self._report(finding, rule, step)
            except Exception as error:
                self._recorder.failed(f"rule {name_of(rule)}", error)

    def check_event(self, name: str, data: Mapping[str, Plain], step: Number) -> None:
        """Pass the whole event to the rules that ask for its name."""
        for rule in self._with_events:
            if name in rule.events:
                self._call(rule, step, partial(rule.event, data, step))  # type: ignore[attr-defined]

    def tick(self, step: Number) -> None:
        """Call the rules that also run without rows."""
        for rule in self._with_ticks:
            self._call(rule, step, rule.tick)

    def _call(self, rule: Rule, step: Number, check: Callable[[], Finding | None]) -> None:
        with self._recorder.guard(f"rule {name_of(rule)}"):
            if (finding := check()) is not None:
                self._report(finding, rule, step)

    def _report(self, finding: Finding, rule: Rule, step: Number) -> None:
        for each in (finding, *finding.beside):
            self._alerts.write(each, name_of(rule), step)


class CarriedState:
    """The state of stages and rules, kept over a restart.

    A run that continues after its last step starts with the saved state. One that goes back to an older step starts
    from scratch: what was seen after that step belongs to the abandoned attempt, and would be mixed with this one.
    """

    def __init__(self, parts: Sequence[Stage | Rule], highest: Number = -1) -> None:
        self._highest = highest
        self._parts = {name_of(part): part for part in parts if hasattr(part, "state") and hasattr(part, "restore")}
        self._saved: Mapping[str, Plain] = {}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def state(self, step: Number) -> dict[str, Plain]:
        if step > self._highest:
            self._highest = step
        return {
            "step": step,
            "highest": self._highest,
            "parts": {name: part.state() for name, part in self._parts.items()},
        }

    def expect(self, saved: Mapping[str, Plain]) -> None:
        """Hold saved state until the first step decides whether it applies."""
        self._saved = saved

    def restore(self, step: Number) -> None:
        """Restore the saved state if the first step of this attempt comes after it; drop it otherwise."""
        saved, self._saved = self._saved, {}
        if saved and step > saved.get("step", step):
            for name, state in saved.get("parts", {}).items():
                if name in self._parts:
                    self._parts[name].restore(state)

    @property
    def pending(self) -> bool:
        return bool(self._saved)


def name_of(part: object) -> str:
    """The name of a stage or rule."""
    return str(getattr(part, "name", None) or getattr(part, "__name__", type(part).__name__))
