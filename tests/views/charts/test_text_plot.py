import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chiplog.views.charts.text_plot import line_plot, sparkline

DOTS = re.compile("[\u2801-\u28ff]")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def inside(plot: str) -> list[str]:
    """The rows within the frame."""
    return [re.split("[│┤]", line)[1] for line in plot.splitlines() if line.endswith("│")]


def labels(plot: str) -> list[str]:
    """The labels of the y axis, from the top."""
    return [line.split("┤")[0].strip() for line in plot.splitlines() if "┤" in line]


def plot(y, x=None, *, width=60, height=10, label="loss", **how):
    return line_plot([(label, range(len(y)) if x is None else x, y)], width=width, height=height, **how)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_plot_is_as_wide_and_as_high_as_asked(width):
    """The frame fills the width, the inside has the height, and no line is longer."""
    drawn = plot(np.linspace(4, 2, 500), width=width, height=12, title="loss")
    assert max(map(len, drawn.splitlines())) == width
    assert len(inside(drawn)) == 12


def test_a_falling_curve_falls():
    """A straight line down begins in the top left and ends in the bottom right."""
    rows = inside(plot(np.linspace(4, 2, 500)))
    assert DOTS.match(rows[0][0]) and rows[0][-1] == " "
    assert DOTS.match(rows[-1][-1]) and rows[-1][0] == " "


@pytest.mark.parametrize("height", [10, 12, 20])
@pytest.mark.parametrize(
    ("low", "high"), [(2, 4), (1.47, 3.93), (-1, 1), (0, 7), (0.0013, 0.0016), (9e5, 3e6), (1e-8, 9e-8)]
)
def test_the_y_axis_has_four_to_six_tidy_labels(low, high, height):
    """The labels are few, differ from each other, run downwards, are short, and end in one column."""
    drawn = plot(np.linspace(low, high, 50), height=height)
    found = labels(drawn)
    assert 4 <= len(found) <= 6
    assert len(set(found)) == len(found)
    assert max(map(len, found)) <= 8
    units = {"k": 1e3, "M": 1e6}
    numbers = [float(text.rstrip("kM")) * units.get(text[-1], 1) for text in found]
    assert numbers == sorted(numbers, reverse=True)
    assert len({line.index("┤") for line in drawn.splitlines() if "┤" in line}) == 1


