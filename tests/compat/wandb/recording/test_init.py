"""`wandb.init`: which run it opens, where, and under which names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chiplog
import chiplog.compat.wandb as wandb
from chiplog.compat.wandb.settings import VARIABLES


@pytest.fixture(autouse=True)
def no_run_left() -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        del os.environ[name]
    yield
    wandb.finish()


def test_every_keyword_is_accepted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All keywords of W&B's client, and unknown ones, start a run; what has no meaning is reported once."""
    for _ in range(2):
        run = wandb.init(
            entity="team", project="My Project/x", dir=str(tmp_path / "elsewhere"), id="Run_A1 ä", name="a name: ä", notes="n",
            tags=("one", "two"), config={"a": 1}, config_exclude_keys=["b"], allow_val_change=True, group="g", job_type="train",
            mode="online", force=True, anonymous="allow", reinit=True, resume="allow", save_code=True, monitor_gym=True,
            settings=wandb.Settings(start_method="thread"), something_new=3,
        )  # fmt: skip
        run.log({"x": 1})
    run.finish()
    assert (run.entity, run.project, run.id, run.name) == ("team", "My Project/x", "Run_A1 ä", "a name: ä")
    assert (run.group, run.job_type, run.notes, run.tags) == ("g", "train", "n", ("one", "two"))
    stored = chiplog.read("Run_A1 ä", dir=tmp_path / "elsewhere" / "runs")
    assert (stored.project, stored.id, stored.name, stored.tags) == (
        "My Project/x",
        "Run_A1 ä",
        "a name: ä",
        ("one", "two"),
    )
    said = capfd.readouterr().err
    assert said.count("monitor_gym=True") == said.count("something_new=3") == 1


@pytest.mark.parametrize(
    ("variable", "value", "attribute", "expected"),
    [
        ("WANDB_PROJECT", "from env", "project", "from env"),
        ("WANDB_ENTITY", "team", "entity", "team"),
        ("WANDB_NAME", "a name", "name", "a name"),
        ("WANDB_RUN_ID", "an-id", "id", "an-id"),
        ("WANDB_RUN_GROUP", "g", "group", "g"),
        ("WANDB_JOB_TYPE", "eval", "job_type", "eval"),
        ("WANDB_TAGS", "one, two", "tags", ("one", "two")),
        ("WANDB_NOTES", "words", "notes", "words"),
        ("WANDB_MODE", "disabled", "disabled", True),
        ("WANDB_MODE", "dryrun", "disabled", False),
        ("WANDB_DISABLED", "true", "disabled", True),
    ],
)
def test_a_variable_is_a_setting(
    variable: str, value: str, attribute: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every `WANDB_*` variable that names something is honoured; arguments override it."""
    monkeypatch.setenv(variable, value)
    assert getattr(wandb.init(), attribute) == expected
    assert variable in VARIABLES or variable == "WANDB_DISABLED"


def test_a_directory_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`WANDB_DIR` holds the folder of the runs, unless `CHIPLOG_DIR` names another."""
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "there"))
    assert Path(wandb.init().url.removeprefix("file://")).is_relative_to(tmp_path / "there" / "runs")
    monkeypatch.setenv("CHIPLOG_DIR", str(tmp_path / "chosen"))
    assert Path(wandb.init(reinit=True).url.removeprefix("file://")).is_relative_to(tmp_path / "chosen")


def test_a_resumed_run_continues(tmp_path: Path) -> None:
    """`resume="allow"` continues steps, config and summary, and is a new attempt of the same run."""
    first = wandb.init(id="same", config={"lr": 0.1})
    first.log({"x": 1})
    first.log({"x": 2})
    first.finish()
    again = wandb.init(id="same", resume="allow", config={"batch": 4})
    assert again.resumed and again.step == 2
    assert again.config.as_dict() == {"lr": 0.1, "batch": 4}
    assert again.summary["x"] == 2
    again.log({"x": 3})
    again.finish()
    stored = wandb.Api().run("same")
    assert [(row["_step"], row["x"]) for row in stored.scan_history()] == [(0, 1), (1, 2), (2, 3)]
    assert stored.config == {"lr": 0.1, "batch": 4}


