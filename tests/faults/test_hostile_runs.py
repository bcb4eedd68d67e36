"""The semantic fuzzer: well-sealed but hostile runs, read by every verb, sink and route."""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.cli import parser
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.web.routes import Site
from tests.faults.hostile_questions import NO_READERS, UNASKED, routes, verbs
from tests.faults.hostile_runs import fuzz
from tests.views.web import fuzzing

FULL = os.environ.get("CHIPLOG_FAULTS") == "full"
SECONDS = float(os.environ.get("CHIPLOG_FUZZ_SECONDS", "3600" if FULL else "50"))


def test_nothing_hostile_raises_steers_a_terminal_or_leaves_markup() -> None:
    """No exception, no control character, no markup of the run's maker, whatever a run says; other seeds when full."""
    findings = fuzz(SECONDS, first=int.from_bytes(os.urandom(4), "big") if FULL else 0, most=10**9 if FULL else 6)
    assert not findings, "\n".join(findings[:20])
    assert findings.commands > 60 and findings.requests > 60 and findings.sinks > 12  # two runs, on a busy machine


def test_every_verb_and_option_is_asked() -> None:
    """A new verb or option that reads a run joins the fuzzer, or is named as one that reads nothing."""
    words = list(verbs(Path("runs/p/run"), Path("out")))
    commands = next(action.choices for action in parser()._actions if action.dest == "verb")
    assert isinstance(commands, dict)
    assert {line[2] for line in words} == set(commands) - NO_READERS
    for verb, line in commands.items():
        asked = {word for command in words if command[2] == verb for word in command}
        options = [set(action.option_strings) for action in line._actions if action.option_strings]
        missing = [names for names in options if not names & (asked | UNASKED)]
        missing += [set(action.choices) - asked for action in line._actions if action.choices]
        assert verb in NO_READERS or not any(missing), (verb, missing)


def test_every_route_is_asked(tmp_path: Path) -> None:
    """By both fuzzers: of records, and of requests."""
    site = Site(SummaryCache(tmp_path))
    known = {"/api/live", *site.lists, *site.load().routes}
    assert {path for path, _ in routes(["loss"])} == known
    assert known <= set(fuzzing.ROUTES)
