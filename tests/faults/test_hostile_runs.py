"""The semantic fuzzer: well-sealed but hostile runs, read by every verb, sink and route."""

from __future__ import annotations

import os

from tests.faults.hostile_runs import fuzz

FULL = os.environ.get("CHIPLOG_FAULTS") == "full"
SECONDS = float(os.environ.get("CHIPLOG_FUZZ_SECONDS", "3600" if FULL else "50"))


def test_nothing_hostile_raises_steers_a_terminal_or_leaves_markup() -> None:
    """No exception, no control character, no markup of the run's maker, whatever a run says; other seeds when full."""
    findings = fuzz(SECONDS, first=int.from_bytes(os.urandom(4), "big") if FULL else 0, most=10**9 if FULL else 6)
    assert not findings, "\n".join(findings[:20])
    assert findings.commands > 60 and findings.requests > 60 and findings.sinks > 12  # two runs, on a busy machine
