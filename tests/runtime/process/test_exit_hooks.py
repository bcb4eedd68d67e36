"""How a run that nobody finishes ends with its process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.store.reader import Stored

START = "import sys, chiplog; run = chiplog.init('p', id='run', sinks='none'); run.log({'loss': 1.0})\n"
FAULT = ("failed", "ZeroDivisionError: division by zero")


def end(folder: Path, code: str) -> tuple[str, str]:
    (folder / "train.py").write_text(START + code)
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=False, capture_output=True, timeout=60)
    finish = Stored(folder / "runs/p/run").attempts[-1].finish
    assert finish is not None
    return finish.state, finish.reason


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("sys.exit(3)", ("failed", "exit code 3")),
        ("sys.exit('bad data')", ("failed", "bad data")),
        ("exit(True)", ("failed", "exit code 1")),
        ("sys.exit()", ("finished", "")),
        ("exit(0)", ("finished", "")),
        ("try:\n    sys.exit(3)\nexcept SystemExit: pass", ("finished", "")),
        ("try:\n    sys.exit(3)\nexcept SystemExit as error:\n    kept = error\n    raise", ("failed", "exit code 3")),
        ("with run: sys.exit(4)", ("failed", "exit code 4")),
        ("raise SystemExit(3)", ("failed", "exit code 3")),
        ("raise SystemExit('bad data')", ("failed", "bad data")),
        ("raise SystemExit((lambda: None)())", ("finished", "")),
        ("import gc\ntry:\n    raise SystemExit(3)\nfinally: gc.collect()", ("failed", "exit code 3")),
        ("try:\n    sys.exit(3)\nexcept SystemExit: raise SystemExit(4)", ("failed", "exit code 4")),
        ("try:\n    sys.exit(3)\nexcept SystemExit as error: kept = error", ("finished", "")),
        ("try:\n    raise SystemExit(3)\nexcept SystemExit as error: kept = error", ("finished", "")),
        ("try:\n    sys.exit(3)\nexcept SystemExit as error: kept = error\n1 / 0", FAULT),
        ("raise KeyboardInterrupt", ("interrupted", "KeyboardInterrupt")),
    ],
)
def test_an_exit_code_is_a_failure_unless_it_is_zero(tmp_path: Path, code: str, ending: tuple[str, str]) -> None:
    """Whoever calls exit, inside or outside of `with`; an exit that is caught is none."""
    assert end(tmp_path, code) == ending


def test_an_exit_imported_before_the_run_counts_too(tmp_path: Path) -> None:
    """And nothing is changed for `exit` by name."""
    code = "run.finish(); from sys import exit; chiplog.init('p', id='run', resume=True, sinks='none'); exit(3)"
    assert end(tmp_path, code) == ("failed", "exit code 3")


def test_exit_is_as_before_once_the_run_has_finished(tmp_path: Path) -> None:
    """And while the run is open, it can be printed and pickled as before."""
    code = (
        "import pickle; assert pickle.loads(pickle.dumps(sys.exit)) is sys.exit; before = repr(sys.exit), repr(exit)\n"
        "run.finish(); assert type(sys.exit).__name__ == 'builtin_function_or_method'\n"
        "assert before == (repr(sys.exit), repr(exit)) and 'flush' not in vars(sys.stderr); open('checked', 'w')"
    )
    assert end(tmp_path, code) == ("finished", "") and (tmp_path / "checked").exists()


SCRIPT = """
import os, signal, sys, chiplog
run = chiplog.init("p", dir=sys.argv[1], alerts=False, on_signal="flush")
run.log({"loss": 1.0})
if sys.argv[2] == "term":
    os.kill(os.getpid(), signal.SIGTERM)
"""


def ended(folder: Path, how: str) -> int:
    return subprocess.run([sys.executable, "-c", SCRIPT, folder, how], check=False, timeout=60).returncode


def test_a_run_is_finished_at_the_exit_of_the_interpreter(tmp_path: Path) -> None:
    """Even if the script does not call `finish`."""
    assert ended(tmp_path, "exit") == 0
    (stored,) = chiplog.runs(tmp_path)
    assert stored.series("loss").values.tolist() == [1.0] and stored.state == "finished"


def test_sigterm_flushes_and_still_ends_the_process(tmp_path: Path) -> None:
    """The signal reaches the handler that was there before."""
    assert ended(tmp_path, "term") == -signal.SIGTERM
    (stored,) = chiplog.runs(tmp_path)
    assert stored.series("loss").values.tolist() == [1.0]
