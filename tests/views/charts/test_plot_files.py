"""A run's pictures."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

import chiplog
from chiplog.views.charts import matplotlib_figures, plot_files
from chiplog.views.charts.curve_data import curve, draw, scale, smooth
from chiplog.views.metric_families import families


def stored(*rows: dict[str, object], **how: object) -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none", alerts=False, **how) as run:
        for step, row in enumerate(rows):
            run.log(row, step=step)
    return chiplog.read(run.dir)


def names(run: chiplog.Stored) -> list[str]:
    return [str(picture.stem) for picture in plot_files.pictures(run)]


def test_a_metric_has_a_picture_and_a_group_an_overview(tmp_path: Path) -> None:
    """PNG and SVG, in the folder of the group; counters have none."""
    run = stored(*[{"train/loss": 1.0 / n, "train/acc": 0.1 * n, "train/iter": n} for n in range(1, 5)])
    made = list(plot_files.write(run, tmp_path / "out", ("png", "svg")))
    assert [one.trouble for one in made] == [""] * 3
    assert {path.relative_to(tmp_path / "out").as_posix() for one in made for path in one.paths} == {
        f"train/{name}.{ending}" for name in ("overview", "loss", "acc") for ending in ("png", "svg")
    }
    with Image.open(tmp_path / "out" / "train" / "loss.png") as picture:
        assert picture.size == (792, 374) and len(picture.convert("RGB").getcolors(1 << 20)) > 10
    ElementTree.parse(tmp_path / "out" / "train" / "loss.svg")


def test_what_a_run_has_is_drawn() -> None:
    """Evaluation over training, speed, GPUs, routers, vectors."""
    with chiplog.init(project="p", sinks="none") as run:
        for step in range(3):
            run.log({"train/loss": 2.0, "train/tokens_per_sec": 5.0, "train/mfu": 0.4}, step=step)
            run.eval({"loss": 2.5}, step=step)
            run.event("gpu", id=0, power=300.0)
            run.log({"moe/load": chiplog.Matrix([[1, 2], [3, 4]]), "v": chiplog.Matrix([[1, 2, 3]])}, step=step)
    found = names(chiplog.read(run.dir))
    assert {"eval_over_train_loss", "speed", "gpus", "moe/load_heat", "v_ridge"} <= set(found)


def test_ranks_have_a_heat_map(tmp_path: Path) -> None:
    """Where each of them keeps a journal."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"train/step_time_sec": 1.0}, step=0)
    for segment in (run.dir / "journal").glob("*.jsonl"):
        (segment.parent / segment.name.replace("r00000", "r00001")).write_bytes(segment.read_bytes())
    read = chiplog.read(run.dir)
    assert "ranks_train_step_time_sec" in names(read)
    assert [one.trouble for one in plot_files.write(read, tmp_path / "out")] == ["", "", ""]


@pytest.mark.parametrize(
    "values",
    [[1.0], [math.nan] * 3, [math.inf, 1.0, -math.inf], [5.0] * 20, [1e308, -1e308], [0.0, 1e-320], [10.0**n for n in range(-9, 9)]],
    ids=["one point", "nan", "infinite", "constant", "huge", "tiny", "decades"],
)  # fmt: skip
def test_odd_values_are_drawn(values: list[float], tmp_path: Path) -> None:
    """Whatever was logged, there is a picture."""
    (made,) = plot_files.write(stored(*[{"a": value} for value in values]), tmp_path / "out")
    assert made.trouble == "" and made.paths[0].stat().st_size > 1000


def test_odd_names_are_drawn_where_they_belong(tmp_path: Path) -> None:
    """Slashes, dots, unicode and what a formula would be: nothing leaves the folder, nothing is lost."""
    odd = ["../up", "a b", "a_b", "$x^2", "größe", "..", "x/../../y", "模型/损失"]
    made = list(plot_files.write(stored(dict.fromkeys(odd, 1.0), dict.fromkeys(odd, 2.0)), tmp_path / "out"))
    assert set(odd) <= {one.name for one in made} and not any(one.trouble for one in made)
    assert all((tmp_path / "out") in path.resolve().parents for one in made for path in one.paths)


