"""`chiplog run`: a command is recorded, or runs with a stand-in for its tracker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.core.records import Event
from tests.support.terminal import rows_of
from tests.support.waiting import wait_for

RUN = [sys.executable, "-m", "chiplog", "run"]


def call(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *words], env={**os.environ, **more}, capture_output=True, text=True, timeout=90, check=False
    )


def python(code: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code)


def test_a_command_without_logging_has_a_run() -> None:
    """Its console, its exit state and its machine are kept, and it prints as before."""
    done = call("--project", "p", "--name", "n", *python("import sys; print('out'); print('err', file=sys.stderr)"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    stored = chiplog.read("p")
    assert {(line.text, line.stream) for line in stored.console()} == {("out", "stdout"), ("err", "stderr")}
    assert (stored.state, stored.name) == ("finished", "n")
    assert stored.environment["host"] and "print" in stored.config["command"]
    assert any(isinstance(record, Event) and record.name == "host" for record in stored.records("event"))


@pytest.mark.parametrize(
    ("code", "returned", "state"),
    [
        ("raise SystemExit(3)", 3, "failed"),
        ("1 / 0", 1, "failed"),
        ("import os; os.kill(os.getpid(), 9)", 137, "failed"),
        ("import os; os.kill(os.getpid(), 15)", 143, "interrupted"),
    ],
)
def test_the_exit_state_is_that_of_the_command(code: str, returned: int, state: str) -> None:
    """Its code is passed on, and is the state of the run."""
    assert call(*python(code)).returncode == returned
    assert chiplog.read().state == state


def test_a_signal_is_passed_on(tmp_path: Path) -> None:
    """SIGTERM reaches the command, which may end in its own way."""
    code = "import signal, time, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('ready', flush=True)\ntime.sleep(60)"
    with subprocess.Popen([*RUN, *python(code)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 5
    assert chiplog.read().state == "failed"


def test_output_arrives_while_the_command_runs(tmp_path: Path) -> None:
    """A line is in the run before the command ends."""
    process = subprocess.Popen(
        [*RUN, *python("print('early'); input()")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    wait_for(
        lambda: (
            list((tmp_path / "runs").glob("*/*/journal/*.jsonl"))
            and [line.text for line in chiplog.read().console()] == ["early"]
        )
    )
    process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


def test_a_terminal_stays_a_terminal(tmp_path: Path) -> None:
    """A command on a terminal sees one of the same width, so that its progress bars look as before."""
    code = "import os, sys; print(sys.stdout.isatty(), sys.stderr.isatty(), os.get_terminal_size(1).columns)"
    rows = rows_of([*RUN, *python(code)], tmp_path, columns=77)
    assert rows[0] == "True True 77"
    assert [line.text for line in chiplog.read().console()] == ["True True 77"]


def test_a_stand_in_is_inherited(tmp_path: Path) -> None:
    """A script and its children import the stand-in, with its metadata; nothing else changes for them."""
    (tmp_path / "train.py").write_text(
        "import importlib.metadata, importlib.util, subprocess, sys\n"
        "import wandb\n"
        "from wandb.sdk.lib import RunDisabled\n"
        "import wandb.errors, wandb.util, wandb.sdk.wandb_run\n"
        "assert importlib.util.find_spec('wandb') is not None\n"
        "assert importlib.metadata.version('wandb') == wandb.__version__\n"
        "run = wandb.init(project='p', name=sys.argv[1])\n"
        "wandb.log({'loss': 1.5})\n"
        "wandb.finish()\n"
        "if sys.argv[1] == 'parent':\n"
        "    subprocess.run([sys.executable, 'train.py', 'child'], check=True)\n"
    )
    done = call("--as", "wandb", "--", sys.executable, "train.py", "parent")
    assert done.returncode == 0, done.stderr
    assert {run.name for run in chiplog.runs("runs", "p")} == {"parent", "child"}


def test_the_real_package_is_an_error_before_training(tmp_path: Path) -> None:
    """A Python that would import the real one, or has at its start, does not start the script."""
    (tmp_path / "train.py").write_text("open('started', 'w').close()")
    done = call("--as", "wandb", "--", sys.executable, "-E", "train.py")
    assert done.returncode == 2 and "would import the real 'wandb'" in done.stderr
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys\nsys.path = [one for one in sys.path if 'stand_ins' not in one]\nimport wandb\n"
    )
    done = call("--as", "wandb", "--", sys.executable, "train.py", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 2 and "chiplog.mirror('wandb')" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no command to run"),
        (("--",), "no command to run"),
        (("--", "no-such-program"), "no command 'no-such-program'"),
        (("--as", "abacus", "--", "true"), "no stand-in for 'abacus'; available: tensorboard, wandb"),
    ],
)
def test_mistakes_are_explained(words: tuple[str, ...], message: str) -> None:
    """In one line, with exit code 2, and without a run."""
    done = call(*words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert not Path("runs").exists()
