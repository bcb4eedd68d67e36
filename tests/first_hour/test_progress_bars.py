"""Console lines beside the progress bars that people have in their loops."""

from __future__ import annotations

import re

from tests.first_hour.environment import Environment
from tests.support.terminal import rows_of

TQDM = """
import chiplog, sys, time
from tqdm import tqdm
with chiplog.init(project="bars") as run:
    run.meter(total_steps=4)
    for step in tqdm(range(4)):
        run.log({"train/loss": 1.0 / (step + 1)}, step=step)
        run.settle()
        if step == 2:
            run.log({"bad": object()})
            run.alert("look here")
"""

RICH = """
import chiplog
from rich.progress import Progress
with chiplog.init(project="bars") as run, Progress() as progress:
    task = progress.add_task("training", total=4)
    for step in range(4):
        run.log({"train/loss": 1.0 / (step + 1)}, step=step)
        run.settle()
        progress.advance(task)
"""

# The callback with which the Trainer draws its bar, called as the Trainer calls it (which itself needs accelerate).
TRAINER = """
import chiplog
from transformers.trainer_callback import ProgressCallback, TrainerControl, TrainerState
bar, state, control = ProgressCallback(), TrainerState(is_world_process_zero=True, max_steps=4), TrainerControl()
with chiplog.init(project="bars") as run:
    bar.on_train_begin(None, state, control)
    for state.global_step in range(1, 5):
        bar.on_step_end(None, state, control)
        bar.on_log(None, state, control, logs={"loss": 1.0})
        run.log({"loss": 1.0}, step=state.global_step)
        run.settle()
    bar.on_train_end(None, state, control)
"""


def test_lines_stay_above_a_bar_of_tqdm(lab: Environment) -> None:
    """On a terminal each line has a row of its own, the bar is drawn below, and there is one bar only."""
    screen = _screen(lab, TQDM)
    assert sum(row.startswith(":: step") and "it/s" not in row for row in screen) == 4, screen
    assert sum("4/4" in row and row.startswith("100%") for row in screen) == 1, screen
    assert any(row.startswith("!! warn") for row in screen) and any(row.startswith("chiplog: ") for row in screen)
    assert not any("━" in row for row in screen), screen


def test_lines_stay_above_a_bar_of_tqdm_in_a_log_file(lab: Environment) -> None:
    """With `2>&1` in a batch job, a line starts at the start of a line."""
    (lab.cwd / "train.py").write_text(TQDM)
    text = lab.run("python", "-c", "import os; os.dup2(1, 2); os.execlp('python', 'python', 'train.py')").stdout
    assert len(re.findall(r"(?:^|\r|\n) *:: step +\d", text)) == 4 == text.count(":: step"), text


def test_lines_stay_above_a_live_display_of_rich(lab: Environment) -> None:
    """The display of rich stays last, and no line is mixed with it."""
    screen = _screen(lab, RICH)
    assert sum(row.startswith(":: step") and "training" not in row for row in screen) == 4, screen
    assert sum(row.startswith("training") and "100%" in row for row in screen) == 1, screen


def test_lines_stay_above_the_bar_of_the_trainer(lab: Environment) -> None:
    """The Trainer of Hugging Face draws its bar with tqdm."""
    screen = _screen(lab, TRAINER)
    rows = [row for row in screen if ":: step" in row]
    assert len(rows) == 4 and all(row.startswith(":: step") and "it/s" not in row for row in rows), screen


def _screen(lab: Environment, code: str) -> list[str]:
    (lab.cwd / "train.py").write_text(code)
    return rows_of([str(lab.bin / "python"), "train.py"], lab.cwd)
