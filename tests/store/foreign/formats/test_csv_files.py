"""CSV files of trainers, read by Python's csv and by us."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from lightning.pytorch.loggers import CSVLogger
from stable_baselines3.common.logger import configure

from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


LIGHTNING = "epoch,step,train_loss,val_loss\n0,49,0.5,\n0,50,,0.75\n1,99,0.25,\n1,100,nan,-inf\n"


def test_lightning(tmp_path: Path) -> None:
    """Empty cells are not points; the folder is the run, and `hparams.yaml` its config."""
    write(tmp_path / "lightning_logs" / "version_0" / "metrics.csv", LIGHTNING)
    write(tmp_path / "lightning_logs" / "version_0" / "hparams.yaml", "lr: 0.1\nmodel: {dim: 3}\n")
    (run,) = opened(tmp_path / "lightning_logs", tmp_path / "cache")
    assert (run.project, run.name) == ("lightning_logs", "version_0")
    assert run.config == {"lr": 0.1, "model": {"dim": 3}}
    assert values(run)["val_loss"] == sorted([(50, 0.75), (100, -math.inf)], key=repr)
    assert math.isnan(dict(values(run)["train_loss"])[100]) and len(values(run)["train_loss"]) == 3


def test_keras_and_stable_baselines(tmp_path: Path) -> None:
    """An epoch is a step where there is no other, and so are the timesteps of SB3."""
    write(tmp_path / "keras.csv", "epoch,accuracy,loss\n0,0.5,1.0\n1,0.75,0.5\n")
    write(tmp_path / "sb3" / "progress.csv", "rollout/ep_rew_mean,time/total_timesteps\n10,2048\n20,4096\n")
    write(
        tmp_path / "env" / "monitor.csv", '#{"t_start": 1700000000.0, "env_id": "CartPole"}\nr,l,t\n9.0,9,1.5\n7,7,2\n'
    )
    runs = {run.name: run for run in opened(tmp_path, tmp_path.parent / f"{tmp_path.name}-cache")}
    assert values(runs["keras"])["accuracy"] == [(0, 0.5), (1, 0.75)]
    assert values(runs["sb3"]) == {"rollout/ep_rew_mean": [(2048, 10.0), (4096, 20.0)]}
    monitor = runs["env"]
    assert values(monitor)["r"] == [(0, 9.0), (1, 7.0)]
    assert monitor.series("r").times.astype("int64").tolist() == [1_700_000_001_500_000_000, 1_700_000_002_000_000_000]


def test_the_numbers_are_those_of_python(tmp_path: Path) -> None:
    """Large integers, exponents and signs, bit by bit."""
    numbers = ["0.1", "1e-300", "-0.0", "9007199254740993", "+3", "1E5", "inf", str(2**70)]
    path = write(tmp_path / "x.csv", "step,v\n" + "".join(f"{at},{text}\n" for at, text in enumerate(numbers)))
    (run,) = opened(path, tmp_path / "cache")
    with path.open() as file:
        expected = [row["v"] for row in csv.DictReader(file)]
    assert [repr(float(value)) for value in run.series("v").exact] == [repr(float(text)) for text in expected]
    assert run.series("v").exact[3] == 9007199254740993


def test_a_last_line_without_its_end_is_not_a_row(tmp_path: Path) -> None:
    """`0.12` may be the start of `0.1234`: it waits for its end."""
    path = write(tmp_path / "x.csv", "step,v\n1,0.5\n2,0.12")
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["v"] == [(1, 0.5)] and any("unfinished" in reason for reason in lost(run))
    with path.open("a") as file:
        file.write("34\n")
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["v"] == [(1, 0.5), (2, 0.1234)] and lost(run) == {}


def test_a_file_that_was_written_again_is_another_attempt(tmp_path: Path) -> None:
    """The next training wrote its own file in the same place: it hides the one before."""
    path = write(tmp_path / "x.csv", "step,v\n1,0.5\n2,0.25\n3,0.125\n")
    opened(path, tmp_path / "cache")
    write(path, "step,v,w\n1,7.0,1\n")
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["v"] == [(1, 7.0)] and len(run.series("v", attempt=1)) == 3


def test_cuts_give_no_wrong_values(tmp_path: Path) -> None:
    """At every byte."""
    folder = write(tmp_path / "logs" / "metrics.csv", LIGHTNING).parent
    whole = values(opened(folder, tmp_path / "cache")[0])
    for copy in foreign_stores.cuts(folder, "metrics.csv", tmp_path, len(LIGHTNING)):
        for run in opened(copy, tmp_path / "cache"):
            some = values(run)
            foreign_stores.assert_part_of(some, whole)


def test_tables_that_are_not_curves_are_left_alone(tmp_path: Path) -> None:
    """Without a step, with one column only, binary, or empty."""
    write(tmp_path / "people.csv", "name,age\na,1\n")
    write(tmp_path / "steps.csv", "step\n1\n")
    write(tmp_path / "empty.csv", "")
    (tmp_path / "binary.csv").write_bytes(b"step,v\n\0\0\0")
    assert opened(tmp_path, tmp_path.parent / f"{tmp_path.name}-cache") == []


def test_odd_rows_are_named(tmp_path: Path) -> None:
    """More cells than columns, texts, and a header in the middle."""
    path = write(tmp_path / "x.csv", "step,v\n1,2\n3,4,5\nstep,v\n6,hello <b>\n")
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["v"] == [(1, 2.0)]
    assert [text.text for text in run.records("text")] == ["hello <b>"]  # type: ignore[union-attr]
    assert lost(run) == {"rows with more cells than the header": 1}


def test_the_files_of_lightning_itself(tmp_path: Path) -> None:
    """Its logger adds columns as metrics appear, and writes the hyperparameters next to them."""
    logger = CSVLogger(str(tmp_path), name="lightning_logs", flush_logs_every_n_steps=1)
    logger.log_hyperparams({"lr": 0.1, "model": {"dim": 8}})
    for step in range(6):
        logger.log_metrics({"train_loss": 1 / (step + 3), "epoch": step // 3}, step)
    logger.log_metrics({"val_loss": math.inf, "epoch": 1}, 5)
    logger.finalize("success")
    (run,) = opened(tmp_path / "lightning_logs", tmp_path / "cache")
    assert values(run)["train_loss"] == [(step, 1 / (step + 3)) for step in range(6)]
    assert values(run)["val_loss"] == [(5, math.inf)] and run.config["lr"] == 0.1


def test_the_files_of_stable_baselines_itself(tmp_path: Path) -> None:
    """Its logger writes the whole file again when a column is new."""
    logger = configure(str(tmp_path / "sb3"), ["csv"])
    for step in range(1, 5):
        logger.record("time/total_timesteps", step * 2048)
        logger.record("train/loss", 1 / (step + 2))
        if step > 2:
            logger.record("eval/mean_reward", float(step))
        logger.dump(step)
    logger.close()
    (run,) = opened(tmp_path / "sb3", tmp_path / "cache")
    assert values(run)["train/loss"] == [(step * 2048, 1 / (step + 2)) for step in range(1, 5)]
    assert values(run)["eval/mean_reward"] == [(3 * 2048, 3.0), (4 * 2048, 4.0)]
