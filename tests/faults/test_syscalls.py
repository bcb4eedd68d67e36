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
from .injection import NO_GIT, RECORDS, SEGMENTS, TRAIN, failing, injected, rows, segments, segments_of, strace

pytestmark = pytest.mark.timeout(PATIENCE)

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


def run_case(folder: Path, case: Case) -> str:
    """What went wrong in a case, if anything; `not reached` when the call was never made so often."""
    paths = segments(folder, SEGMENTS)
    words = case.durability, case.call, str(case.nth if case.lasting else -1)
    if case.lasting:
        # No call is interrupted forever, and the interpreter makes it again until it is not: fifty times, then.
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
    found, kept, stored = reference.records(victim.run), rows(victim.run), chiplog.read(victim.run)
    ours = re.findall(r"^chiplog: ", said, re.MULTILINE)
    at_once = re.findall(r"^chiplog: ", said.partition("finishing")[0], re.MULTILINE)
    stays = case.lasting and case.error != "EINTR"
    loses = stays and case.call == "write"
    borders = case.call != "write" and not case.lasting
    truths = {
        "the exit code is that of the training": code == 0 and "Traceback" not in said,
        "nothing is there twice": len({record["seq"] for record in found}) == len(found),
        "no value is wrong": kept == [row["step"] for row in reference.records(victim.run, "step")],
        "no record is lost": loses or kept == list(range(RECORDS)),
        "what was written before is kept": kept[: case.nth] == list(range(case.nth)),
        "the loss is counted": victim.missing_said == victim.given_out - len(found),
        "nothing is torn": not stored.damage and not reference.damage(victim.run),
        "the state is right": stored.state == ("killed" if loses else "finished"),
        "one fault costs one border": not borders or len(segments_of(victim.run)) > RECORDS - 5,
        "it is said at once": not stays or case.call == "close" or len(at_once) == 1,
        "it is said once": len(ours) <= 1 + (case.call == "write"),  # and what is missing, or that it works again
    }
    wrong = [truth for truth, holds in truths.items() if not holds]
    return f"{case}: not so: {', '.join(wrong)}; it said: {said}" if wrong else ""


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
