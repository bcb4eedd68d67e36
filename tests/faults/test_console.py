"""What is printed: nothing about it may hold up, break or fill the training it belongs to."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path

import pytest

import chiplog

from . import reference
from .harness import PATIENCE, WATCHED, count, trainer

pytestmark = pytest.mark.timeout(PATIENCE)

BUSY = 1.0  # s that the keeper may wait for a processor where others are at work too

STEADY = """
run = init(capture=True)
n = 0
while True:
    at = time.monotonic_ns() // 1_000_000
    print("line", n, at)
    ack(n * 10**12 + at)
    n += 1
    time.sleep(0.002)
"""


def lines(run: Path, *, killed: bool = False) -> list[str]:
    """Every line that has ended, which both readers must agree on."""
    by_reference = [
        text
        for record in reference.records(run, "console")
        for at, text in enumerate(record["lines"])
        if at not in record.get("open", ())
    ]
    found = [line.text for line in chiplog.read(run).console()]
    assert found[: len(by_reference)] == by_reference and len(found) - len(by_reference) <= 2
    (journal,) = (run / "journal").glob("*.jsonl")
    # A batch of lines is larger than a page, so that a kill may come when it is half written.
    assert [end for _, end in reference.damage(run)] in ([], [journal.stat().st_size] if killed else [])
    return found


def test_a_kill_costs_the_lines_of_half_a_second(tmp_path: Path) -> None:
    """At a random moment, the whole tree; what was printed before is there, in order, once."""
    for turn in range(count(3, 100)):
        with trainer(tmp_path / str(turn), STEADY) as victim:
            victim.until_acked(20 * 10**12)
            time.sleep(random.uniform(1.2, 2.1))
            victim.kill_tree()
            kept = [line.split() for line in lines(victim.run, killed=True)]
            assert [int(n) for _, n, _ in kept] == list(range(len(kept)))
            lost = (victim.acked % 10**12 - int(kept[-1][2])) / 1000
            assert lost <= 0.5 + BUSY, f"{lost:.2f} s"
            print(f"{lost:.2f} s of lines lost")
            assert chiplog.read(victim.run).state == "killed"


def test_after_flush_a_kill_costs_nothing(tmp_path: Path) -> None:
    """Not even the line that is not ended."""
    code = """
    run = init(capture=True)
    print("one")
    sys.stderr.write("half of a line")
    run.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    with trainer(tmp_path, code) as victim:
        assert victim.wait() == -9
        assert [(line.text, line.stream) for line in chiplog.read(victim.run).console()] == [
            ("one", "stdout"),
            ("half of a line", "stderr"),
        ]


FLOOD = """
import json
run = init(capture=True)
for _ in range({warm}):
    run.log({{"x": 1.0}})
took, cpu = [], []
for turn in range({turns}):
    longest = busy = 0.0
    for n in range({each}):
        began, used = time.perf_counter(), time.thread_time()
        {write}
        longest, busy = max(longest, time.perf_counter() - began), max(busy, time.thread_time() - used)
    took.append(longest)
    cpu.append(busy)
print("\\nthe end of it", flush=True)
run.finish()
with open("/proc/self/status") as status:  # getrusage would count what the process that started this one had
    most = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
with open("took", "w") as file:
    json.dump({{"took": took, "cpu": cpu, "kib": most}}, file)
"""


