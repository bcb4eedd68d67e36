"""The N-th system call on the journal fails, once or for good, in every way a disk can fail."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import pytest

import chiplog

from . import reference
from .harness import FULL, PATIENCE, Trainer, trainer
from .injection import SEGMENTS, from_now_on, injected, segments, strace

pytestmark = pytest.mark.timeout(PATIENCE)

RECORDS = 120

# After every record the keeper has a turn. Where the border between segments is what is tested, each turn begins the
# next segment: opened, duplicated over the old one, which is synced and closed. The last words on stderr are how many
# `seq` numbers were given out.
TRAIN = """
from chiplog.store import journal

durability, call, pause = sys.argv[3], sys.argv[4], int(sys.argv[5])
journal.BEAT = 0.0
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
            with from_now_on(victim, folder, case.call, fault, paths):
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
