"""The N-th system call on the journal fails, once or for good, in every way a disk can fail."""

from __future__ import annotations

import random
import re
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import pytest

import chiplog

from . import reference
from .harness import FULL, PATIENCE, Trainer, trainer, wait_for
from .injection import SEGMENTS, failing, injected, segments, strace

pytestmark = pytest.mark.timeout(PATIENCE)

RECORDS = 120

# After every record the keeper has a turn. Where the border between segments is what is tested, each turn begins the
# next segment: opened, duplicated over the old one, which is synced and closed. Under strace on a busy machine a write
# may look slow, and would be handed to the keeper; that is another test. The last words on stderr are how many `seq`
# numbers were given out.
TRAIN = """
from chiplog.store import journal

durability, call, pause = sys.argv[3], sys.argv[4], int(sys.argv[5])
journal.BEAT, journal.SLOW = 0.0, 1 << 60
if call != "write":
    journal.SEGMENT_BYTES = 1
run = init(durability=durability)
turns = 0

def turn():
    global turns
    turns += 1
    return 60.0

def wait_for_turn():
    before, patience = turns, time.monotonic() + 10
    run._keeper.wake()
    while turns == before and time.monotonic() < patience:
        time.sleep(0.0005)

run._keeper.add(turn)
for n in range(120):
    if n == pause:
        ack(n)
        while not os.path.exists("go"):
            time.sleep(0.001)
    run.log({"i": n}, step=n)
    wait_for_turn()
    if call == "fsync":
        run.flush(fsync=True)
    ack(n)
print("finishing", file=sys.stderr, flush=True)
run.finish()
print("given out", next(run._seq), file=sys.stderr, flush=True)
"""

ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EINTR", "EAGAIN", "ESTALE", "EROFS", "EMFILE", "ENAMETOOLONG", "EACCES")
CALLS = ("write", "fdatasync", "openat", "close", "fsync", "fcntl", "dup3", "utimensat", "%fstat")


class Case(NamedTuple):
    """From the N-th call on (or only then) it fails with an error."""

    call: str
    nth: int
    lasting: bool
    error: str
    durability: str


def pairwise(dimensions: Sequence[Sequence[object]], chance: random.Random) -> list[tuple[object, ...]]:
    """Cases in which every value of a dimension meets every value of every other one: the best of 50 each time."""

    def pairs(case: tuple[object, ...]) -> set[object]:
        return set(combinations(enumerate(case), 2))

    wanted = {pair for case in product(*dimensions) for pair in pairs(case)}
    cases = []
    while wanted:
        some = [tuple(chance.choice(list(dimension)) for dimension in dimensions) for _ in range(50)]
        cases.append(max(some, key=lambda case: len(wanted & pairs(case))))
        wanted -= pairs(cases[-1])
    return cases


BANDS = ((1, 1), (2, 2), (3, 3), (4, 6), (7, 10), (11, 20), (21, 35), (36, 60), (61, 80), (81, 100))
DURABILITIES = ("process", "disk")
FEW = 150


def some_cases() -> list[Case]:
    """Every pair of values of two dimensions, and a few more; always the same ones."""
    chance = random.Random(2026)
    dimensions = (CALLS, BANDS, (False, True), ERRORS, DURABILITIES)
    chosen = pairwise(dimensions, chance)
    chosen += [tuple(chance.choice(list(one)) for one in dimensions) for _ in range(FEW - len(chosen))]
    return [Case(call, chance.randint(*band), *rest) for call, band, *rest in chosen]  # type: ignore[misc]


def all_cases() -> list[Case]:
    """Every N for the calls that each journal makes all the time, every tenth for the others."""
    often = product(CALLS[:4], range(1, 101), (False, True), ERRORS)
    rarely = product(CALLS[4:], range(1, 101, 10), (False, True), ERRORS)
    return [Case(*case, DURABILITIES[case[1] % 2]) for case in (*often, *rarely)]


NO_GIT = {"PATH": "/nowhere"}  # a start of git under strace would cost more than the case


def run_case(folder: Path, case: Case) -> str:
    """What went wrong in a case, if anything; `not reached` when the call was never made so often."""
    paths = segments(folder, SEGMENTS)
    words = case.durability, case.call, str(case.nth if case.lasting else -1)
    if case.lasting:
        # No call is interrupted for ever, and the interpreter makes it again until it is not: fifty times, then.
        fault = f"error={case.error}:when={'1..50' if case.error == 'EINTR' else '1+'}"
        with trainer(folder, TRAIN, *words, env=NO_GIT) as victim:
            victim.until_acked(case.nth)
            with failing(victim, folder, case.call, fault, paths):
                (folder / "go").touch()
                victim.wait()
    else:
        under = strace(folder, case.call, f"error={case.error}:when={case.nth}", paths)
        with trainer(folder, TRAIN, *words, under=(*under, "--seccomp-bpf"), env=NO_GIT) as victim:
            victim.wait()
    return judge(victim, case) if injected(folder) else "not reached"


