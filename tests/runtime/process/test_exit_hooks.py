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
MARK = """
import atexit, sys
from chiplog.runtime.process import exit_hooks

exit_hooks.mark_exits()
atexit.register(lambda: print(repr(exit_hooks.exit_error())))
"""


def end(folder: Path, code: str) -> tuple[str, str]:
    subprocess.run([sys.executable, "-c", START + code], cwd=folder, check=False, capture_output=True, timeout=60)
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
        ("raise KeyboardInterrupt", ("interrupted", "KeyboardInterrupt")),
    ],
)
def test_an_exit_code_is_a_failure_unless_it_is_zero(tmp_path: Path, code: str, ending: tuple[str, str]) -> None:
    """Whoever calls exit, inside or outside of `with`; an exit that is caught is none."""
    assert end(tmp_path, code) == ending


def test_exit_is_as_before_once_the_run_has_finished(tmp_path: Path) -> None:
    """And while the run is open, it can be printed and pickled as before."""
    code = (
        "import pickle; assert pickle.loads(pickle.dumps(sys.exit)) is sys.exit; before = repr(sys.exit), repr(exit)\n"
        "run.finish(); assert type(sys.exit).__name__ == 'builtin_function_or_method'\n"
        "assert before == (repr(sys.exit), repr(exit)); open('checked', 'w')"
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


def shown(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", MARK + code], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("pass", "None"),
        ("sys.exit(3)", "SystemExit(3)"),
        ("exit('too bad')", "SystemExit('too bad')"),
        ("quit()", "SystemExit(None)"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", "None"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass\nsys.exit(4)", "SystemExit(4)"),
        ("import threading\nt = threading.Thread(target=sys.exit, args=(5,))\nt.start(); t.join()", "None"),
    ],
)
def test_an_exit_handler_sees_the_exit_that_ends_the_process(code: str, error: str) -> None:
    """Not one that somebody has caught, nor that of a thread."""
    assert shown(code) == error


def test_unwatched_the_functions_are_the_originals_again() -> None:
    """After as many calls as of `mark_exits`; what has been wrapped since stays."""
    code = (
        "exit_hooks.mark_exits(); first = sys.exit; exit_hooks.unmark_exits(); assert sys.exit is first\n"
        "exit_hooks.unmark_exits(); assert type(sys.exit).__name__ == 'builtin_function_or_method'\n"
        "import pickle; exit_hooks.mark_exits(); assert pickle.loads(pickle.dumps(sys.exit)) is sys.exit\n"
        "print('good')"
    )
    assert shown(code).startswith("good")
