"""`chiplog ls`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chiplog

from .conftest import Cli


@pytest.mark.usefixtures("path")
def test_a_run_is_a_line(cli: Cli) -> None:
    """Project, id, name, state, step and loss of a run stand in one line."""
    code, out, _ = cli("ls")
    assert code == 0
    head, line = out.splitlines()
    assert head.split() == ["project", "id", "name", "state", "started", "ran", "step", "loss"]
    assert line.split()[:5] == ["tiny-lm", "first", "a", "try", "finished"]
    assert line.split()[-2:] == ["49", "0.04"]


@pytest.mark.parametrize("name", ["train_loss", "Loss/train", "losses/ce", "train/value_loss"])
def test_a_loss_has_its_column_by_whatever_name(cli: Cli, name: str) -> None:
    """As Lightning, TensorBoard's tutorials and Stable-Baselines3 call theirs."""
    with chiplog.init(project="p", id="one", sinks="none") as run:
        run.log({"loss_scale": 1024.0, name: 2.5}, step=7)
    assert cli("ls")[1].splitlines()[-1].split()[-2:] == ["7", "2.5"]


@pytest.mark.parametrize("name", ["loss", "train_loss", "losses/ce"])
def test_a_run_that_has_diverged_has_its_loss_in_the_list(cli: Cli, name: str) -> None:
    """Not an empty place, also when the list comes from the cache; it is last in order, and can be searched."""
    for number in range(2):
        with chiplog.init(project="p", id=f"r{number}", tags=["wide", "new"], sinks="none") as run:
            run.log({name: 0.5, "val_acc": 1.0}, step=1)
            run.log({name: float("nan") if number == 0 else 0.25}, step=2)
    for _ in range(2):
        assert [line.split()[-1] for line in cli("ls", "--sort", "loss")[1].splitlines()[1:]] == ["0.25", "nan"]
    assert "r0" in cli("ls", "--where", "loss=nan")[1] and "r0" not in cli("ls", "--where", "loss<1")[1]
    assert [one["loss"] for one in json.loads(cli("ls", "--json")[1])] == ["nan", 0.25]
    assert "none of 2 runs match" in cli("ls", "--where", "name=sgd tag=widee")[1]


@pytest.mark.usefixtures("path")
def test_the_newest_is_last(cli: Cli) -> None:
    """The newest run is where the eye is: at the end."""
    chiplog.init(project="other", id="second", sinks="none").finish()
    lines = cli("ls")[1].splitlines()
    assert "first" in lines[-2] and "second" in lines[-1]


@pytest.mark.usefixtures("path")
def test_only_the_newest(cli: Cli) -> None:
    """`-n 1` lists the newest run alone."""
    chiplog.init(project="other", id="second", sinks="none").finish()
    out = cli("ls", "-n", "1")[1]
    assert "second" in out and "first" not in out


@pytest.mark.usefixtures("path")
def test_one_project_alone(cli: Cli) -> None:
    """With a project only its runs are listed."""
    chiplog.init(project="other", id="second", sinks="none").finish()
    out = cli("ls", "other")[1]
    assert "second" in out and "first" not in out


def test_a_directory_elsewhere(cli: Cli, tmp_path: Path) -> None:
    """Named as the shell completes it, also when there are no runs here."""
    with chiplog.init(project="p", id="far", dir=tmp_path / "elsewhere", sinks="none") as run:
        run.log({"loss": 1.5}, step=3)
    for text in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "p", f"{tmp_path}/elsewhere/"):
        code, out, _ = cli("ls", str(text))
        assert code == 0 and [line.split()[1] for line in out.splitlines()[1:]] == ["far"]
    chiplog.init(project="p", id="near", sinks="none").finish()
    assert "near" not in cli("ls", str(tmp_path / "elsewhere"))[1]
    assert "far" not in cli("ls")[1]


def test_no_runs_are_no_error(cli: Cli) -> None:
    """An empty directory gives a hint and exit code 0."""
    code, out, _ = cli("ls")
    assert code == 0
    assert "chiplog demo" in out


@pytest.mark.usefixtures("path")
def test_as_json(cli: Cli) -> None:
    """`--json` has the same facts as data."""
    (line,) = json.loads(cli("ls", "--json")[1])
    assert (line["id"], line["state"], line["step"], line["loss"]) == ("first", "finished", 49, 0.04)


def test_a_running_run(cli: Cli) -> None:
    """A run that is still open is running."""
    run = chiplog.init(project="live", id="now", sinks="none")
    assert "running" in cli("ls")[1]
    run.finish()
    assert "finished" in cli("ls")[1]


@pytest.mark.usefixtures("path")
def test_a_pruned_run_is_listed(cli: Cli) -> None:
    """A run whose journal was compressed is listed with its state."""
    cli("compact", "--prune")
    assert "finished" in cli("ls")[1]


def test_hostile_names_do_nothing(cli: Cli) -> None:
    """Escape sequences in a name reach the terminal as text."""
    chiplog.init(project="live", name="\x1b[2J\x1b]0;owned\x07", sinks="none").finish()
    out = cli("ls")[1]
    assert "\x1b" not in out and "\x07" not in out
    assert "\\x1b[2J" in out


