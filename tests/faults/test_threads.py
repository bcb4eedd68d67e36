"""Threads, forks, signal handlers, finalizers and the last breath of the interpreter."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from pathlib import Path

import pytest

import chiplog

from . import reference
from .harness import PATIENCE, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)

# A trainer that hangs says where, and ends.
WATCHED = "import faulthandler; faulthandler.dump_traceback_later(40, exit=True)\n"


def test_a_hundred_threads_lose_nothing_and_keep_their_order(tmp_path: Path) -> None:
    """100 threads log 200 rows each as fast as they can: all are there, once, and each thread's in its order."""
    threads, rows = 100, count(200, 2000)
    code = (
        WATCHED
        + f"""
run = init()
sys.setswitchinterval(1e-5)
ready = threading.Barrier({threads})
def work(name):
    ready.wait()
    for n in range({rows}):
        run.log({{f"t{{name}}": n}}, step=n)
workers = [threading.Thread(target=work, args=(name,)) for name in range({threads})]
for one in workers: one.start()
for one in workers: one.join()
"""
    )
    with trainer(tmp_path, code) as busy:
        assert busy.wait(60) == 0, busy.said
        by_thread: dict[str, list[int]] = {}
        for row in reference.records(busy.run, "step"):
            [(name, n)] = row["metrics"].items()
            by_thread.setdefault(name, []).append(n)
        assert len(by_thread) == threads
        assert all(found == list(range(rows)) for found in by_thread.values())
        assert reference.missing(busy.run) == {(0, 1): []}


FORKS = """
run = init(durability={durability!r})
stop = False
logged = [0] * 4
def work(thread):
    while not stop:
        run.log({{f"t{{thread}}": logged[thread]}}, step=logged[thread])
        logged[thread] += 1
        time.sleep(0.0002)
workers = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
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
        assert parent.wait(90) == 0, parent.said
        rows = [row["metrics"] for row in reference.records(parent.run, "step")]
        assert not [row for row in rows if "child" in row]
        assert len(rows) == parent.acked
        assert len({str(row) for row in rows}) == len(rows)
        assert reference.missing(parent.run) == {(0, 1): []}
        assert "forked process" in parent.said
        assert chiplog.read(parent.run).state == "finished"


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


def test_a_pickled_run_keeps_nothing_and_raises_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A run that was pickled to another process is inert there and says so once."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    copy = pickle.loads(pickle.dumps(run))
    for n in range(3):
        copy.log({"copy": n}, step=n)
    copy.event("copy", n=1)
    assert copy.flush()
    assert copy.finish()
    run.log({"mine": 1}, step=0)
    run.finish()
    assert reference.series(run.dir, "copy") == []
    assert reference.series(run.dir, "mine") == [1]
    assert capfd.readouterr().err.count("copy of the run") == 1


def _use(run: chiplog.Run) -> None:
    run.log({"spawned": 1}, step=0)
    run.finish()


@pytest.mark.skipif(sys.platform == "win32", reason="spawned on every platform but this one")
def test_a_spawned_worker_gets_an_inert_run(tmp_path: Path) -> None:
    """A run handed to a spawned process crashes nothing there and leaves the parent's journal alone."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    worker = multiprocessing.get_context("spawn").Process(target=_use, args=(run,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    run.finish()
    assert reference.series(run.dir, "spawned") == []
    worker.close()


REENTRANT = {
    "from __del__": """
class Leak:
    def __init__(self): self.me = self
    def __del__(self): log("del")
for _ in range({n}):
    Leak()
    log("main")
""",
    "from a weakref callback": """
import weakref
class Thing: pass
for _ in range({n}):
    thing = Thing()
    weakref.finalize(thing, log, "finalize")
    log("main")
del thing
""",
    "from a signal handler": """
signal.signal(signal.SIGALRM, lambda *_: log("signal"))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for _ in range({n} * 5):
    log("main")
signal.setitimer(signal.ITIMER_REAL, 0)
""",
    "from a logging handler": """
import logging
class Handler(logging.Handler):
    def emit(self, record): log("handler")
logging.basicConfig(handlers=[Handler()], level=0)
for n in range({n}):
    logging.info("step %d", n)
    log("main")
""",
    "from a stdout wrapper": """
class Out:
    def write(self, text): log("stdout")
    def flush(self): log("stdout")
sys.stdout = sys.stderr = Out()
for _ in range({n}):
    print("x")
    log("main", [1, 2])
sys.stdout = sys.__stdout__; sys.stderr = sys.__stderr__
""",
}


@pytest.mark.parametrize("durability", ["process", "relaxed"])
@pytest.mark.parametrize("way", REENTRANT)
def test_log_may_be_called_from_anywhere(tmp_path: Path, way: str, durability: str) -> None:
    """Finalizers, signal and logging handlers may log while a log is under way, the collector at its busiest."""
    code = (
        WATCHED
        + f"""
run = init(durability={durability!r})
gc.set_threshold(1)
counts = {{}}
import itertools
total = itertools.count(1)
def log(name, value=1.0):
    run.log({{name: value}})
    next(total)
{REENTRANT[way].format(n=count(1000, 10_000))}
gc.set_threshold(1000)
gc.collect()
assert run.flush()
ack(next(total) - 1)
"""
    )
    with trainer(tmp_path, code) as deep:
        assert deep.wait(60) == 0, deep.said
        found = reference.records(deep.run)
        assert len([one for one in found if one["log"] in ("step", "text")]) == deep.acked
        assert reference.missing(deep.run) == {(0, 1): []}


def test_a_signal_handler_may_log_values_on_a_device(tmp_path: Path) -> None:
    """A handler that logs a device value while the main thread does the same never waits for itself."""
    code = (
        WATCHED.replace("40", "12")
        + """
run = init()
class Cuda:
    type = "cuda"
class Tensor:
    device, dtype, shape = Cuda(), "float32", ()
    def detach(self): return self
    def to(self, *_, **__): return self
    def item(self): return 1.0
signal.signal(signal.SIGALRM, lambda *_: run.log({"signal": Tensor()}))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
until = time.monotonic() + 2
while time.monotonic() < until:
    run.log({"main": Tensor()})
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    )
    with trainer(tmp_path, code) as deep:
        assert deep.wait(30) == 0, deep.said


LAST_BREATH = {
    "atexit before init": "atexit.register(lambda: log()); run = init()",
    "atexit after init": "run = init(); atexit.register(lambda: log())",
    "__del__ of a module's object": "run = init()\nclass Last:\n    def __del__(self): log()\nlast = Last()",
    "a thread that outlives main": """
run = init()
def work():
    for _ in range(100): log(); time.sleep(0.001)
threading.Thread(target=work).start()
""",
    "a daemon thread": """
run = init()
def work():
    while True: log()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
    "a generator left open": """
run = init()
def steps():
    try: yield
    finally: log()
it = steps(); next(it)
""",
    "without finish, then gone": "run = init(); log(); del run",
}


@pytest.mark.parametrize("way", LAST_BREATH)
def test_logging_at_the_end_of_the_interpreter_is_quiet(tmp_path: Path, way: str) -> None:
    """Whatever still logs while the interpreter goes down: no traceback, no hang, exit code 0, a finished run."""
    code = WATCHED + f"def log():\n    if globals().get('run'): run.log({{'i': 1}})\n{LAST_BREATH[way]}\n"
    with trainer(tmp_path, code) as ending:
        assert ending.wait(20) == 0, ending.said
        assert "Traceback" not in ending.said
        assert "Exception ignored" not in ending.said
        assert chiplog.read(ending.run).state == "finished"
