"""What the end of the interpreter waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.perfetto.processor import ask

SCRIPTS = {
    "v1": (
        "from chiplog.frontends.tunix.perf.export import PerfMetricsExport\n"
        "from chiplog.frontends.tunix.perf.perfetto import PerfettoTraceWriter\n"
        "from chiplog.frontends.tunix.perf.trace import PerfTracer\n"
        "roles = {'rollout': ['tpu0'], 'actor': ['tpu0'], 'refer': ['tpu0']}\n"
        "export_fn = PerfMetricsExport.from_role_to_devices(roles, trace_writer=PerfettoTraceWriter('traces'))\n"
        "tracer = PerfTracer(['tpu0'], export_fn)\n"
    ),
    "v2": (
        "from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport\n"
        "from chiplog.frontends.tunix.perf.experimental.tracer import PerfTracer\n"
        "tracer = PerfTracer(export_fn=PerfMetricsExport(trace_dir='traces').export_metrics)\n"
    ),
}


@pytest.mark.parametrize("version", SCRIPTS)
def test_what_was_exported_is_in_the_file_when_the_script_ends(version: str) -> None:
    """Nobody has to close anything: not after many exports, nor where a device is at work at the last of them."""
    code = (
        "import threading\n"
        "from concurrent.futures import Future\n"
        "def main():\n"
        + "".join(f"    {line}\n" for line in SCRIPTS[version].splitlines())
        + "    for step in range(300):\n"
        "        with tracer.span('host'): pass\n"
        "        tracer.export()\n"
        "    late = Future()\n"
        "    with tracer.span('late', devices=['tpu0']) as span: span.async_end(late)\n"
        "    tracer.export()\n"
        "    threading.Timer(0.3, late.set_result, [None]).start()\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    (path,) = Path("traces").iterdir()
    (rows,) = ask(path, "select name, count(*) as n from slice group by name order by name")
    assert rows == [{"name": "host", "n": 300}, {"name": "late", "n": 2}], done.stderr


def test_a_disk_that_hangs_at_the_end_is_named_and_not_waited_for() -> None:
    """The end of a script takes a few seconds then, and one line says what is not complete."""
    code = (
        "import threading\n"
        "from chiplog.frontends.tunix.perf import at_exit, trace_files as writer\n"
        "at_exit.PATIENCE = 0.5\n"
        "writer._create = lambda *_: threading.Event().wait()\n" + SCRIPTS["v2"] + "with tracer.span('x'): pass\n"
        "tracer.export()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "is not complete: the disk did not answer within 0.5 s" in done.stderr
