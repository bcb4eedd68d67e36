"""Forked, spawned and pickled: a run in processes that are not its own."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chiplog

from . import reference
from .harness import PATIENCE, WATCHED, Trainer, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)


FORKS = """
run = init(durability={durability!r})
stop = False
logged = [0] * 4
def work(thread):
    while not stop:
        run.log({{f"t{{thread}}": logged[thread]}}, step=logged[thread])
        logged[thread] += 1
        time.sleep(0.0002)
workers = [threading.Thread(target=work, args=(thread,), daemon=True) for thread in range(4)]
for one in workers: one.start()

def child():
    for n in range(20):
        run.log({{"child": n}}, step=n)
        run.event("child", n=n)
        with run.span("child"): pass
    assert run.flush() and run.finish()
    chiplog.finish()

{forks}
stop = True
for one in workers: one.join()
ack(sum(logged))
"""

FORKINGS = {
    "fork": """
for n in range({count}):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        child()
        os._exit(7)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7, (n, status)
""",
    "multiprocessing": """
import multiprocessing
context = multiprocessing.get_context("fork")
for n in range({count}):
    process = context.Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0, (n, process.exitcode)
""",
    "killed": """
for n in range({count}):
    pid = os.fork()
    if pid == 0:
        child()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
""",
}


@pytest.mark.parametrize("durability", ["process", "relaxed"])
@pytest.mark.parametrize("way", FORKINGS)
def test_a_forked_child_hangs_nobody_and_writes_nothing(tmp_path: Path, way: str, durability: str) -> None:
    """Forked while four threads log, a child that logs and finishes returns at once; the parent's journal is whole."""
    code = WATCHED + FORKS.format(durability=durability, forks=FORKINGS[way].format(count=count(40, 300)))
    with trainer(tmp_path, code) as parent:
        check_parent(parent, count(90, 1200))


def check_parent(parent: Trainer, patience: float) -> None:
    """It ends well, its journal has all it logged, once, and nothing of its children, who were told so."""
    assert parent.wait(patience) == 0, parent.said
    rows = [row["metrics"] for row in reference.records(parent.run, "step")]
    assert not [row for row in rows if "child" in row]
    assert len(rows) == parent.acked
    assert len({str(row) for row in rows}) == len(rows)
    assert reference.missing(parent.run) == {(0, 1): []}
    assert "forked process" in parent.said
    assert chiplog.read(parent.run).state == "finished"


LOADER = """
import random, torch
from torch.utils.data import DataLoader, Dataset

def held():
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # another thread has closed it
            pass
    return paths

class Data(Dataset):
    def __init__(self, way):
        self.way = way
    def __len__(self):
        return 8
    def __getitem__(self, n):
        if self.way == "logs":
            run.log({"child": n}, step=n)
            run.finish()
        if self.way == "killed" and n == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        assert not [path for path in held() if "/journal/" in path], held()
        return n

def epoch(way):
    loader = DataLoader(Data(way), num_workers=4, multiprocessing_context="fork", timeout=30)
    try:
        assert [int(n) for batch in loader for n in batch] == list(range(8))
    except RuntimeError:  # "DataLoader worker is killed by signal", or "exited unexpectedly"
        if way != "killed":
            raise
"""


def test_workers_of_a_data_loader_hang_nobody(tmp_path: Path) -> None:
    """Four workers are forked at random moments while four threads log; they end, log, finish or are killed.

    The parent's journal is whole, and no worker holds a file of it open.
    """
    epochs = """
chance = random.Random({seed})
for n in range({epochs}):
    time.sleep(chance.uniform(0, 0.02))
    epoch(["ends", "logs", "killed"][n % 3])
"""
    forks = LOADER + epochs.format(seed=count(1, 2), epochs=count(9, 75))
    code = WATCHED + FORKS.replace("{forks}", "FORKS_HERE").format(durability="process").replace("FORKS_HERE", forks)
    with trainer(tmp_path, code) as parent:
        check_parent(parent, count(100, 1200))


