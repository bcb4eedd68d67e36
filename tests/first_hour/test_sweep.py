"""A sweep of 200 runs, and the questions that people ask of it."""

from __future__ import annotations

import json

from tests.first_hour.environment import Environment

SWEEP = """
import chiplog
for number in range(200):
    lr = (1e-4, 3e-4, 1e-3, 3e-3)[number % 4]
    config = {"lr": lr, "model": {"dim": 64 + number}}
    tags = ["wide"] if number >= 190 else []
    run = chiplog.init("sweep", f"lr-{lr}-{number}", config=config, tags=tags, sinks="none", compact=False)
    run.log({"train/loss": 2.0, "train/norm": 1.0}, step=100)
    run.eval({"loss": 1 - number / 400}, step=50)
    run.finish(state="failed" if number % 10 == 9 else "finished")
"""


def test_questions_about_200_runs(read: Environment) -> None:
    """Which are best, which failed, what have they in common: in a terminal, as data and in Python."""
    read.python(SWEEP)

    def names(*words: str) -> list[str]:
        return [line.split()[1] for line in read.chiplog("ls", *words, "--columns", "lr").stdout.splitlines()[1:]]

    assert len(names()) == 200
    best = names("--where", "lr>0.001 and state=finished", "--sort", "eval/loss")
    assert len(best) == 40 and best[0] == "lr-0.003-195"
    assert names("--where", "state=failed", "--last", "2") == ["lr-0.0003-189", "lr-0.003-199"]
    assert len(names("--tag", "wide")) == 10
    assert len(names("--where", "dim=64..73 -state=failed")) == 9
    assert len(names("--where", "started>-1h (lr=1e-4 or tag=wide)")) == 50 + 8
    (newest,) = json.loads(read.chiplog("ls", "--last", "1", "--json").stdout)
    assert newest["config"] == {"lr": 0.003, "model": {"dim": 263}} and newest["metrics"]["eval/loss"] == 1 - 199 / 400
    assert newest["step"] == 100
    python = 'import chiplog; print(len(chiplog.runs("runs", where="lr>0.001 and state=finished")))'
    assert read.python(python).stdout == "40\n"
