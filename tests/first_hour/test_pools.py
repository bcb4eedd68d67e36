"""Pools of processes that log to the run of their parent, as the message of a forked run advises."""

from __future__ import annotations

import json

from tests.first_hour.environment import Environment

POOLS = """
import chiplog, multiprocessing, sys

def each(dir, task):
    chiplog.attach(dir).log({"task": float(task)}, step=task)

def once(task):
    chiplog.log({"task": float(task)}, step=task)

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        for way in ("each", "once"):
            run = chiplog.init("pools", f"{method}-{way}", sinks="none")
            run.log({"loss": 1.0}, step=0)
            context = multiprocessing.get_context(method)
            if way == "each":
                with context.Pool(2) as pool:
                    pool.starmap(each, [(run.dir, task) for task in range(8)], chunksize=1)
            else:
                with context.Pool(2, initializer=chiplog.attach, initargs=(run.dir,)) as pool:
                    pool.map(once, range(8), chunksize=1)
            run.log({"loss": 0.5}, step=1)
            run.finish()
"""


def test_workers_of_a_pool_are_parts_of_one_attempt(read: Environment) -> None:
    """Spawned and forked, attached in each task or once per process: nothing is lost, killed or written twice."""
    done = read.python(POOLS)
    assert done.stderr == ""
    for name in ("spawn-each", "spawn-once", "fork-each", "fork-once"):
        shown = json.loads(read.chiplog("show", name, "--json").stdout)
        (attempt,) = shown["attempts"]
        assert (shown["state"], attempt["state"], shown["two_writers"]) == ("finished", "finished", [])
        assert 1 <= len(attempt["workers"]) <= 2, attempt
        assert {worker["state"] for worker in attempt["workers"]} <= {"finished", "ended"}
        assert shown["series"]["task"]["points"] == 8 and shown["series"]["loss"]["points"] == 2
    listed = json.loads(read.chiplog("ls", "--json").stdout)
    assert {one["metrics"]["loss"] for one in listed} == {0.5}  # logged by the parent, after its workers
    assert all("task" in one["metrics"] for one in listed) and {one["step"] for one in listed} == {7}
    text = read.chiplog("show", "fork-once").stdout
    assert "workers" in text and "killed" not in text
    assert "killed" not in read.chiplog("doctor", "spawn-each").stdout


UNATTACHED = """
import chiplog, multiprocessing

def task(number):
    chiplog.log({"task": number})
    return number

if __name__ == "__main__":
    run = chiplog.init("pools")
    for method in ("fork", "fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(task, range(8), chunksize=1) == list(range(8))
    run.log({"loss": 1.0})
"""


def test_workers_that_have_not_attached_disturb_nobody(read: Environment) -> None:
    """What they log is not kept. That is said once for all that were forked, and once by each that was spawned."""
    done = read.python(UNATTACHED)
    assert "finished" in done.stdout and "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert 1 <= sum("this is a forked process" in line for line in lines) <= 2, lines  # two at the same moment
    assert 1 <= sum("this worker process has joined no run" in line for line in lines) <= 2, lines
    assert all("chiplog.attach(" in line for line in lines)
