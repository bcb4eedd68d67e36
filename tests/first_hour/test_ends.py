"""The ends of a run, as somebody sees them in `chiplog ls` and `chiplog show`."""

from __future__ import annotations

import json

from tests.first_hour.environment import Environment

# Each run has a process of its own; the names are the ends.
SCRIPT = """
import os, signal, sys
if len(sys.argv) == 1:
    import subprocess
    for name, status in (("return", 0), ("zero", 0), ("bare", 0), ("error", 1), ("three", 3), ("text", 1), ("raised", 4), ("kill", -9), ("ctrl-c", -2)):
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, timeout=60)
        assert done.returncode == status, (name, done)
        assert (b"Traceback" in done.stderr) == (name in ("error", "ctrl-c")), (name, done)
    sys.exit()

import chiplog
name = sys.argv[1]
run = chiplog.init(project="ends", name=name, sinks="none")
for step in range(3):
    run.log({"train/loss": 1.0 / (1 + step)}, step=step)
ends = {
    "return": lambda: None,
    "zero": lambda: sys.exit(0),
    "bare": lambda: sys.exit(),
    "error": lambda: {}["lr"],
    "three": lambda: sys.exit(3),
    "text": lambda: sys.exit("bad data"),
    "raised": lambda: (_ for _ in ()).throw(SystemExit(4)),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "ctrl-c": lambda: os.kill(os.getpid(), signal.SIGINT),
}
ends[name]()
"""


def test_every_kind_of_end_is_stored_with_its_reason(read: Environment) -> None:
    """Finished, failed by an exception or an exit code, killed, and Ctrl-C; no point is lost in any of them."""
    read.python(SCRIPT)
    runs = {run["name"]: run for run in json.loads(read.chiplog("ls", "--json").stdout)}
    states = {name: run["state"] for name, run in runs.items()}
    failed = dict.fromkeys(("error", "three", "text", "raised"), "failed")
    assert states == {
        "return": "finished",
        "zero": "finished",
        "bare": "finished",
        **failed,
        "kill": "killed",
        "ctrl-c": "interrupted",
    }
    after = read.chiplog("doctor", "kill").stdout
    assert after.startswith("no problems found") and "  note  attempt 1, rank 0: killed" in after, after
    assert "nothing to do: the run uses it when it resumes" in after, after  # the space set aside for a full disk
    assert {run["step"] for run in runs.values()} == {2}
    for name, reason in (
        ("error", "KeyError: 'lr'"),
        ("three", "exit code 3"),
        ("text", "bad data"),
        ("raised", "exit code 4"),
    ):
        assert f"failed: {reason}" in read.chiplog("show", name).stdout