def test_the_x_axis_says_where_the_steps_are():
    """Labels of the steps stand below their ticks, and what they count stands at the end."""
    lines = plot(np.linspace(4, 2, 4501)).splitlines()
    assert lines[-1].split() == ["0", "1000", "2000", "3000", "4000", "step"]
    ticks = [at for at, char in enumerate(lines[-2]) if char == "┬"]
    assert all(
        abs(lines[-1].index(label) + len(label) // 2 - tick) <= 1
        for label, tick in zip(["1000", "2000"], ticks[1:3], strict=True)
    )


def test_whole_steps_have_whole_ticks():
    """There is no step one and a half."""
    assert "." not in plot([3.0, 2.0, 1.0]).splitlines()[-1]


@pytest.mark.parametrize("at", [0, 1, 31_415, 65_535, 99_999])
@pytest.mark.parametrize("spike", [9.0, -9.0])
def test_a_spike_of_one_point_is_never_hidden(at, spike):
    """One point in a hundred thousand that leaves the line reaches the edge of the plot."""
    values = np.zeros(100_000)
    values[at] = spike
    rows = inside(plot(values))
    assert DOTS.search(rows[0] if spike > 0 else rows[-1])


def test_a_spike_shows_under_a_smoothed_line():
    """Smoothing the line leaves the point where it is."""
    values = np.ones(5000)
    values[2500] = 100
    assert DOTS.search(inside(plot(values, smooth=0.99))[0])


def test_nan_is_marked_on_the_axis_and_counted():
    """NaN leaves a gap in the line, a cross below it, and a count in words with the first step."""
    values = np.ones(1000)
    values[500:600] = np.nan
    lines = plot(values).splitlines()
    bottom = next(line for line in lines if "└" in line)
    gap = [at for at, char in enumerate(bottom) if char == "×"]
    assert 4 <= len(gap) <= 8
    row = next(line for line in lines if DOTS.search(line))
    assert row[gap[2]] == " " and DOTS.match(row[gap[0] - 2])
    assert lines[-1].strip() == "×  loss: NaN at 100 of 1,000 points, from step 500"


def test_infinities_are_marked_at_their_side():
    """Plus infinity is marked at the top of the frame, minus infinity at the bottom; the scale is that of the rest."""
    drawn = plot([1.0, np.inf, 2.0, -np.inf, 3.0])
    assert "▲" in drawn.splitlines()[0]
    assert "▼" in next(line for line in drawn.splitlines() if "└" in line)
    assert labels(drawn)[0] == "3.0"


def test_a_log_scale_spaces_powers_of_ten_evenly():
    """An exponential decay is a straight line on a log scale, with powers of ten at its side."""
    drawn = plot(10.0 ** -np.linspace(0, 4, 400), height=13, log=True)
    assert labels(drawn) == ["1", "0.1", "0.01", "0.001", "0.0001"]
    middle = inside(drawn)[6]
    assert abs(DOTS.search(middle).start() + 2 - len(middle) / 2) <= 4


def test_a_log_scale_says_what_it_cannot_show():
    """Values that are not above zero are marked and counted, not dropped in silence."""
    drawn = plot([1.0, 0.0, 10.0, -5.0, 100.0], width=80, log=True)
    assert drawn.splitlines()[-1].strip() == "▼  loss: not above 0 (log scale) at 2 of 5 points, from step 1"


def test_a_log_scale_without_anything_above_zero_is_linear():
    """When no value can be shown on a log scale, a linear one shows them all and says so."""
    drawn = plot([-1.0, -2.0, -3.0], log=True)
    assert "the scale is linear" in drawn
    assert any(DOTS.search(row) for row in inside(drawn))


def test_a_constant_series_is_a_level_line():
    """All values the same: one row of dots from side to side, and labels around it."""
    drawn = plot([0.123] * 100)
    used = [row for row in inside(drawn) if DOTS.search(row)]
    assert len(used) == 1 and len(DOTS.findall(used[0])) == len(used[0])
    assert float(labels(drawn)[0]) > 0.123 > float(labels(drawn)[-1])


def test_a_single_point_is_a_dot_in_the_middle():
    """One point is visible, with its step below."""
    drawn = plot([3.3], x=[7])
    assert sum(len(DOTS.findall(row)) for row in inside(drawn)) == 1
    assert "7" in drawn.splitlines()[-1]


@pytest.mark.parametrize(
    ("curves", "words"),
    [
        ([], "no curves"),
        ([("loss", [], [])], "loss has no points"),
        ([("loss", [1, 2], [np.nan, np.inf])], "loss has 2 values, none of them finite"),
    ],
)
def test_nothing_to_draw_is_said(curves, words):
    """Without a point to draw there is no empty frame but a sentence."""
    assert line_plot(curves, width=60, height=8) == f"nothing to draw: {words}"


def test_several_curves_can_be_told_apart_without_colour():
    """The second curve has a character of its own, and the legend names both."""
    steps = range(100)
    drawn = line_plot([("train", steps, np.full(100, 1.0)), ("eval", steps, np.full(100, 2.0))], width=60, height=8)
    rows = inside(drawn)
    assert set(rows[0]) == {"o"} and all(DOTS.match(char) for char in rows[-1])
    assert drawn.splitlines()[-1].split() == ["⠒⠒", "train", "oo", "eval"]


def test_colour_only_when_asked():
    """No escape without `colour`; with it the same picture for one curve, and every line ends as it began."""
    values = np.linspace(4, 2, 500)
    plain, coloured = plot(values), plot(values, colour=True)
    assert "\x1b" not in plain and "\x1b[36m" in coloured
    assert ANSI.sub("", coloured) == plain
    assert all(codes[-1] == "\x1b[0m" for line in coloured.splitlines() if (codes := ANSI.findall(line)))


def test_ascii_for_terminals_without_braille():
    """With `ascii` everything is plain, labels and marks too."""
    drawn = line_plot(
        [("größe", range(50), [np.nan, *range(49)]), ("b", range(50), range(50))],
        width=60, height=8, ascii=True, smooth=0.5, title="…",
    )  # fmt: skip
    assert drawn.isascii()
    assert "**" in drawn and "oo" in drawn


def test_labels_from_a_run_cannot_move_the_cursor():
    """Control characters in a name are shown, not sent."""
    drawn = line_plot(
        [("a\x1b[2J\n", [0, 1], [0, 1]), ("b", [0, 1], [1, 0])], width=60, height=5, title="\x07", x_label="\r"
    )
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", drawn)
    assert "a\\x1b[2J\\x0a" in drawn


def test_a_long_label_is_shortened():
    """A name of five thousand characters does not break the lines."""
    drawn = line_plot([("a" * 5000, [0, 1], [0, 1]), ("b", [0, 1], [1, np.nan])], width=60, height=5, title="t" * 99)
    assert max(map(len, drawn.splitlines())) == 60


def test_steps_out_of_order_are_drawn_in_order():
    """Points are joined along the axis, whatever the order they came in."""
    order = np.random.default_rng(0).permutation(200)
    values = np.linspace(4, 2, 200)
    assert plot(values[order], x=order) == plot(values)


def test_smoothing_wants_a_share():
    """A weight of one or more has no past to forget, and is refused with its value."""
    with pytest.raises(ValueError, match=r"below 1, not 1\.5"):
        plot([1.0], smooth=1.5)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(), st.floats()), max_size=40),
    st.booleans(),
    st.booleans(),
    st.integers(-5, 130),
    st.integers(-5, 30),
)
@example([(0.0, 1.5e308)], True, False, 80, 20)
def test_any_numbers_give_a_plot(points, log, ascii_, width, height):
    """No double breaks a plot: the largest, the smallest, infinities and NaN on both axes."""
    drawn = line_plot(
        [("a", [x for x, _ in points], [y for _, y in points])],
        width=width,
        height=height,
        log=log,
        ascii=ascii_,
        smooth=0.5,
    )
    assert drawn
    assert max(map(len, drawn.splitlines())) <= max(width, 24)


def test_a_sparkline_follows_its_values():
    """Eight levels from the lowest to the highest, one character a value."""
    assert sparkline(range(8), 20) == "▁▂▃▄▅▆▇█"
    assert sparkline(range(8), 20, ascii=True) == "_.-=+*#@"


def test_a_sparkline_keeps_the_spike_and_the_nan():
    """In a column of many values the unusual one is shown."""
    values = np.zeros(1000)
    values[500], values[250] = 1.0, np.nan
    assert sparkline(values, 10) == "▁▁×▁▁█▁▁▁▁"


def test_a_sparkline_of_nothing_is_empty():
    """No values, no characters; one level for values that are all the same; a cross for none that is finite."""
    assert sparkline([], 10) == ""
    assert sparkline([3.0, 3.0], 10) == "▅▅"
    assert sparkline([np.nan, np.inf], 10) == "××"