def test_a_picture_that_fails_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and the others are made."""
    metric = matplotlib_figures.metric

    def fail(drawn: object, title: str, **how: bool) -> object:
        if title == "a":
            raise ZeroDivisionError("no")
        return metric(drawn, title, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(matplotlib_figures, "metric", fail)
    made = {one.name: one for one in plot_files.write(stored({"a": 1.0, "b": 1.0}), tmp_path / "out")}
    assert made["a"].trouble == "ZeroDivisionError: no" and made["b"].paths[0].exists()


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = stored({"a": 1.0}, {"a": 2.0})
    first = [path.read_bytes() for one in plot_files.write(run, tmp_path / "one", ("png", "svg")) for path in one.paths]
    again = [path.read_bytes() for one in plot_files.write(run, tmp_path / "two", ("png", "svg")) for path in one.paths]
    assert first == again


def test_a_page_that_is_used_again_has_nothing_left_of_before(tmp_path: Path) -> None:
    """Over decades with NaN, then small and constant, then large: each as if it were alone."""
    rows = [
        {"a": math.nan if n == 50 else 10.0 ** (n / 10 - 3), "b": 0.5, "c": 1e6 * math.sin(n) + (1e9 if n == 7 else 0)}
        for n in range(100)
    ]
    whole = {one.name: one.paths[0].read_bytes() for one in plot_files.write(stored(*rows), tmp_path / "whole")}
    for name in ("a", "b", "c"):
        alone = stored(*[{name: row[name]} for row in rows])
        (made,) = plot_files.write(alone, tmp_path / name)
        assert made.paths[0].read_bytes() == whole[name], name


def test_nobody_elses_style_is_changed(tmp_path: Path) -> None:
    """A script that draws pictures of its own goes on as before; no window system is asked."""
    run = stored({"a": 1.0})
    code = (
        "import sys, matplotlib, chiplog\n"
        "before = matplotlib.rcParams.copy()\n"
        "from pathlib import Path\n"
        "from chiplog.views.charts import plot_files as plots\n"
        f"list(plots.write(chiplog.read({str(run.path)!r}), Path({str(tmp_path / 'out')!r})))\n"
        "assert matplotlib.rcParams.copy() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_thousand_metrics_are_not_two_thousand_pictures() -> None:
    """The rest is in the data."""
    assert len(names(stored({f"train/m{n}": 1.0 for n in range(2000)}))) == plot_files.MOST + 1


# -- curves ------------------------------------------------------------------------------------------------------------


def test_a_spike_does_not_make_the_rest_flat() -> None:
    """It is beyond the scale, and named with its place and value."""
    values = [{"a": 1.0 + 0.01 * math.sin(n)} for n in range(1000)]
    values[500] = {"a": 1000.0}
    drawn = curve(stored(*values).series("a"))
    assert drawn.top < 2.0 and [value for _, value in drawn.spikes] == [1000.0]
    assert drawn.spikes[0][0] == pytest.approx(500, abs=2)


def test_two_decades_make_a_log_scale() -> None:
    assert scale(*[np.geomspace(1e-4, 1, 100)] * 2)[2]
    assert not scale(*[np.linspace(1, 50, 100)] * 2)[2]
    assert not scale(*[np.linspace(-1, 50, 100)] * 2)[2]


def test_nan_is_marked_where_it_is() -> None:
    drawn = curve(stored(*[{"a": math.nan if n == 7 else 1.0} for n in range(20)]).series("a"))
    assert drawn.nans.tolist() == [7.0]


def test_a_smooth_line_stays_as_it_is_and_a_rough_one_does_not() -> None:
    """A learning rate keeps its corners."""
    corner = np.concatenate([np.linspace(0, 1, 50), np.linspace(1, 0, 450)])
    assert smooth(corner).max() == 1.0
    rough = np.random.default_rng(0).normal(size=500)
    assert smooth(rough).std() < 0.5 * rough.std()


def test_a_line_is_smoothed_as_its_scale_shows_it() -> None:
    """Over decades the small values are as rough as the large ones, and as smooth."""
    noise = np.random.default_rng(0).normal(size=500) * 0.3
    rows = [{"a": float(10.0 ** (2 - 4 * n / 500 + noise[n]))} for n in range(500)]
    drawn = curve(stored(*rows).series("a"))
    assert drawn.log
    rough, smoothed = (np.diff(np.log10(one)).std() for one in (drawn.mean, drawn.smooth))
    assert smoothed < 0.3 * rough


def test_the_labels_of_a_log_scale_are_numbers() -> None:
    """And no formulas."""
    with matplotlib_figures.styled():
        figure = matplotlib_figures.metric(
            curve(stored(*[{"a": 10.0 ** (n / 10)} for n in range(60)]).series("a")), "a", ranks=False
        )
    labels = [label.get_text() for label in figure.axes[0].texts]
    assert {"1", "100", "1e+04"} <= set(labels) and not any("$" in text for text in labels)


def test_a_band_has_a_gap_where_there_is_nothing() -> None:
    """What lies between two NaN is not filled over them."""
    values = np.array([1.0, 2.0, np.nan, 3.0, 4.0])
    drawn = curve(stored(*[{"a": 1.0}] * 2).series("a"))._replace(x=np.arange(5.0), low=values, high=values + 1)
    with matplotlib_figures.styled():
        _, (axes,) = matplotlib_figures.new(4, 3)
        matplotlib_figures.band(axes, drawn._replace(mean=values, smooth=values), matplotlib_figures.COLOURS[0])
    (band,) = axes.patches
    assert [len(polygon) for polygon in band.get_path().to_polygons(closed_only=False)] == [4, 4]


# -- what a person sees ------------------------------------------------------------------------------------------------


def legend(run: chiplog.Stored, name: str, *, ranks: bool = False) -> list[str]:
    (family,) = (one for one in families(run.names()) if one.name == name)
    with matplotlib_figures.styled():
        axes = matplotlib_figures.metric(draw(run, family), name, ranks=ranks).axes[0]
    return [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else []


def test_a_legend_names_what_is_drawn() -> None:
    """A line that is not smoothed is not called so, and a band that is not there has no name."""
    noise = np.random.default_rng(0).normal(size=3000)
    assert legend(stored(*[{"a": 1.0 * n} for n in range(20)]), "a") == []
    assert legend(stored(*[{"a": 1.0 * n} for n in range(100)]), "a") == []
    assert legend(stored(*[{"a": float(one)} for one in noise[:100]]), "a") == ["values", "smoothed"]
    assert legend(stored(*[{"a": float(one)} for one in noise]), "a") == ["all values", "mean", "smoothed"]
    assert legend(stored(*[{"a": math.nan if n == 7 else 1.0} for n in range(20)]), "a") == ["NaN"]
    same = {"a": 1.0, "a/mean": 1.0, "a/min": 1.0, "a/max": 1.0, "a/std": 0.0}
    assert legend(stored(*[same] * 20), "a", ranks=True) == ["mean of the ranks"]
    assert legend(stored(*[{**same, "a/max": 2.0}] * 20), "a", ranks=True) == [
        "lowest to highest rank",
        "mean of the ranks",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train/tokens_per_sec", 12345.6), ("train/step_time_sec", 0.100001), ("a" * 90 + "/b_sec", 1e-7),
        ("x_bytes", -4e12), ("loss", 1e-5),
    ],
)  # fmt: skip
def test_no_label_and_no_title_is_cut(name: str, value: float) -> None:
    """Whatever the numbers and however long the name: every text lies within the picture, and none over another."""
    noise = np.random.default_rng(0).normal(size=100) * 1e-4
    run = stored(*[{name: value * (1 + one)} for one in noise])
    for picture in plot_files.pictures(run):
        with matplotlib_figures.styled():
            figure = picture.figure()
            figure.canvas.draw()
            page = figure.bbox
            boxes = [text.get_window_extent() for text in texts_of(figure)]
            head = [text.get_window_extent() for axes in figure.axes for text in (axes.title, axes._left_title)]
            key = figure.axes[0].get_legend()
        for box in (*boxes, *(one for one in head if one.width > 1)):
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
        if key is not None:
            assert not any(one.width > 1 and one.overlaps(key.get_window_extent()) for one in head)


def texts_of(figure: Figure) -> list[Text]:
    return [text for axes in figure.axes for text in axes.texts if text.get_text()]


def test_ticks_of_one_point_are_within_its_panel() -> None:
    """An overview of metrics with a single point has one tick in each panel, and none in its neighbour's."""
    (overview, *_) = plot_files.pictures(stored({"a": 1.0, "b": 2.0, "c": 3.0}))
    with matplotlib_figures.styled():
        figure = overview.figure()
    for axes in figure.axes:
        across = [text for text in axes.texts if text.get_position()[1] < -0.01]
        assert [text.get_text() for text in across] == ["0"] and across[0].get_position()[0] == pytest.approx(0.5)


