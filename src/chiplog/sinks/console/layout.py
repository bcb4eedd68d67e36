"""Layouts: what a line on the console shows of a row, as data.

A column shows the first of its names that the row has. Names that start with `@` are facts that the console computes:
`@step`, `@share` (percent), `@trend` (-1 falling, 1 rising), `@spike`, `@step_time_sec`, `@tokens_per_sec`, `@eta` (s),
`@hidden` (steps not shown), `@phase` (from an event `phase`), `@loss_mean` (of all ranks), and `@gap` of an eval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from chiplog.core import display, messages
from chiplog.core.display import columns, compact, cut, paint
from chiplog.core.records import Plain
from chiplog.metrics.catalog import (
    GRADIENT_NORM,
    LEARNING_RATE,
    LOSS,
    STEP_TIME,
    TOKENS,
    TOKENS_PER_SEC,
    is_statistic,
)

Cell: TypeAlias = int | float | bool | str
Cells: TypeAlias = Mapping[str, Cell]
Form: TypeAlias = str | Callable[[Cell, Cells], str]  # a format string, or a function of the value and its row
Rest: TypeAlias = Callable[[str, Cell, Cells], str | None]  # a name, its value and its row; None is not shown

Block: TypeAlias = Callable[[Mapping[str, Plain], int | float | None], Iterable[str]]  # an event's data, and its step

LONGEST_NAME = 40  # characters, on a line of limited width
UNLIMITED = 1 << 30  # columns: for a file or another program
MOST_PLANS = 256


class Mark(NamedTuple):
    """A sign that replaces `{}` in the text before a column."""

    fact: str
    signs: Mapping[Cell, str]
    style: str = ""


class LayoutColumn(NamedTuple):
    """One value of a line; without names, only its label."""

    label: str
    names: tuple[str, ...] = ()
    form: Form = "{:.4g}"
    width: int = 0
    align: str = ">"
    unit: str = ""
    before: str = " | "
    join: str = " "  # between the label and the value
    mark: Mark | None = None
    style: str = ""  # the numbers of an SGR escape
    rank: int = 0  # if not all fit, the highest is left out first


class Layout(NamedTuple):
    """Everything a console needs for its lines."""

    steps: tuple[LayoutColumn, ...]
    evals: tuple[LayoutColumn, ...]
    loss: tuple[str, ...]  # the metric of the trend and the gap
    norm: tuple[str, ...]  # what may spike
    tokens: tuple[str, ...]
    step_time: tuple[str, ...]
    quiet: frozenset[str]  # names that are not shown
    timing: frozenset[str]  # names that do not justify a second line for a step
    rest: Rest | None  # how names without a column are shown
    before_rest: str = " | "
    epoch: tuple[str, ...] = ()  # whose fraction is the share; without them, of the whole run
    recent: int = 10  # losses that the newest one is compared with
    warm_up: int = 1  # gradient norms before one may spike
    no_gap: str = ""  # the gap of an eval without steps before it
    mean_gap: bool = False  # the gap is to the mean loss since the last eval, not to the loss of the step
    blocks: Mapping[str, Block] = {}  # the lines of events, by their name
    only: bool = False  # only these lines; a row needs a loss
    alerts: bool = True
    around_evals: tuple[str, str] = ("", "")  # escapes before and after the line, with colour


class ConsoleLine:
    """Formats rows as lines of columns, however narrow."""

    def __init__(self, columns: tuple[LayoutColumn, ...], layout: Layout) -> None:
        self._columns = columns
        self._layout = layout
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], _Plan] = {}

    def put(self, row: Cells, facts: Cells, *, width: int, colour: bool = False) -> str:
        """The line of a row; what does not fit in `width` is counted at its end."""
        key = (tuple(row), tuple(facts))
        plan = self._plans.get(key) or self._plan(key)
        texts = [_column(column, name, row, facts, colour) for column, name in plan.columns]
        widths = [columns(text) for text, _ in texts]
        used, hidden = sum(widths), 0
        if used > (width - plan.room if plan.rest else width):
            for place in plan.spare:
                if used <= width - plan.room:
                    break
                used -= widths[place]
                texts[place] = ("", "")
                hidden += plan.columns[place][1] in row
            if used > width - plan.room:
                return cut("".join([text for text, _ in texts]) + f" +{hidden + len(plan.rest)}", width)
        pieces = [painted for _, painted in texts]
        form, gap = self._layout.rest, self._layout.before_rest
        for name in plan.rest if form else ():
            assert form
            short = form is name_and_value and width < UNLIMITED
            text = "" if hidden else _clean(form(cut_name(name) if short else name, row[name], row) or "")
            used += len(gap) + columns(text) if text else 0
            if hidden or used > width - plan.room:
                hidden += 1
            elif text:
                pieces.append(gap + text)
        return "".join(pieces) + (f" +{hidden}" if hidden else "")

    def _plan(self, key: tuple[tuple[str, ...], tuple[str, ...]]) -> _Plan:
        names, facts = key
        available = {*names, *facts}
        columns: list[tuple[LayoutColumn, str]] = []
        for column in self._columns:
            name = next((name for name in column.names if name in available), None)
            if name is not None or not column.names:
                columns.append((column, name or ""))
        taken = {name for _, name in columns} | self._layout.quiet
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        rest = tuple(name for name in names if name not in taken and not self._is_of_quiet(name))
        spare = [place for place, (column, _) in enumerate(columns) if column.rank]
        spare.sort(key=lambda place: (columns[place][0].rank, place), reverse=True)
        plan = self._plans[key] = _Plan(tuple(columns), rest, tuple(spare), len(f" +{len(names)}"))
        return plan

    def _is_of_quiet(self, name: str) -> bool:
        """Whether this is a statistic of something that is not shown, such as `train/step_time_sec/mean`."""
        return is_statistic(name) and name.rpartition("/")[0] in self._layout.quiet


class _Plan(NamedTuple):
    """Which column shows which name, for rows with the same names."""

    columns: tuple[tuple[LayoutColumn, str], ...]
    rest: tuple[str, ...]
    spare: tuple[int, ...]  # columns that may be left out, in that order
    room: int  # for the number of values that do not fit


def _column(column: LayoutColumn, name: str, row: Cells, facts: Cells, colour: bool) -> tuple[str, str]:
    """A column as plain text, and with colour."""
    label, _, form, wide, align, unit, before, join, mark, style, _ = column
    if name:
        value = facts[name] if name in facts else row[name]
        try:
            text = _clean(form.format(value) if isinstance(form, str) else form(value, row))
        except (ValueError, TypeError, OverflowError):  # text instead of a number, or an integer beyond all floats
            text = compact(value)
        text = text.rjust(wide) if align == ">" else text.ljust(wide)
        text = f"{label}{join}{text}{unit}" if label else text + unit
    else:
        text = label
    sign = " " if mark is None else mark.signs.get(facts.get(mark.fact, 0), " ")
    plain = before.replace("{}", sign) + text if mark else before + text
    if not colour:
        return plain, plain
    return plain, before.replace("{}", paint(sign, mark.style) if mark and sign != " " else sign) + paint(text, style)


def _clean(text: str) -> str:
    return text if text.isprintable() else messages.clean(text)


# -- forms -------------------------------------------------------------------------------------------------------------

NOTHING: Cells = {}


def of_value(words: Callable[[Cell], str]) -> Callable[..., str]:
    """A form that uses the value alone."""
    return lambda value, row=NOTHING: words(value)  # noqa: ARG005


number = of_value(display.decimals)
amount = of_value(display.amount)
milliseconds = of_value(display.milliseconds)
duration = of_value(display.time_left)


def name_and_value(name: str, value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """A metric without a column: `accuracy 0.9123`."""
    return f"{name.removeprefix('train/')} {compact(value)}"


def cut_name(name: str) -> str:
    return cut(name.removeprefix("train/"), LONGEST_NAME)


# -- ours --------------------------------------------------------------------------------------------------------------

SPEED = (*TOKENS_PER_SEC, "@tokens_per_sec")
# Added by the step meter, and not needed on every line.
MEASURED = tuple(
    f"train/{name}"
    for name in ("data_time_sec", "data_wait", "steps_per_sec", "samples_per_sec", "eta_sec", "interval_steps")
)
EVAL_TIME = ("time_sec", "eval_time_sec", "duration_sec", *STEP_TIME)

TREND = Mark("@trend", {-1: "\\", 1: "/"}, style="36")
SPIKE = Mark("@spike", {1: "!"}, style="31")

# :: step     100 [ 12.5%] \ loss  2.3456 | norm  0.1234 | lr 3.0e-04 | 125.3k tok/s |   156 ms | eta 02h15m
DEFAULT = Layout(
    steps=(
        LayoutColumn("step", ("@step",), "{}", 7, before=":: "),
        LayoutColumn("", ("@share",), "[{:5.1f}%]", before=" ", style="2", rank=2),
        LayoutColumn("loss", LOSS, number, 7, before=" {} ", mark=TREND, style="1"),
        LayoutColumn("mean", ("@loss_mean",), number, 7, before=", ", rank=7),
        LayoutColumn("norm", GRADIENT_NORM, number, 7, before=" |{}", mark=SPIKE, rank=3),
        LayoutColumn("lr", LEARNING_RATE, "{:.1e}", 7, rank=6),
        LayoutColumn("", SPEED, amount, 6, unit=" tok/s", rank=1),
        LayoutColumn("", (*STEP_TIME, "@step_time_sec"), milliseconds, 5, unit=" ms", rank=5),
        LayoutColumn("eta", ("@eta", "train/eta_sec"), duration, 6, style="2", rank=4),
        LayoutColumn("", ("@hidden",), "{:d} not shown", style="2"),
    ),
    # >> eval     loss  2.1234 | gap +0.0123 | 145.2k tok/s |   234 ms
    evals=(
        LayoutColumn(">> eval    ", before="", style="36"),
        LayoutColumn("loss", ("loss",), number, 7, before=" ", style="1"),
        LayoutColumn("gap", ("@gap",), "{:+.4f}", rank=1),
        LayoutColumn("", ("tokens_per_sec", "tps"), amount, 6, unit=" tok/s", rank=2),
        LayoutColumn("", EVAL_TIME, milliseconds, 5, unit=" ms", rank=3),
    ),
    loss=LOSS,
    norm=GRADIENT_NORM,
    tokens=TOKENS,
    step_time=STEP_TIME,
    quiet=frozenset((*TOKENS, *STEP_TIME, *MEASURED)),
    timing=frozenset((*TOKENS, *STEP_TIME, *SPEED, *MEASURED, "train/mfu", "train/hfu", "train/epoch")),
    rest=name_and_value,
)