def test_forks_from_a_second_thread_find_no_lock_held(tmp_path: Path) -> None:
    """A second thread forks in a loop while the main thread logs: the child's log() returns at once every time."""
    times = count(200, 5000)
    code = (
        WATCHED
        + f"""
run = init()
read, write = os.pipe()
failed = []
def fork():
    for n in range({times}):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            before = time.perf_counter_ns()
            run.log({{"child": n}}, step=n)
            os.write(write, b"%d " % (time.perf_counter_ns() - before))
            os._exit(7)
        status = os.waitpid(pid, 0)[1]
        if os.waitstatus_to_exitcode(status) != 7:
            failed.append((n, status))
forking = threading.Thread(target=fork, daemon=True)
forking.start()
n = 0
took = b""
os.set_blocking(read, False)
def read_all():
    global took
    try:
        took += os.read(read, 1 << 16)
    except BlockingIOError:
        pass
while forking.is_alive():
    run.log({{"t0": n}}, step=n)
    n += 1
    read_all()
    time.sleep(0.0002)
read_all()
ack(n)
assert not failed, failed[:10]
took = sorted(map(int, took.split()))
assert len(took) == {times}
with open("took", "w") as file:
    file.write(f"median {{took[len(took) // 2] / 1e3:.0f}} us, 99% {{took[len(took) * 99 // 100] / 1e3:.0f}} us, most {{took[-1] / 1e3:.0f}} us")
assert took[len(took) // 2] < 5e6 and took[-1] < 5e9, took[-10:]
"""
    )
    with trainer(tmp_path, code) as parent:
        check_parent(parent, count(100, 1200))
        print(times, "forks, log() in the child:", (tmp_path / "took").read_text())


def test_a_forked_child_may_open_a_journal_of_its_own(tmp_path: Path) -> None:
    """attach() in a child gives it an attempt beside the parent's; nothing of either is lost."""
    code = (
        WATCHED
        + """
run = init()
run.log({"parent": 0}, step=0)
pid = os.fork()
if pid == 0:
    mine = chiplog.attach(run.dir)
    for n in range(50):
        mine.log({"child": n}, step=n)
    mine.finish()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
run.log({"parent": 1}, step=1)
"""
    )
    with trainer(tmp_path, code) as parent:
        assert parent.wait() == 0, parent.said
        assert reference.series(parent.run, "child") == list(range(50))
        assert reference.series(parent.run, "parent") == [0, 1]
        assert chiplog.read(parent.run).series("child").exact == list(range(50))


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda run: pickle.loads(pickle.dumps(run)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copied_run_keeps_nothing_and_raises_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    """A run that was pickled or copied is inert and says so once."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    copied = COPIES[way](run)
    for n in range(3):
        copied.log({"copy": n}, step=n)
    copied.event("copy", n=1)
    assert copied.flush()
    assert copied.finish()
    run.log({"mine": 1}, step=0)
    run.finish()
    assert reference.series(run.dir, "copy") == []
    assert reference.series(run.dir, "mine") == [1]
    assert capfd.readouterr().err.count("copy of the run") == 1


def _use(run: chiplog.Run) -> None:
    run.log({"spawned": 1}, step=0)
    run.finish()


def _attach(path: str, name: str) -> None:
    with chiplog.attach(path) as mine:
        for n in range(50):
            mine.log({name: n}, step=n)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_spawned_worker_gets_an_inert_run(tmp_path: Path, method: str) -> None:
    """A run handed to another process crashes nothing there and leaves the parent's journal alone."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    assert work(method, (_use, run)) == [0]
    run.finish()
    assert reference.series(run.dir, "spawned") == []


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_workers_may_open_journals_of_their_own(tmp_path: Path, method: str) -> None:
    """attach() gives each worker an attempt beside the parent's; nothing is lost, and the parent decides the state."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    run.log({"mine": 1}, step=0)
    assert work(method, (_attach, run.dir, "one"), (_attach, run.dir, "two")) == [0, 0]
    assert chiplog.read(run.dir).state == "running"
    run.finish()
    stored = chiplog.read(run.dir)
    assert stored.state == "finished"
    for name in ("one", "two"):
        assert reference.series(run.dir, name) == stored.series(name).exact == list(range(50))
    assert stored.series("mine").exact == [1]


def work(method: str, *tasks: tuple[Any, ...]) -> list[int | None]:
    """Do each task in a process of its own; their exit codes."""
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=task[0], args=task[1:]) for task in tasks]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    codes = [worker.exitcode for worker in workers]
    for worker in workers:
        worker.close()
    return codes