@pytest.mark.parametrize(
    ("write", "each", "mark"),
    [
        ('sys.stdout.write("no newline here, ")', 2_000, r"… [\d,]+ characters not kept"),
        ('print("step", n, "of very many, as fast as it goes")', 1_000, r"… [\d,]+ lines not kept"),
        ('sys.stdout.buffer.write(b"\\x00\\xff\\xfe\\x1b[2J" * 20)', 2_000, r"… [\d,]+ characters not kept"),
        ('sys.stdout.write("x" * 12_000_000)', 1, r"… \[11,934,464 characters cut\]"),
    ],
    ids=["no newline", "lines", "binary", "12 MB at once"],
)
def test_a_flood_never_holds_up_a_print(write: str, each: int, mark: str, tmp_path: Path) -> None:
    """Marked where it was cut, bounded in memory and on disk; the end of it is there; no print takes 20 ms for it."""
    with trainer(tmp_path, WATCHED + FLOOD.format(write=write, each=each, turns=count(20, 400), warm=10)) as flood:
        assert flood.wait(PATIENCE) == 0, flood.said
        said = json.loads((tmp_path / "took").read_text())
        found = lines(flood.run)
        assert re.search(mark, "\n".join(found))
        assert found[-1] == "the end of it"
        assert max(map(len, found)) < 9000
        if "12_000_000" not in write:  # which takes longer without us too
            assert max(said["cpu"]) < 0.02 and min(said["took"]) < 0.02, said  # a turn that others did not disturb
        size = sum(path.stat().st_size for path in (flood.run / "journal").glob("*.jsonl"))
        assert size < (8 << 20) + count(0, 64 << 20)
        assert said["kib"] < 200 << 10
        assert chiplog.read(flood.run).missing == {}


def test_forks_and_threads_that_print_disturb_nobody(tmp_path: Path) -> None:
    """Children pass through and end; the parent's lines are all there, once, and none of a child's."""
    code = (
        WATCHED
        + f"""
run = init(capture=True)
stop = threading.Event()

def chatter():
    n = 0
    while not stop.is_set():
        print(f"thread {{n}}\\n", end="")
        n += 1
        time.sleep(0.001)

thread = threading.Thread(target=chatter)
thread.start()
for n in range({count(60, 1000)}):
    pid = os.fork()
    if not pid:
        print("child", n)
        run.log({{"x": n}})
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print(f"parent {{n}}\\n", end="")  # with one write, so that no thread comes between
stop.set()
thread.join()
run.finish()
"""
    )
    with trainer(tmp_path, code) as parent:
        assert parent.wait(PATIENCE) == 0, parent.said
        found = lines(parent.run)
        for who in ("parent", "thread"):
            numbers = [int(line.split()[1]) for line in found if line.startswith(who)]
            assert numbers == list(range(len(numbers))) and numbers
        assert not [line for line in found if line.startswith("child")]


def test_every_rank_keeps_its_own(tmp_path: Path) -> None:
    """Where each has a journal; where only rank 0 has one, the others print as ever."""
    code = """
    run = init(capture=True, ranks=os.environ["WHO"], reduce=False)
    print("I am", os.environ["RANK"])
    run.finish()
    """
    for who, expected in (("all", ["I am 0", "I am 1"]), ("main", ["I am 0"])):
        folder = tmp_path / who
        for rank in ("0", "1"):
            env = {"RANK": rank, "WORLD_SIZE": "2", "CHIPLOG_RUN_ID": "launch", "WHO": who}
            with trainer(folder, code, env=env) as one:
                assert one.wait() == 0, one.said
        found = chiplog.read(folder / "runs" / "faults" / "run").console()
        assert sorted(line.text for line in found) == expected
        assert all(line.text == f"I am {line.rank}" for line in found)


def test_signal_handlers_and_finalizers_may_print(tmp_path: Path) -> None:
    """Whenever they come, also in the middle of a print or of a flush."""
    code = (
        WATCHED
        + f"""
run = init(capture=True)

class Loud:
    def __init__(self):
        self.me = self
    def __del__(self):
        print("gone")

def ring(*_):
    print("ring")
    run.flush()

signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
gc.set_threshold(50)
for n in range({count(2000, 50_000)}):
    Loud()
    print("main", n)
    if n % 50 == 0:
        run.flush()
signal.setitimer(signal.ITIMER_REAL, 0)
run.finish()
"""
    )
    with trainer(tmp_path, code) as run:
        assert run.wait(PATIENCE) == 0, run.said
        found = lines(run.run)
        assert any("ring" in line for line in found) and any("gone" in line for line in found)
