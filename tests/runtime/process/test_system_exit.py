"""The `SystemExit` with which a process ends, as its exit handlers see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WATCH = """
import atexit, sys
from chiplog.runtime.process import system_exit

system_exit.watch()
atexit.register(lambda: print(repr(system_exit.exit_error())))
"""


def shown(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


@pytest.mark.parametrize("how", ["-c", "script"])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("pass", "None"),
        ("sys.exit(3)", "SystemExit(3)"),
        ("exit('too bad')", "SystemExit('too bad')"),
        ("quit()", "SystemExit(None)"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", "None"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass\nsys.exit(4)", "SystemExit(4)"),
        ("try:\n    sys.exit(3)\nexcept SystemExit as caught:\n    kept = caught\n    sys.exit(4)", "SystemExit(4)"),
        ("import threading\nt = threading.Thread(target=sys.exit, args=(5,))\nt.start(); t.join()", "None"),
    ],
)
def test_an_exit_handler_sees_the_exit_that_ends_the_process(tmp_path: Path, how: str, code: str, error: str) -> None:
    """Not one that somebody has caught, nor that of a thread."""
    (tmp_path / "script.py").write_text(WATCH + code)
    assert shown(*(("-c", WATCH + code) if how == "-c" else (str(tmp_path / "script.py"),))) == error


def test_a_script_may_raise_it(tmp_path: Path) -> None:
    """Also a class derived from it, and if `sys.stderr` cannot be watched, `sys.exit` still is."""
    script = tmp_path / "script.py"
    script.write_text(WATCH + "class Left(SystemExit): pass\nraise Left(6)")
    assert shown(str(script)) == "SystemExit(6)"
    script.write_text("import sys\nsys.stderr = None" + WATCH + "sys.exit(7)")
    assert shown(str(script)) == "SystemExit(7)"


def test_unwatched_the_functions_are_the_originals_again() -> None:
    """After as many calls as of `watch`; what has been wrapped since stays."""
    code = (
        "system_exit.watch(); first = sys.exit; system_exit.unwatch(); assert sys.exit is first\n"
        "assert 'flush' in vars(sys.stderr)\n"
        "system_exit.unwatch(); assert type(sys.exit).__name__ == 'builtin_function_or_method'\n"
        "assert 'flush' not in vars(sys.stderr)\n"
        "import pickle; system_exit.watch(); assert pickle.loads(pickle.dumps(sys.exit)) is sys.exit\n"
        "print('good')"
    )
    assert shown("-c", WATCH + code).startswith("good")
