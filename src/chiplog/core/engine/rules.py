"""The rules of a run: when each is called, the alerts that its findings become, and the state it keeps on a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from chiplog.core import messages, records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.reentry_guard import ReentryGuard, is_ours
from chiplog.core.protocols import Finding, Rule, Stage
from chiplog.core.records import Number, Plain, Row
from chiplog.core.values import convert
from chiplog.core.values.redact import hide, redact_text
from chiplog.core.values.text import cut

AlertListener = Callable[[records.Alert], object]


class Rules:
    """Calls the rules in turn and turns findings into alerts; a rule that raises is reported and called again."""

    def __init__(self, rules: Sequence[Rule], alerts: Alerts, recorder: Recorder) -> None:
        self._alerts, self._recorder = alerts, recorder
        self.replace(rules)

    def replace(self, rules: Sequence[Rule]) -> None:
        """Use these rules from now on."""
        self._rules = tuple(
            (rule if is_ours(rule) else ReentryGuard(rule, f"rule {name_of(rule)}"), name_of(rule)) for rule in rules
        )
        self._with_events = [
            (rule.events, ReentryGuard(rule.event, f"rule {name_of(rule)}"), name_of(rule))  # type: ignore[attr-defined]
            for rule in rules
            if hasattr(rule, "events")
        ]
        self._with_ticks = [rule for rule in rules if hasattr(rule, "tick")]
        self.active = bool(rules)

    def check(self, row: Row, step: Number) -> None:
        """Call all rules with a row that has been written."""
        for rule, name in self._rules:
            try:
                if (finding := rule(row, step)) is not None:
                    self._report(finding, name, step)
            except Exception as error:
                self._recorder.failed(f"rule {name}", error)

    def check_event(self, name: str, data: Mapping[str, Plain], step: Number) -> None:
        """Pass the whole event to the rules that ask for its name."""
        for events, call, rule in self._with_events:
            if name in events:
                self._call(rule, step, partial(call, data, step))

    def tick(self, step: Number) -> None:
        """Call the rules that also run without rows."""
        for rule in self._with_ticks:
            self._call(name_of(rule), step, rule.tick)

    def _call(self, rule: str, step: Number, check: Callable[[], Finding | None]) -> None:
        with self._recorder.guard(f"rule {rule}"):
            if (finding := check()) is not None:
                self._report(finding, rule, step)

    def _report(self, finding: Finding, rule: str, step: Number) -> None:
        for each in (finding, *finding.beside):
            self._alerts.write(each, rule, step)


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
        try:
            states = dict(saved.get("parts", {})) if saved and step > saved.get("step", step) else {}
        except Exception:  # the file may hold anything
            states = {}
        for name, state in states.items():
            if name in self._parts:
                try:
                    self._parts[name].restore(state)
                except Exception as error:
                    words = f"the saved state of {name!r} cannot be used ({error!r}); it starts from scratch"
                    messages.once(f"state {name}", words)

    @property
    def pending(self) -> bool:
        return bool(self._saved)


def name_of(part: object) -> str:
    """The name of a stage or rule."""
    return str(getattr(part, "name", None) or getattr(part, "__name__", type(part).__name__))


class Alerts:
    """Turns findings into alert records and calls the listeners, on the thread that found them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.listeners: list[AlertListener] = []

    def write_by_hand(self, finding: Finding, step: Number) -> None:
        """Write the alert of a caller; an unknown level is reported and becomes a warning."""
        if finding.level not in records.LEVELS:
            choices = ", ".join(records.LEVELS)
            problem = f"no alert level {finding.level!r}; it is stored as 'warn'; available: {choices}"
            self._recorder.failed("alert", ValueError(problem))
            finding = msgspec.structs.replace(finding, level="warn")
        self.write(finding, "", step)

    def write(self, finding: Finding, rule: str, step: Number) -> None:
        alert = self._recorder.write(
            records.Alert,
            title=redact_text(cut(finding.title, 1000)),
            level=finding.level,
            text=redact_text(cut(finding.text)),
            rule=finding.rule or rule,
            step=step,
            evidence=hide(convert.plain(finding.evidence)),
        )
        if alert is not None:
            for call in self.listeners:
                with self._recorder.guard("on_alert"):
                    call(alert)