def test_resume_insists_as_in_wandb() -> None:
    """A run that must exist and does not, or must not and does, is an error before training starts."""
    with pytest.raises(wandb.UsageError, match="no run"):
        wandb.init(id="absent", resume="must")
    wandb.init(id="there").finish()
    with pytest.raises(wandb.UsageError, match="exists already"):
        wandb.init(id="there", resume="never")


def test_resume_from_a_step_continues_there() -> None:
    """`resume_from` opens the same run at the step after the one it names."""
    run = wandb.init(id="cut")
    for number in range(5):
        run.log({"x": number})
    run.finish()
    again = wandb.init(resume_from="cut?_step=2")
    again.log({"x": 30})
    again.finish()
    assert again.id == "cut"
    assert chiplog.read("cut").series("x").values.tolist() == [0, 1, 2, 30]  # a newer attempt hides what it repeats


def test_a_disabled_run_keeps_nothing(tmp_path: Path) -> None:
    """Calls work, and no file is written."""
    run = wandb.init(mode="disabled", config={"a": 1})
    run.log({"x": 1, "image": wandb.Image([[0.0]])})
    run.summary["y"] = 2
    run.log_artifact(wandb.Artifact("a", "b"))
    wandb.save("*.py")
    assert run.config.a == 1 and run.summary["y"] == 2 and run.disabled
    run.finish()
    assert not (tmp_path / "runs").exists()


def test_names_before_and_after() -> None:
    """`wandb.run` is None outside a run, and scripts may reset it."""
    assert wandb.run is None
    run = wandb.init()
    assert wandb.run is run and wandb.config is run.config and wandb.summary is run.summary
    wandb.run = None
    assert wandb.run is None
    run.finish()


@pytest.mark.parametrize("rank", ["0", "7"])
def test_the_process_that_calls_is_recorded(rank: str, tmp_path: Path) -> None:
    """A script that logs on the last rank only has its run, at once and under its own rank."""
    code = "import chiplog.compat.wandb as wandb\nrun = wandb.init(id='r')\nwandb.log({'loss': 1.5})\nwandb.finish()"
    environ = {
        **os.environ,
        "RANK": rank,
        "WORLD_SIZE": "8",
        "LOCAL_RANK": rank,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
    }
    subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, check=True, timeout=60)
    assert [row["loss"] for row in wandb.Api().run("r").scan_history()] == [1.5]


def test_every_rank_that_calls_has_a_run(tmp_path: Path) -> None:
    """Ranks that all call `init` are runs of their own, as in W&B."""
    code = "import chiplog.compat.wandb as wandb\nwith wandb.init(project='p', group='g') as run: run.log({'rank': 1})"
    for rank in ("0", "1"):
        environ = {
            **os.environ,
            "RANK": rank,
            "WORLD_SIZE": "2",
            "TORCHELASTIC_RUN_ID": "job",
            "TORCHELASTIC_MAX_RESTARTS": "3",
        }
        subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, check=True, timeout=60)
    runs = wandb.Api().runs("team/p", {"group": "g"})
    assert len(runs) == len({run.id for run in runs}) == 2


def test_a_directory_that_cannot_be_written_costs_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init` and `log` work, and the run is kept elsewhere."""
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("CHIPLOG_DIR", str(tmp_path / "file"))
    run = wandb.init()
    run.log({"x": 1})
    run.finish()
    assert run.step == 1


def test_the_stand_in_needs_nothing_heavy(tmp_path: Path) -> None:
    """A run of numbers is kept with msgspec and the standard library; `import chiplog` does not import the stand-in."""
    code = (
        "import sys, chiplog\n"
        "assert not [name for name in sys.modules if name.startswith('chiplog.compat')]\n"
        "import chiplog.compat.wandb as wandb\n"
        "wandb.init(); wandb.log({'loss': 1.0}); wandb.finish()\n"
        "print(','.join(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split(","))
    assert loaded & {"numpy", "pyarrow", "torch", "pandas", "wandb", "tensorboard"} == set()