def judge(victim: Trainer, case: Case) -> str:
    """What is wrong with what a trainer left behind."""
    code, said = victim.wait(), victim.said
    found = reference.records(victim.run)
    kept = reference.series(victim.run, "i")
    stored = chiplog.read(victim.run)
    given = int(said.rpartition("given out ")[2].strip() or -1) if "given out" in said else -1
    lasting = case.lasting and case.error != "EINTR"
    loses = lasting and case.call == "write"
    ours = [line for line in said.splitlines() if line.startswith("chiplog: ")]
    before_the_end = [line for line in said.partition("finishing")[0].splitlines() if line.startswith("chiplog: ")]
    truths = {
        "the exit code is that of the training": code == 0 and "Traceback" not in said,
        "nothing is there twice": len({record["seq"] for record in found}) == len(found),
        "no value is wrong": kept == [row["step"] for row in reference.records(victim.run, "step")],
        "no record is lost": loses or kept == list(range(RECORDS)),
        "what was written before is kept": kept[: case.nth] == list(range(RECORDS))[: case.nth],
        "the loss is counted": missing_said(said) == given - len(found),
        "nothing is torn": not stored.damage and not reference.damage(victim.run),
        "the state is right": stored.state == ("killed" if loses else "finished"),
        "one fault costs one border": case.lasting
        or case.call == "write"
        or len(segments_of(victim.run)) > RECORDS - 5,
        "it is said at once": len(before_the_end) == 1 or not lasting or case.call == "close",
        "it is said once": len(ours)
        <= 1 + (case.call == "write"),  # and that it can be written again, or what is missing
    }
    wrong = [truth for truth, holds in truths.items() if not holds]
    return f"{case}: not so: {', '.join(wrong)}; it said: {said}" if wrong else ""


def missing_said(said: str) -> int:
    found = re.search(r"chiplog: ([\d,]+) records of run run are missing", said)
    return int(found[1].replace(",", "")) if found else 0


def segments_of(run: Path) -> list[Path]:
    return list((run / "journal").glob("*.jsonl"))


@pytest.mark.parametrize("call", CALLS)
def test_the_nth_call_fails_once_or_for_good(tmp_path: Path, call: str) -> None:
    """Training never notices: a fault that passes costs nothing, one that stays is said once and its loss counted."""
    cases = [case for case in (all_cases() if FULL else some_cases()) if case.call == call]

    def one(case: Case) -> str:
        folder = tmp_path / "-".join(map(str, case))
        verdict = run_case(folder, case)
        shutil.rmtree(folder)
        return verdict

    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(one, cases))
    wrong = [verdict for verdict in verdicts if verdict not in ("", "not reached")]
    reached = len(cases) - verdicts.count("not reached")
    print(f"{call}: {len(cases)} cases, {reached} reached, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong[:5])
    assert reached > 0.8 * len(cases)


@pytest.mark.parametrize("error", ["EIO", "EACCES", "EMFILE", "ENOSPC", "EROFS"])
@pytest.mark.parametrize("call", ["/^mkdir", "openat", "%fstat"])
def test_a_journal_that_cannot_be_opened_is_said_at_the_door(tmp_path: Path, call: str, error: str) -> None:
    """Asked once more, the disk lets the run begin. Refused for good, `init` says so, by an error of ours."""
    code = """
    try:
        run = init()
    except chiplog.ChiplogError as error:
        sys.exit(f"at the door: {error}")
    for n in range(3):
        run.log({"i": n}, step=n)
    """
    for when, refused in (("1", False), ("1+", True)):
        folder = tmp_path / when
        run = folder / "runs" / "faults" / "run"
        paths = segments(folder) if call == "openat" else (run / "journal",)
        under = (*strace(folder, call, f"error={error}:when={when}", paths), "--seccomp-bpf")
        with trainer(folder, code, under=under, env=NO_GIT) as victim:
            code_, said = victim.wait(), victim.said
            assert injected(folder)
            assert "Traceback" not in said
            if refused:
                assert code_ == 1 and f"at the door: cannot write {run}" in said and "init(dir=...)" in said
            else:
                assert code_ == 0 and rows(victim.run) == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("openat", "journal"),
        ("openat", "journal/r00000.reserve"),
        ("write", "journal/r00000.reserve"),
        ("/^unlink", "journal/r00000.reserve"),
    ],
)
def test_what_stands_beside_the_journal_may_fail(tmp_path: Path, call: str, path: str) -> None:
    """Neither the reserve nor the list of names is needed to keep every record."""
    beside = tmp_path / "runs" / "faults" / "run" / path
    under = (*strace(tmp_path, call, "error=EIO", (beside,)), "--seccomp-bpf")
    with trainer(tmp_path, TRAIN, "process", "write", "-1", under=under, env=NO_GIT) as victim:
        assert victim.wait() == 0
        assert injected(tmp_path)
        assert victim.said.startswith("finishing"), victim.said
        assert rows(victim.run) == list(range(RECORDS))
        assert chiplog.read(victim.run).state == "finished"


