"""Layouts: what a line on the console shows of a row, as data.

A column takes the first of its names that the row has. Names that begin with `@` are facts that the console works out:
`@step`, `@share` (percent), `@trend` (-1 falling, 1 rising), `@spike`, `@step_time_sec`, `@tokens_per_sec`, `@eta` (s),
`@hidden` (steps not shown), `@phase` (as an event `phase` says it), and `@gap` of an eval.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from chiplog.core import notes

Cell: TypeAlias = int | float | bool | str
Cells: TypeAlias = Mapping[str, Cell]
Form: TypeAlias = str | Callable[[Cell, Cells], str]  # a format string, or a function of the value and its row
Rest: TypeAlias = Callable[[str, Cell, Cells], str | None]  # a name, its value and its row; None is not shown

Block: TypeAlias = Callable[[Mapping[str, Any], int | float | None], Iterable[str]]  # an event's data, and its step

LONGEST_NAME = 40  # characters
MOST_PLANS = 256


class Mark(NamedTuple):
    """One sign that stands where `{}` is in the text before a column."""

    fact: str
    signs: Mapping[Cell, str]
    style: str = ""


class Column(NamedTuple):
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
    rank: int = 0  # where not all fit, the highest goes first


class Layout(NamedTuple):
    """Everything a console needs to know about its lines."""

    steps: tuple[Column, ...]
    evals: tuple[Column, ...]
    loss: tuple[str, ...]  # what the trend and the gap are about
    norm: tuple[str, ...]  # what may spike
    tokens: tuple[str, ...]
    step_time: tuple[str, ...]
    quiet: frozenset[str]  # names that get no place in a line
    timing: frozenset[str]  # names that are worth no second line of a step
    rest: Rest | None  # how names without a column are shown
    before_rest: str = " | "
    epoch: tuple[str, ...] = ()  # whose fraction is the share; without them it is that of the whole run
    recent: int = 10  # losses that the newest one is held against
    warm_up: int = 1  # gradient norms before one may spike
    no_gap: str = ""  # what stands for the gap of an eval without steps before it
    blocks: Mapping[str, Block] = {}  # the lines of events, by their name
    only: bool = False  # these lines, and nothing of our own around them; a row needs a loss
    alerts: bool = True
    around_evals: tuple[str, str] = ("", "")  # escapes before and behind the line, where there is colour


class Line:
    """Puts rows into columns, one line each, however narrow."""

    def __init__(self, columns: tuple[Column, ...], layout: Layout) -> None:
        self._columns = columns
        self._layout = layout
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], _Plan] = {}

    def put(self, row: Cells, facts: Cells, *, width: int, colour: bool = False) -> str:
        """The line of a row; what does not fit in `width` is counted at its end."""
        key = (tuple(row), tuple(facts))
        plan = self._plans.get(key) or self._plan(key)
        texts = [_column(column, name, row, facts, colour) for column, name in plan.columns]
        widths = [_width(text) for text, _ in texts]
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
            text = "" if hidden else _clean(form(name, row[name], row) or "")
            used += len(gap) + _width(text) if text else 0
            if hidden or used > width - plan.room:
                hidden += 1
            elif text:
                pieces.append(gap + text)
        return "".join(pieces) + (f" +{hidden}" if hidden else "")

    def _plan(self, key: tuple[tuple[str, ...], tuple[str, ...]]) -> _Plan:
        names, facts = key
        known = {*names, *facts}
        columns: list[tuple[Column, str]] = []
        for column in self._columns:
            name = next((name for name in column.names if name in known), None)
            if name is not None or not column.names:
                columns.append((column, name or ""))
        taken = {name for _, name in columns} | self._layout.quiet
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        rest = tuple(name for name in names if name not in taken)
        spare = [place for place, (column, _) in enumerate(columns) if column.rank]
        spare.sort(key=lambda place: (columns[place][0].rank, place), reverse=True)
        plan = self._plans[key] = _Plan(tuple(columns), rest, tuple(spare), len(f" +{len(names)}"))
        return plan


class _Plan(NamedTuple):
    """Which column shows which name, for rows with the same names."""

    columns: tuple[tuple[Column, str], ...]
    rest: tuple[str, ...]
    spare: tuple[int, ...]  # places of the columns that may go, in that order
    room: int  # for the count of what does not fit


def _column(column: Column, name: str, row: Cells, facts: Cells, colour: bool) -> tuple[str, str]:
    """A column as plain text, and as it is painted."""
    label, _, form, wide, align, unit, before, join, mark, style, _ = column
    if name:
        value = facts[name] if name in facts else row[name]
        try:
            text = _clean(form.format(value) if isinstance(form, str) else form(value, row))
        except (ValueError, TypeError, OverflowError):  # a text where a number was meant, or an int beyond all floats
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


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def _clean(text: str) -> str:
    return text if text.isprintable() else notes.clean(text)


def _width(text: str) -> int:
    """The places a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char) for char in text)


