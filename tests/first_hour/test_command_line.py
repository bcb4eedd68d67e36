"""Every verb, right and wrong, as a new user types it."""

from __future__ import annotations

from tests.first_hour.environment import Environment

TRAIN = """
import chiplog, math
for number in range(2):
    with chiplog.init("tiny-lm", config={"lr": 0.001 * (number + 1), "model": {"dim": 8}}, sinks="none") as run:
        for step in run.steps(range(60)):
            with run.span("forward"):
                run.log({"train/loss": 1 + math.exp(-step / 20) + number, "train/tokens": 1e6 * step})
            if step % 5 == 0:
                run.eval({"loss": 1.5 + math.exp(-step / 20) + number}, step=step)
"""


def test_every_verb_does_what_it_says(read: Environment) -> None:
    """With what `chiplog[read]` installs; runs go by `latest`, project, project/latest, pattern and part of an id."""
    read.python(TRAIN)
    assert "doctor" in read.chiplog().stdout == read.chiplog("help").stdout
    listed = read.chiplog("ls", COLUMNS="40").stdout.splitlines()
    assert len(listed) == 3 and all("…" not in line for line in listed)
    ids = [line.split()[1] for line in listed[1:]]
    assert ids[1] in read.chiplog("show", "tiny-lm").stdout and ids[0] in read.chiplog("show", ids[0][-6:]).stdout
    assert ids[1] in read.chiplog("show", "runs/tiny-lm/").stdout and ids[0] in read.chiplog("ls", "runs").stdout
    assert "== finished" in read.chiplog("tail", "tiny-lm/latest", "--once").stdout
    assert read.chiplog("cat", "latest", "--kind", "eval").stdout.count("\n") == 12
    plot = read.chiplog("plot", "loss").stdout
    assert "train/loss" in plot and "eval/loss" in plot
    assert read.chiplog("plot", "tiny-lm/*", "train/loss", "train/tokens").stdout.count("┌") == 2
    comparison = read.chiplog("compare", "tiny-lm/*", COLUMNS="60").stdout
    (row,) = [line for line in comparison.splitlines() if line.split()[:2] == ["eval/loss", "55"]]
    assert row.split()[-1] == "clear" and "…" not in comparison.split("Curves")[0]
    assert f"{ids[0][-6:]}  {ids[1][-6:]}" in comparison
    assert "forward" in read.chiplog("trace", "tiny-lm", "--summary").stdout
    assert "x.csv" in read.chiplog("export", "latest", "-o", "x.csv").stdout
    report = read.chiplog("report", "latest")  # datasets and plots need packages that are not installed here
    assert "report.html" in report.stdout and "pip install 'chiplog[plot]'" in report.stderr
    assert read.chiplog("report", "latest", "--only", "plots", status=1).stdout == "0 files\n"
    assert read.chiplog("doctor", "latest").stdout.startswith("no problems found")
    assert "tiny-lm" in read.chiplog("watch", "--once").stdout
    read.chiplog("compact", "tiny-lm")
    (read.cwd / "other.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
    read.chiplog("import", "other.csv")
    read.chiplog("run", "python", "-c", "print('ran')")
    assert "chiplog show" in read.chiplog("demo", "--seconds", "1").stdout


def test_every_mistake_is_answered(read: Environment) -> None:
    """Without a traceback, with the exit code 2, and with what to write instead."""
    read.python(TRAIN)
    answers = {
        "shwo": "did you mean 'show'",
        "show tiny-ml": "did you mean 'tiny-lm'",
        "show 2": "matches 2 runs",
        "ls tiny-ml": "no project 'tiny-ml' under runs; did you mean 'tiny-lm'",
        "ls --where lrr>1": "did you mean 'lr'",
        "ls --dir nowhere": "no directory 'nowhere'",
        "plot latest los": "did you mean",
        "cat latest --rank 7": "has no rank 7; available: 0",
        "cat latest --kind evla": "did you mean 'eval'",
        "ui --port 99999": "'99999' is not a port: use 1 to 65535",
        "ui --no-browser": "pip install 'chiplog[ui]'",
        "report latest --pictures gif": "'gif' is not one of: png, svg",
        "compare latest": "at least two runs",
        "export latest --to xls": "choose from",
        "export latest": "name a format with --to: csv, parquet",
        "export latest -o nowhere/x.csv": "chiplog: nowhere: No such file or directory",
        "rm latest": "delete it with `rm -r`",
        "tail tiny-ml": "did you mean 'tiny-lm'",
        "trace tiny-ml --summary": "did you mean 'tiny-lm'",
        "watch tiny-ml --once": "did you mean 'tiny-lm'",
        "watch latest": "`chiplog watch` needs a terminal; --once prints one frame and exits",
        "sync tiny-ml": "did you mean 'tiny-lm'",
        "sync tiny-lm": "does not use a service; name one with --to",
        "compact tiny-ml": "did you mean 'tiny-lm'",
        "doctor tiny-ml": "did you mean 'tiny-lm'",
        "import nosuch": "no file or folder 'nosuch'",
        "run nosuch": "no command 'nosuch'",
        "demo latest": "unrecognized arguments: latest",
    }
    for words, answer in answers.items():
        done = read.chiplog(*words.split(), status=2)
        assert answer in done.stderr and "Traceback" not in done.stderr, words
    assert "example: chiplog ui" in read.chiplog("ui", "--help").stdout
    code = """
import chiplog
stored = chiplog.read("tiny-lm")
for wrong in (
    lambda: stored.series("train/los"), lambda: stored.series("train/loss", rank=7), lambda: chiplog.runs("nosuchdir"),
    lambda: stored.to_xarray(), lambda: stored.to_pandas(), lambda: chiplog.runs("runs", where="lrr>1"),
):
    try:
        print("no error:", wrong())
    except chiplog.ChiplogError as error:
        print(error)
"""
    answers_in_python = read.python(code).stdout
    for answer in (
        "did you mean 'train/loss'", "has no rank 7", "no directory 'nosuchdir'", "pip install 'chiplog[xarray]'",
        "pip install 'chiplog[pandas]'", "did you mean 'lr'",
    ):  # fmt: skip
        assert answer in answers_in_python
    assert "no error" not in answers_in_python