def test_a_description_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    """A directory stands where `run.json` should be: the run is recorded all the same, and said to be so."""
    (tmp_path / "runs" / "faults" / "run" / "run.json").mkdir(parents=True)
    with trainer(tmp_path, TRAIN, "process", "write", "-1") as victim:
        assert victim.wait() == 0
        assert victim.said.count("run.json: Is a directory; the journal has it too") == 1, victim.said
        assert rows(victim.run) == list(range(RECORDS))
        assert chiplog.read(victim.run).state == "finished"


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_writes_that_fail_for_a_moment_lose_nothing(tmp_path: Path, error: str) -> None:
    """The N-th write of each thread and the two after it fail: every record is there in the end."""
    for when in range(1, 101) if FULL else (1, 3, 40):
        folder = tmp_path / str(when)
        under = strace(folder, "write", f"error={error}:when={when}..{when + 2}")
        with trainer(folder, TRAIN, "process", "write", "-1", under=under, env=NO_GIT) as shaken:
            assert shaken.wait() == 0
            assert injected(folder) >= 3
            assert rows(shaken.run) == list(range(RECORDS)), shaken.said
            assert chiplog.read(shaken.run).state == "finished"
            assert reference.missing(shaken.run) == {(0, 1): []}


def test_the_last_record_is_written_again_too(tmp_path: Path) -> None:
    """The write of the finish record fails twice: there is a moment more for it."""
    finish = RECORDS + 3  # after the attempt, the config and the steps
    under = strace(tmp_path, "write", f"error=EIO:when={finish}..{finish + 1}")
    with trainer(tmp_path, TRAIN, "process", "write", "-1", under=under, env=NO_GIT) as shaken:
        assert shaken.wait() == 0
        assert injected(tmp_path) == 2
        assert rows(shaken.run) == list(range(RECORDS)), shaken.said
        assert chiplog.read(shaken.run).state == "finished", shaken.said
        assert missing_said(shaken.said) == 0


def test_a_journal_is_never_truncated(tmp_path: Path) -> None:
    """There is no call that could cut a segment, so none that could fail."""
    under = strace(tmp_path, "truncate,ftruncate,fallocate", "error=EIO", segments(tmp_path, SEGMENTS))
    with trainer(tmp_path, TRAIN, "process", "openat", "-1", under=(*under, "--seccomp-bpf"), env=NO_GIT) as whole:
        assert whole.wait() == 0
        assert injected(tmp_path) == 0
        assert rows(whole.run) == list(range(RECORDS))
        assert len(segments_of(whole.run)) > 100


def test_a_process_without_descriptors_goes_on_in_the_old_segment(tmp_path: Path) -> None:
    """All descriptors are taken: records go on, it is said once, and the next segment begins when one is free."""
    code = """
    import resource
    from chiplog.store import journal

    run = init()
    while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
        time.sleep(0.01)
    before = run._journal.segment.number
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        os.close(taken.pop())  # one is left: enough to make a segment, and not to change over to it
    journal.SEGMENT_BYTES = 1
    for n in range(50):
        run.log({"i": n}, step=n)
        run._keeper.wake()
        time.sleep(0.002)
    assert run._journal.segment.number == before
    for fd in taken:
        os.close(fd)
    deadline = time.monotonic() + 30
    while run._journal.segment.number == before and time.monotonic() < deadline:
        run._keeper.wake()
        time.sleep(0.002)
    run.log({"i": 50}, step=50)
    """
    with trainer(tmp_path, code, env=NO_GIT) as full:
        assert full.wait() == 0, full.said
        assert rows(full.run) == list(range(51))
        assert full.said.count("Too many open files") == 1, full.said
        assert len(segments_of(full.run)) > 1
        assert chiplog.read(full.run).state == "finished"