def test_questions_about_a_sweep(cli: Cli) -> None:
    """Conditions, an order, columns, tags and the newest, as a table that is not cut when piped."""
    for number, lr in enumerate((1e-4, 3e-3, 1e-3)):
        with chiplog.init(
            "sweep", f"a-rather-long-name-{'x' * 80}-{number}", config={"lr": lr, "model": {"dim": 8}},
            tags=["odd"] if number % 2 else [], sinks="none",
        ) as run:  # fmt: skip
            run.log({"train/loss": 1.0}, step=9)
            run.eval({"loss": lr * 100}, step=3)

    def ends(*words: str) -> list[str]:
        return [line.split()[-1] for line in cli("ls", *words)[1].splitlines()[1:]]

    assert ends("--where", "lr>=0.001 and state=finished", "--sort", "eval/loss") == ["0.1", "0.3"]
    assert ends("--sort", "lr", "--reverse", "--columns", "lr") == ["0.003", "0.001", "0.0001"]
    assert ends("--last", "2", "--columns", "step,dim,lr") == ["0.003", "0.001"]
    assert ends("--tag", "odd", "--columns", "lr") == ["0.003"]
    table = cli("ls", "sweep", "--where", "lr=3e-3", "--columns", "step,eval/loss")[1]
    assert table.split()[-3:] == [f"a-rather-long-name-{'x' * 80}-1", "9", "0.3"]
    (data,) = json.loads(cli("ls", "--where", "lr=3e-3", "--json")[1])
    assert data["config"] == {"lr": 3e-3, "model": {"dim": 8}} and data["metrics"]["eval/loss"] == 0.3
    assert (data["step"], data["tags"]) == (9, ["odd"])  # the evaluation of step 3 came last


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--where", "lrr>1"), "did you mean 'lr'"),
        (("--sort", "train/los"), "did you mean 'train/loss'"),
        (("--where", "lr>"), "cannot parse 'lr>'"),
        (("tiny-ml",), "no project 'tiny-ml' under runs; did you mean 'tiny-lm'"),
        (("--dir", "nowhere"), "no directory 'nowhere'"),
    ],
)
def test_a_question_with_a_mistake(cli: Cli, words: tuple[str, ...], message: str) -> None:
    """The error has what was not understood, and the exit code is 2."""
    code, out, err = cli("ls", *words)
    assert (code, out) == (2, "") and message in err


@pytest.mark.usefixtures("path")
def test_a_value_that_no_run_has_is_corrected(cli: Cli) -> None:
    """A state or a tag with a typo: nothing matches, and the line has the one that was meant."""
    out = cli("ls", "--where", "state=finishd")[1]
    assert out.startswith("none of 1 run matches; state=finishd: did you mean 'finished'?")
    assert "did you mean" not in cli("ls", "--where", "state=killed")[1]
    chiplog.init("tiny-lm", tags=["baseline", "wide"], sinks="none").finish()
    for words in (("--tag", "baselin"), ("--where", "tag=baselin")):
        code, out, _ = cli("ls", *words)
        assert code == 0 and "tag=baselin: did you mean 'baseline'?" in out


def test_a_minus_sorts_the_other_way(cli: Cli) -> None:
    """`--sort -lr` and `--sort=-lr` are `--sort lr --reverse`, and tags are a column under both of their names."""
    for lr in (1e-3, 3e-3, 1e-4):
        chiplog.init("sweep", config={"lr": lr}, tags=["a", "b"], sinks="none").finish()
    wanted = ["0.003", "0.001", "0.0001"]
    for words in (("--sort", "-lr"), ("--sort=-lr",), ("--sort", "lr", "--reverse")):
        code, out, _ = cli("ls", *words, "--columns", "lr")
        assert code == 0 and [line.split()[-1] for line in out.splitlines()[1:]] == wanted
    assert all(line.endswith("a, b") for line in cli("ls", "--columns", "tags")[1].splitlines()[1:])
    error = cli("ls", "--sort", "nosuch")[2]
    choices = error.partition("available: ")[2].strip().split(", ")
    assert choices and len(choices) == len(set(choices))


def test_a_state_of_ones_own_is_listed_and_found(cli: Cli) -> None:
    """`finish(state="pruned")` is in the list, on the page of the run, and in queries."""
    run = chiplog.init("sweep", name="trial", sinks="none")
    run.log({"loss": 1.0})
    run.finish(state="pruned")
    chiplog.init("sweep", sinks="none").finish()
    assert "pruned" in cli("ls")[1] and "pruned" in cli("show", "trial")[1]
    (found,) = json.loads(cli("ls", "--where", "state=pruned", "--json")[1])
    assert found["name"] == "trial"


def test_a_run_continued_to_evaluate_it_keeps_its_loss(cli: Cli) -> None:
    """Both attempts are stored, and what the first has logged and set is listed and found beside the evaluation."""
    with chiplog.init("p", id="reopened", sinks="none") as run:
        for step in range(10):
            run.log({"train/loss": 0.5 - step / 100}, step=step)
        run.summary["best_acc"] = 0.25
    with chiplog.init(resume=run.resume_token(), sinks="none") as again:
        again.eval({"acc": 0.6})
    stored = chiplog.read(run.dir)
    assert len(stored.attempts) == 2 and stored.state == "finished"
    assert stored.series("train/loss").steps.tolist() == list(range(10))
    assert (stored.series("eval/acc").steps.tolist(), stored.summary["eval/acc"]) == ([9], 0.6)
    head, row = cli("ls", "--columns", "step,loss,eval/acc,best_acc")[1].splitlines()
    assert head.split()[-4:] == ["step", "loss", "eval/acc", "best_acc"]
    assert row.split()[-4:] == ["9", "0.41", "0.6", "0.25"]
    for query in ("loss<100", "train/loss<100", "acc>0.5", "best_acc>0.2"):
        assert len(chiplog.runs(where=query)) == 1, query
