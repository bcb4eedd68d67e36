"""Whether a process is still running."""

from __future__ import annotations

import os
import subprocess
import sys

from chiplog.store.runs import liveness


def test_this_process_is_alive_if_it_is_the_one_that_started_then() -> None:
    """A process id may be used again by another process."""
    born = liveness.born(os.getpid())
    assert born > 0
    assert liveness.alive(os.getpid(), born) and liveness.alive(os.getpid(), 0)
    assert not liveness.alive(os.getpid(), born + 1)


def test_a_process_that_ended_is_not_alive() -> None:
    """Neither as a zombie nor after its parent has waited for it."""
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not liveness.alive(child.pid, 0), "a zombie"
    child.wait()
    child.stdout.close()
    assert not liveness.alive(child.pid, 0) and liveness.born(child.pid) == 0


def test_a_machine_has_a_name_and_a_boot() -> None:
    """Both tell whether a process can be one of this machine."""
    assert liveness.hostname() and liveness.boot_id() == liveness.boot_id()