@pytest.mark.parametrize("error", ["EROFS", "EIO"])
def test_a_disk_that_refuses_for_a_while_is_written_again(tmp_path: Path, error: str) -> None:
    """Refused until a message came and 200 records more, then let go: all of them are there without anybody's help."""
    code = """
    run = init()
    n = 0
    while not os.path.exists("stop"):
        run.log({"i": n}, step=n)
        ack(n)
        n += 1
        time.sleep(0.001)
    """
    with trainer(tmp_path, code) as steady:
        steady.until_acked(50)
        with failing(steady, tmp_path, "write", f"error={error}:when=1+"):
            wait_for(lambda: "cannot write" in steady.said, 30)
            steady.until_acked(steady.acked + 200)
        wait_for(lambda: "can be written again" in steady.said, 30, steady.said)
        steady.until_acked(steady.acked + 50)
        (tmp_path / "stop").touch()
        assert steady.wait() == 0
        assert rows(steady.run) == list(range(steady.acked + 1))
        assert steady.said.count("cannot write") == steady.said.count("can be written again") == 1
        assert reference.missing(steady.run) == {(0, 1): []}
        assert chiplog.read(steady.run).state == "finished"


# The first forty records, then the file `go` is waited for, then the others, while the keeper syncs all the time.
IN_TWO = """
from chiplog.store import journal

journal.BEAT = 0.0
run = init()
def log(n):
    before = time.monotonic()
    run.log({"i": n}, step=n)
    took.append(time.monotonic() - before)
    ack(n)
    run._keeper.wake()
    time.sleep(0.01)
took = []
for n in range(40):
    log(n)
while not os.path.exists("go"):
    time.sleep(0.01)
took.clear()
for n in range(40, 150):
    log(n)
print("slow calls", sum(1 for one in took if one > 0.19), file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize(("call", "most"), [("write,fdatasync", 3), ("fdatasync", 0)])
def test_a_slow_disk_costs_one_slow_write(tmp_path: Path, call: str, most: int) -> None:
    """Writes and syncs of 200 ms are handed to the background: the caller waits for one write, and nothing is lost.

    A processor that is busy elsewhere at that moment may hide it, so up to three are allowed."""
    with trainer(tmp_path, IN_TWO, env=NO_GIT) as slow:
        slow.until_acked(39)
        with failing(slow, tmp_path, call, "delay_enter=200000:when=1+"):
            (tmp_path / "go").touch()
            assert slow.wait() == 0
        assert rows(slow.run) == list(range(150))
        trace = (tmp_path / "trace").read_text()
        assert trace.count("fdatasync(") > 1
        slow_calls = int(slow.said.rpartition("slow calls ")[2])
        assert (1 if most else 0) <= slow_calls <= most
        assert "missing" not in slow.said


KILLED_AT = """
from chiplog.store import journal

journal.SLOW = 1 << 60
run = init()
for n in range(210):
    run.log({"i": n, "x": n / 7}, step=n)
    ack(n)
"""


def test_a_kill_at_the_nth_write_loses_only_that_record(tmp_path: Path) -> None:
    """The process is killed in the N-th write: all before it are there, nothing is torn, and the run goes on."""
    for when in range(1, 201) if FULL else (1, 2, 3, 4, 20, 77, 150, 200):
        folder = tmp_path / str(when)
        under = strace(folder, "write", f"signal=KILL:when={when}")  # which --seccomp-bpf would not send
        with trainer(folder, KILLED_AT, under=under, env=NO_GIT) as victim:
            assert victim.wait() == -signal.SIGKILL
            kept = rows(victim.run)
            assert victim.acked + 1 == len(kept) == max(0, when - 3)  # after the attempt and the config
            assert kept == list(range(len(kept)))
            assert reference.damage(victim.run) == []
            assert when == 1 or chiplog.read(victim.run).state == "killed"
        again = chiplog.init(project="faults", id="run", dir=victim.dir, sinks="none", resume="must")
        again.log({"i": len(kept), "x": len(kept) / 7}, step=len(kept))
        assert again.finish()
        assert rows(victim.run) == list(range(len(kept) + 1))
        assert reference.series(victim.run, "x") == [n / 7 for n in rows(victim.run)]
        assert chiplog.read(victim.run).attempts[-1].state == "finished"
        shutil.rmtree(folder)


def rows(run: Path) -> list[int]:
    return reference.series(run, "i")
