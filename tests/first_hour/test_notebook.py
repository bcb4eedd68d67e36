"""Notebooks: executed by a kernel of the installed wheel, as `jupyter nbconvert --execute` does."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat

import chiplog
from tests.first_hour.environment import Environment

CELLS = (
    "1 / 0",
    "import chiplog\nrun = chiplog.init(project='lab', id='after-a-failed-cell')",
    "for step in range(3):\n    run.log({'loss': 3.0 - step}, step=step)",
    "run.log({'loss': 0.5}, step=3)",
    "run",
    "typo",
    "run.finish()\nrun",
    "stored = chiplog.read('after-a-failed-cell')\nstored",
    "stored.series('loss')",
    "chiplog.runs()",
    "failing = chiplog.init(project='lab', id='failing')\nfailing.log({'loss': 1.0}, step=0)\nraise ValueError('bad data')",
    "from chiplog.assembly.api import beside\nrepaired = beside(project='lab', id='repaired')\nrepaired.log({'loss': 1.0}, step=0)",
    "raise KeyError('of another cell')",
)


def test_a_notebook_from_top_to_bottom(lab: Environment) -> None:
    """Lines appear in the cell that logs, objects describe themselves, and every run has the state of its own cells."""
    outputs = _execute(lab, CELLS)
    assert ":: step       2" in outputs[2] and ":: step       3" not in outputs[2]
    assert ":: step       3" in outputs[3] and ":: step       2" not in outputs[3] and outputs[1] == ""
    assert "lab/after-a-failed-cell" in outputs[4] and "running" in outputs[4] and "step 3" in outputs[4]
    assert "== 4 steps" in outputs[6] and "finished" in outputs[6]
    assert "lab/after-a-failed-cell" in outputs[7] and "finished" in outputs[7] and "step 3" in outputs[7]
    assert "'loss'" in outputs[8] and "4 points" in outputs[8] and "0.5" in outputs[8]
    assert "1 run" in outputs[9] and "lab/after-a-failed-cell" in outputs[9] and "finished" in outputs[9]
    runs = {stored.id: stored for stored in chiplog.runs(lab.cwd / "runs")}
    ends = {name: (stored.state, stored.attempts[-1].finish.reason) for name, stored in runs.items()}
    assert ends == {
        "after-a-failed-cell": ("finished", ""),
        "failing": ("failed", "ValueError: bad data"),
        "repaired": ("finished", ""),
    }
    assert runs["failing"].environment["notebook"] == str(lab.cwd / "analysis.ipynb")
    assert json.loads((lab.cwd / "runs/lab/failing/run.json").read_text())["environment"]["notebook"]


def _execute(lab: Environment, cells: tuple[str, ...]) -> list[str]:
    """The text that each cell shows."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    kernels = lab.cwd / "share/kernels/lab"
    kernels.mkdir(parents=True)
    command = [str(lab.bin / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "lab", "language": "python"}))
    nbformat.write(notebook, lab.cwd / "analysis.ipynb")
    options = ("--to", "notebook", "--execute", "--allow-errors", "--ExecutePreprocessor.kernel_name=lab")
    lab.run(
        "python", "-m", "nbconvert", *options, "--output", "done.ipynb", "analysis.ipynb",
        JUPYTER_PATH=str(lab.cwd / "share"), IPYTHONDIR=str(lab.cwd / "ipython"), JUPYTER_PLATFORM_DIRS="1",
    )  # fmt: skip
    executed = nbformat.read(Path(lab.cwd / "done.ipynb"), as_version=4)
    return ["".join(map(_text, cell.outputs)) for cell in executed.cells]


def _text(output: nbformat.NotebookNode) -> str:
    return str(output.get("text", "") or output.get("data", {}).get("text/plain", "") or output.get("evalue", ""))
