"""What people log besides numbers, under the names they are used to, and where they find it again."""

from __future__ import annotations

import json

from tests.first_hour.environment import Environment

SCRIPT = """
import chiplog, matplotlib, numpy, pandas, torch
from PIL import Image

matplotlib.use("Agg")
from matplotlib import pyplot

run = chiplog.init(project="values", id="media")
run.log({"bright": chiplog.Image(numpy.full((4, 4, 3), 200.0)), "first": chiplog.Image(torch.rand(3, 8, 9))})
run.log({"several": [chiplog.Image(numpy.zeros((2, 2))), chiplog.Image(numpy.ones((2, 2)))]})
run.log({"figure": pyplot.figure(figsize=(1, 1)), "photo": Image.new("RGB", (4, 4))})
run.log({"frame": pandas.DataFrame({"a": [1, 2]}), "loss": 1.0})
run.log({"wrong": chiplog.Image("nosuch.png"), "odd": chiplog.Histogram(["a"]), "flat": chiplog.Matrix(3), "loss": 0.5})
run.log({"weights": chiplog.Histogram(torch.randn(100))})
run.summary["best_acc"] = 0.9
run.finish()

NAMES = ["train_loss", "val_loss", "eval_loss", "Loss/train", "losses/ce", "loss", "train/loss", "train/policy_loss"]
for number, name in enumerate(NAMES):
    run = chiplog.init(project="names", id=f"n{number}")
    run.log({name: 0.25})
    run.log({name: float("nan")})
    run.log({name: 0.125})
    run.finish()

run = chiplog.init(project="steps", id="every")
run.meter(log_every=5)
for i in run.steps(range(64)):
    torch.rand(400, 400) @ torch.rand(400, 400)
run.finish()
"""


def test_values_of_every_kind_are_kept_and_shown(lab: Environment) -> None:
    """Images, figures and frames keep their content, nothing raises, and summaries, losses and counts are in the views."""
    done = lab.python(SCRIPT)
    shown = lab.chiplog("show", "media").stdout
    for word in (
        "best_acc  0.9",
        "weights",
        "files/media/bright.png",
        "first.png",
        "several.png",
        "figure.png",
        "photo.png",
    ):
        assert word in shown
    code = (
        "import chiplog, numpy; from PIL import Image; run = chiplog.read('media')\n"
        "print(numpy.asarray(Image.open(run.path / 'files/media/bright.png'))[0, 0].tolist())\n"
        "print([row['a'] for row in run.table('frame')])"
    )
    assert lab.python(code).stdout.splitlines() == ["[200, 200, 200]", "[1, 2]"]
    assert "nosuch.png" in done.stderr and done.stderr.count("cannot record") == 3
    assert json.loads(lab.chiplog("show", "media", "--json").stdout)["summary"] == {"best_acc": 0.9}
    assert done.stdout.count("!! ") == 8 and "== 64 steps" in done.stdout
    listed = json.loads(lab.chiplog("ls", "names", "--json").stdout)
    assert [line["loss"] for line in listed] == [0.125] * 8
    assert "compile" not in lab.chiplog("show", "every").stdout
