"""Threads, floods, signal handlers, finalizers and the last breath of the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog

from . import reference
from .harness import PATIENCE, WATCHED, count, trainer
from .ledger import Ledger

pytestmark = pytest.mark.timeout(PATIENCE)


def test_many_threads_lose_nothing_and_keep_their_order(tmp_path: Path) -> None:
    """100 threads (1,000 in full) log as fast as they can: all is there, once, and each thread's in its order."""
    threads, rows = count(100, 1000), count(200, 1000)
    code = (
        WATCHED
        + f"""
run = init()
sys.setswitchinterval(1e-5)
ready = threading.Barrier({threads})
def work(name):
    ready.wait()
    for n in range({rows}):
        run.log({{f"t{{name}}": n, "x": n / 7}}, step=n)
workers = [threading.Thread(target=work, args=(name,)) for name in range({threads})]
for one in workers: one.start()
for one in workers: one.join()
"""
    )
    with trainer(tmp_path, code) as busy:
        assert busy.wait(count(60, 1200)) == 0, busy.said
        ledger = Ledger(busy.run)
        ledger.read()
        account = ledger.accounts[0, 1]
        assert account.absent([rows - 1] * threads) == 0
        assert account.kept == threads * rows
        assert account.holes == 0
        account.check_order()
        stored = chiplog.read(busy.run)
        assert stored.series(f"t{threads - 1}").exact == list(range(rows))


@pytest.mark.parametrize("durability", ["process", "relaxed"])
def test_a_flood_takes_bounded_memory_and_every_drop_is_counted(tmp_path: Path, durability: str) -> None:
    """Eight threads log 160,000 rows (a million in full) as fast as they can: at most 96 MiB more, and no row unsaid."""
    rows = count(20_000, 125_000)
    code = (
        WATCHED
        + f"""
def memory(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) // 1024
run = init(durability={durability!r})
def work(thread):
    for n in range({rows}):
        run.log({{f"t{{thread}}": n, "x": n / 7, **{{name: n / 3 for name in "abcdefgh"}}}}, step=n)
workers = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # reset the peak
base = memory("VmRSS")
for one in workers: one.start()
for one in workers: one.join()
ack(memory("VmHWM") - base)
"""
    )
    with trainer(tmp_path, code) as flooding:
        assert flooding.wait(count(60, 600)) == 0, flooding.said
        ledger = Ledger(flooding.run)
        ledger.read()
        account = ledger.accounts[0, 1]
        print(f"{durability}: {flooding.acked} MiB more, {account.kept:,} rows kept, {account.holes:,} dropped")
        assert flooding.acked <= 96
        assert account.finish is not None
        assert account.finish.get("missing", 0) == account.holes
        assert account.absent([rows - 1] * 8) <= account.holes
        assert account.kept + account.absent([rows - 1] * 8) == 8 * rows
        account.check_order()
        if durability == "process":  # the disk is quick, so nothing waits for it
            assert account.holes == 0


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
{REENTRANT[way].format(n=count(1000, 50_000))}
gc.set_threshold(1000)
gc.collect()
assert run.flush()
ack(next(total) - 1)
"""
    )
    with trainer(tmp_path, code) as deep:
        assert deep.wait(count(60, 1200)) == 0, deep.said
        found = reference.records(deep.run)
        assert len([one for one in found if one["log"] in ("step", "text")]) == deep.acked
        assert reference.missing(deep.run) == {(0, 1): []}


def test_a_signal_handler_may_log_values_on_a_device(tmp_path: Path) -> None:
    """A handler that logs a device value while the main thread does the same never waits for itself."""
    code = (
        WATCHED
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
        assert deep.wait() == 0, deep.said


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
    "the end of threading": "run = init(); threading._register_atexit(log)",
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
