"""Whether a process is still running."""

from __future__ import annotations

import os
import subprocess
import sys

from msgspec.structs import replace

from chiplog.sinks.shared.lease import Holder
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


def test_a_pid_of_another_machine_boot_or_namespace_tells_nothing() -> None:
    """Only the heartbeat does; fields that an older version did not write are left out."""
    pid = os.getpid()
    me = Holder(liveness.hostname(), pid, liveness.born(pid), "", liveness.boot_id(), liveness.pid_namespace())
    assert liveness.is_alive(me) is True
    assert liveness.is_alive(replace(me, boot="", pid_namespace=0)) is True
    assert liveness.is_alive(replace(me, born=me.born + 1)) is False
    for other in (replace(me, host="x"), replace(me, boot="x"), replace(me, pid_namespace=me.pid_namespace + 1)):
        assert liveness.is_alive(other) is None
