"""Data-parallel training with torchrun and default settings: what the console shows, and a straggler by its name."""

from __future__ import annotations

import re
import subprocess
from statistics import median

import pytest

import chiplog
from tests.first_hour.environment import Environment

TRAIN = """
import sys, time, torch, torch.distributed as dist, chiplog

steps, slow = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def loader():
    for _ in range(steps):
        if dist.get_rank() == slow:
            time.sleep(0.1)
        yield torch.randn(8, 4)

with chiplog.init("ddp", config={"lr": 0.01}) as run:
    run.meter(total_steps=steps)
    for batch in run.steps(loader(), tokens=1000):
        time.sleep(0.2 if slow < 0 else 0.02)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log({"train/loss": loss.item()})
dist.destroy_process_group()
"""
# Tokens logged as the README does: in a plain loop, or in one over `run.steps`.
PLAIN = """
import sys, time, torch.distributed as dist, chiplog

dist.init_process_group("gloo")
with chiplog.init("ddp") as run:
    for step in run.steps(range(8)) if sys.argv[1] == "steps" else range(8):
        time.sleep(0.2)
        dist.barrier()
        run.log({"train/loss": 1.0 + dist.get_rank(), "train/tokens": 1000}, **({} if sys.argv[1] == "steps" else {"step": step}))
dist.destroy_process_group()
"""


def test_the_console_of_two_ranks_shows_every_step_once(lab: Environment) -> None:
    """With the time of a step, the tokens/s of both ranks, the time left, and the right number of steps."""
    shown = _torchrun(lab, "12", "-1", ranks=2).stdout
    lines = re.findall(
        r":: step +(\d+) \[ *([\d.]+)%\].* loss .*\| +([\d.]+)k tok/s \| +(\d+) ms \| eta 00m0(\d)s", shown
    )
    assert [int(step) for step, *_ in lines] == list(range(12)) and shown.count(":: step") == 12, shown
    assert [float(percent) for _, percent, *_ in lines] == [round(100 * n / 12, 1) for n in range(1, 13)]
    for number, (_, _, rate, milliseconds, eta) in enumerate(lines):
        took, left = int(milliseconds) / 1000, 11 - number
        assert took >= 0.2 and float(rate) == pytest.approx(2 / took, rel=0.15), shown  # also of the first, slow step
        assert number == 0 or int(eta) <= left * median(int(one[3]) for one in lines) / 1000 + 1.2, shown
        assert number == 0 or int(eta) >= left * 0.2 - 1, shown
    assert median(int(milliseconds) for *_, milliseconds, _ in lines) < 400, shown
    assert lines[-1][-1] == "0" and "mean" in shown and "== 12 steps" in shown and "finished" in shown


@pytest.mark.parametrize("loop", ["plain", "steps"])
def test_tokens_that_are_logged_count_for_both_ranks(lab: Environment, loop: str) -> None:
    """The rate on the lines is that of two ranks with 1,000 tokens each in 0.2 s or a little more."""
    shown = _torchrun(lab, loop, ranks=2, script=PLAIN).stdout
    rates = [1000 * float(rate) for rate in re.findall(r"([\d.]+)k tok/s", shown)]
    times = [int(one) / 1000 for one in re.findall(r"(\d+) ms", shown)]
    assert shown.count(":: step") == 8 and len(rates) >= 6 and len(times) >= 6, shown
    for rate, took in zip(rates[-5:], times[-5:], strict=True):
        assert rate == pytest.approx(2000 / took, rel=0.3), shown


def test_a_straggler_among_four_ranks_is_named(lab: Environment) -> None:
    """Although only rank 0 keeps a journal, and all ranks wait for each other."""
    shown = _torchrun(lab, "30", "2", ranks=4).stdout
    assert shown.count("!! warn  rank 2 on ") == 1 and "waited for data for 1" in shown, shown
    (stored,) = chiplog.runs(lab.cwd / "runs")
    slowest = stored.series("ranks/slowest").values.tolist()
    assert slowest.count(2) >= 25 and slowest.count(2) / len(slowest) > 0.9, slowest


def _torchrun(lab: Environment, *arguments: str, ranks: int, script: str = TRAIN) -> subprocess.CompletedProcess[str]:
    (lab.cwd / "train.py").write_text(script)
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "train.py")
    return lab.run("python", *words, *arguments, OMP_NUM_THREADS="1")