def cut(text: str, width: int) -> str:
    """A text of at most `width` characters, the cut marked."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


# -- forms -------------------------------------------------------------------------------------------------------------

NOTHING: Cells = {}


def number(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """Four decimals where they say something, otherwise an exponent: `2.3456`, `1.2e-07`."""
    if isinstance(value, str):
        return compact(value)
    size = abs(value)
    return f"{value:.4f}" if 1e-3 <= size < 1e5 or not size else f"{value:.1e}" if size < float("inf") else f"{value:f}"


def compact(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """A value in few characters: four digits, whole numbers as they are up to a million, short texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return cut(_clean(value), 20)
    if isinstance(value, int) and abs(value) < 1_000_000:
        return str(value)
    try:
        return amount(value) if isinstance(value, int) else f"{value:.4g}"
    except OverflowError:
        return "huge" if value > 0 else "-huge"


def amount(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """A large number with its suffix: `950`, `125.3k`, `1.2M`, `3.0B`."""
    if isinstance(value, str):
        return compact(value)
    size = float(value)
    for suffix in ("", "k", "M", "B", "T"):
        if abs(size) < 999.95:
            return f"{size:.1f}{suffix}" if suffix or abs(size) < 100 else f"{size:.0f}"
        size /= 1000
    return f"{size * 1000:.1e}T"


def milliseconds(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """Seconds in milliseconds, three digits at least: `1.56`, `15.6`, `156`."""
    if isinstance(value, str):
        return compact(value)
    size = value * 1000.0
    return f"{size:.2f}" if abs(size) < 9.995 else f"{size:.1f}" if abs(size) < 99.95 else f"{size:.0f}"


def duration(value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """Seconds in six characters: `00m42s`, `02h15m`, `04d03h`."""
    if isinstance(value, str) or not 0 <= value < 1e9:
        return compact(value)
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, rest = divmod(hours, 24)
    if days >= 4:
        return f"{days:02d}d{rest:02d}h"
    return f"{hours:02d}h{minutes:02d}m" if hours else f"{minutes:02d}m{seconds:02d}s"


def name_and_value(name: str, value: Cell, row: Cells = NOTHING) -> str:  # noqa: ARG001
    """A metric without a column: `accuracy 0.9123`."""
    return f"{cut(name.removeprefix('train/'), LONGEST_NAME)} {compact(value)}"


# -- ours --------------------------------------------------------------------------------------------------------------

LOSS = ("train/loss", "loss")
NORM = ("train/grad_norm", "grad_norm", "train/norm", "norm")
RATE = ("train/lr", "lr", "train/learning_rate", "learning_rate")
SPEED = ("train/tokens_per_sec", "tokens_per_sec", "train/tps", "tps", "@tokens_per_sec")
TOKENS = ("train/tokens", "tokens")
STEP_TIME = ("train/step_time_sec", "step_time_sec")
# What the meter of steps adds, and nobody needs on every line.
MEASURED = tuple(
    f"train/{name}" for name in ("data_time_sec", "data_wait", "steps_per_sec", "samples_per_sec", "eta_sec")
)
EVAL_TIME = ("time_sec", "eval_time_sec", "duration_sec", *STEP_TIME)

TREND = Mark("@trend", {-1: "\\", 1: "/"}, style="36")
SPIKE = Mark("@spike", {1: "!"}, style="31")

# :: step     100 [ 12.5%] \ loss  2.3456 | norm  0.1234 | lr 3.0e-04 | 125.3k tok/s |   156 ms | eta 02h15m
DEFAULT = Layout(
    steps=(
        Column("step", ("@step",), "{}", 7, before=":: "),
        Column("", ("@share",), "[{:5.1f}%]", before=" ", style="2", rank=2),
        Column("loss", LOSS, number, 7, before=" {} ", mark=TREND, style="1"),
        Column("norm", NORM, number, 7, before=" |{}", mark=SPIKE, rank=3),
        Column("lr", RATE, "{:.1e}", 7, rank=6),
        Column("", SPEED, amount, 6, unit=" tok/s", rank=1),
        Column("", (*STEP_TIME, "@step_time_sec"), milliseconds, 5, unit=" ms", rank=5),
        Column("eta", ("@eta", "train/eta_sec"), duration, 6, style="2", rank=4),
        Column("", ("@hidden",), "{:d} not shown", style="2"),
    ),
    # >> eval     loss  2.1234 | gap +0.0123 | 145.2k tok/s |   234 ms
    evals=(
        Column(">> eval    ", before="", style="36"),
        Column("loss", ("loss",), number, 7, before=" ", style="1"),
        Column("gap", ("@gap",), "{:+.4f}", rank=1),
        Column("", ("tokens_per_sec", "tps"), amount, 6, unit=" tok/s", rank=2),
        Column("", EVAL_TIME, milliseconds, 5, unit=" ms", rank=3),
    ),
    loss=LOSS,
    norm=NORM,
    tokens=TOKENS,
    step_time=STEP_TIME,
    quiet=frozenset((*TOKENS, *STEP_TIME, *MEASURED)),
    timing=frozenset((*TOKENS, *STEP_TIME, *SPEED, *MEASURED, "train/mfu", "train/hfu", "train/epoch")),
    rest=name_and_value,
)