def test_rows_of_a_heat_map_are_whole_numbers() -> None:
    """Two layers, five experts: no half of either; and the labels lie within the picture."""
    matrix = chiplog.Matrix([[1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0]])
    (picture,) = plot_files.pictures(stored({"moe/load": matrix}))
    with matplotlib_figures.styled():
        figure = picture.figure()
        figure.canvas.draw()
        axes = figure.axes[0]
        labels = [text for axis in (axes.xaxis, axes.yaxis) for text in axis.get_ticklabels() if text.get_text()]
        assert {"0", "1"} <= {text.get_text() for text in labels} and not any("." in text.get_text() for text in labels)
        for text in (*labels, axes.xaxis.label, axes.yaxis.label):
            box = text.get_window_extent()
            assert figure.bbox.x0 <= box.x0 and figure.bbox.y0 <= box.y0


def test_a_constant_matrix_has_one_colour() -> None:
    """Every step of it, though values of double precision may differ from themselves in single."""
    rows = [{"moe/load": chiplog.Matrix([[0.1] * 4] * 3)} for _ in range(4)]
    (picture,) = plot_files.pictures(stored(*rows))
    with matplotlib_figures.styled():
        figure = picture.figure()
        figure.canvas.draw()
        colours = {tuple(one.to_rgba(one.get_array()).reshape(-1, 4)[0]) for axes in figure.axes for one in axes.images}
        images = [one.make_image(figure.canvas.get_renderer())[0] for axes in figure.axes for one in axes.images]
    assert len(images) == 4 and len(colours) == 1
    assert len({tuple(pixel) for image in images for pixel in image.reshape(-1, 4).tolist()}) == 1


def test_ranks_are_drawn_once_and_as_what_they_are() -> None:
    """Evaluation over training has no picture for each statistic, and which rank was slow has no curve."""
    one = {"train/loss": 1.0, "eval/loss": 2.0}
    row = {f"{name}/{kind}": 1.0 for name in one for kind in ("mean", "max", "min", "std")}
    found = names(stored(*[{**one, **row, "ranks/slowest": 0, "ranks/skew": 0.1, "ranks/behind_sec": 0.01}] * 3))
    assert found == ["eval_over_train_loss", "ranks", "train/loss", "eval/loss"]


def test_a_metric_of_another_rank_is_drawn_by_its_mean() -> None:
    """The main rank did not log it; its statistics are there."""
    assert names(stored({f"mine/{kind}": 1.0 for kind in ("mean", "max", "min", "std")})) == ["mine"]
