"""The end of a history on several ranks, as `torchrun` starts them: one dataset, its files, plots and report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import FULL
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
STATISTICS = ("mean", "max", "min", "std")


def launch(folder: Path, ranks: int, kind: str) -> dict[str, Any]:
    """Run the script on so many ranks; what `finalize` returned, by group."""
    folder.mkdir()
    subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1",
            f"--master-port={free_port()}", "-m", "tests.frontends.ezpz.launched", str(folder), kind,
        ],
        cwd=ROOT, check=True, timeout=110, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    told: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return told


@pytest.fixture(scope="module", params=[2, 4])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ending") / f"plain-{request.param}"
    return folder / "out", launch(folder, request.param, "plain")


@pytest.fixture(scope="module", params=[2, 4] if FULL else [4])
def grouped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ending") / f"grouped-{request.param}"
    return folder / "out", launch(folder, request.param, "grouped")


def test_metrics_without_a_group_are_one_dataset(plain: tuple[Path, dict[str, Any]]) -> None:
    """With NaN and a missing key on one rank, timings, an environment, a stopwatch and a mapping in the row."""
    out, told = plain
    assert list(told) == ["(one)"]
    assert [path.name for path in out.glob("*.h5")] == ["dataset.h5"]
    names = set(told["(one)"])
    assert {"loss", "acc", "lr", "grad_norm", "grad_clip_share"} <= names
    assert not any(name.startswith(("ranks", "timings", "env_info", "StopWatch")) for name in names)


def test_statistics_stay_with_their_metric(plain: tuple[Path, dict[str, Any]]) -> None:
    """Also the count of ranks, which is there because one rank has none at all; NaN is one."""
    _, told = plain
    names = set(told["(one)"])
    assert {f"{metric}_{one}" for metric in ("loss", "acc", "grad_norm") for one in STATISTICS} <= names
    assert {"mine_mean", "mine_count"} <= names and "loss_count" not in names


def test_a_metric_called_step_is_the_step(plain: tuple[Path, dict[str, Any]]) -> None:
    """It is not a second variable, and the coordinate is what was given."""
    _, told = plain
    assert not any(name.startswith("step") for name in told["(one)"])


def test_pictures_are_of_what_was_logged(plain: tuple[Path, dict[str, Any]]) -> None:
    """No picture of counts, of which rank was slow, or of what is noted once; a text plot for every picture of a metric."""
    out, _ = plain
    pictures = {path.relative_to(out / "plots" / "mplot").as_posix() for path in out.glob("plots/mplot/**/*.png")}
    assert {"loss.png", "acc.png", "overview.png", "ranks.png", "grad/norm.png"} <= pictures
    assert not any(one.startswith(("ranks/", "timings", "env_info", "loss/", "acc/", "mine/")) for one in pictures)
    texts = {path.relative_to(out / "plots" / "tplot").as_posix() for path in out.glob("plots/tplot/**/*.txt")}
    assert {"loss.txt", "acc.txt", "grad/norm.txt"} <= texts and not any("ranks" in one for one in texts)
    text = (out / "plots" / "tplot" / "acc.txt").read_text()
    assert all(f"acc/{one}" in text and f"acc/{one} histogram" in text for one in STATISTICS)
    assert "acc across ranks" in text and "++ acc/max  -- acc/min  ·· acc/mean" in text


def test_the_report_tells_how_it_ended(plain: tuple[Path, dict[str, Any]]) -> None:
    """Finished, with the timings, those of the plots too, and the environment that the script has noted."""
    report = (plain[0] / "report.md").read_text()
    assert "- **state**: finished\n" in report and "running" not in report
    assert "- **train**: 12.50s\n" in report and "- **load**: 3.25s\n" in report
    assert (
        "- **finalize/plots**: " in report and "- **Torch/Version**: 2.0\n" in report and "- **world**: 2\n" in report
    )
    assert "| timings/" not in report and "| ranks/" not in report


def test_groups_are_what_prefixes_say(grouped: tuple[Path, dict[str, Any]]) -> None:
    """A learning rate without a prefix is beside the loss it was logged with, and each group has its own draws."""
    out, told = grouped
    assert set(told) == {"train", "eval"} and {path.name for path in out.glob("*.h5")} == {"train.h5", "eval.h5"}
    assert set(told["train"]) == {"loss", *(f"loss_{one}" for one in STATISTICS), "lr"}
    assert len(told["train"]["loss"]) == 12 and len(told["eval"]["loss"]) == 3


def test_evaluation_is_drawn_over_training_once(grouped: tuple[Path, dict[str, Any]]) -> None:
    """With its ranks as a band, not as four more pictures."""
    names = {path.name for path in (grouped[0] / "plots" / "mplot").glob("eval_over*")}
    assert names == {"eval_over_train_loss.png"}
