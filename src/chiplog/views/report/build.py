"""The report of a run: what was run, how it went, where its data is and how to reproduce it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from chiplog.core import display
from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.core.values.convert import double
from chiplog.core.values.flatten import flatten
from chiplog.core.values.redact import redact, redact_text, redact_words
from chiplog.metrics import catalog
from chiplog.store import layout
from chiplog.store.contents.contents import LOGGED, Contents
from chiplog.store.points.columns import Floats
from chiplog.store.reader import Stored
from chiplog.views import ansi
from chiplog.views.charts import svg
from chiplog.views.charts.curve_data import Curve, curve, deviation, main_series, statistics
from chiplog.views.charts.text_bars import bar_line
from chiplog.views.charts.text_plot import line_plot
from chiplog.views.metric_families import Family
from chiplog.views.metric_groups import curves_of
from chiplog.views.report.document import Block, Document, Grid, Pairs, Picture, Quote, Section, Words
from chiplog.views.report.machine import sections as health
from chiplog.views.without_warmup import after, in_words

CURVES = 60  # pictures; a run may have thousands of metrics
TEXTS = 12  # of them also as text plots, if there are no picture files
ROWS = 200  # of a table
POINTS = 300  # of a picture
EVALS, ALERTS, SAMPLES, LINES = 20, 50, 5, 50  # the newest


class Ends(NamedTuple):
    """How a run ends, for a process that writes the report before its own end: state, time, and seconds per stage."""

    state: str
    time: int  # wall-clock nanoseconds
    seconds: Mapping[str, float]  # by stage


def report(
    stored: Stored,
    *,
    title: str = "",
    pictures: Mapping[str, str] | None = None,
    contents: Contents | None = None,
    ends: Ends | None = None,
    warmup: int | float = 0,
) -> Document:
    """Build the document. `pictures` are the files that were drawn, by metric, as paths relative to the report."""
    contents = contents or stored.contents(*LOGGED)
    environment = redact(contents.environment)
    state = ends.state if ends else stored.state
    shown = curves_of(stored, contents)
    warm = after(stored, warmup)
    measured = [one for family in shown[:ROWS] if (one := _measure(warm, family)) is not None]
    measured.sort(key=lambda one: _weight(one.family.name))
    more = f"the first {ROWS:,} of {len(shown):,} metrics" if len(shown) > ROWS else ""
    more = ", ".join(filter(None, (more, in_words(warmup))))
    name = f"{stored.name} ({stored.id})" if stored.name != stored.id else stored.id
    sections = [
        Section("Run", [_what(stored, contents, environment, measured, ends)]),
        Section("Summary", [Pairs(list(flat(redact(contents.summary))))]),
        Section("Metric Overview", [_overview(measured, more)]),
        Section("Curves", list(_curves(warm, measured, pictures or {}))),
        Section("Histograms", list(_histograms(contents))),
        Section("Evaluations", [_evals(contents)]),
        *health(stored, contents, _reader(warm, measured), [one.family for one in measured]),
        Section("Alerts", [_alerts(contents)]),
        Section("Last Words", [_last_words(stored, state)]),
        Section("Samples", list(_samples(contents))),
        Section("Config", [Pairs(list(flat(redact(contents.config))))]),
        Section("Environment", [_environment(environment, redact(contents.notes["env_info"]))]),
        Section("Timings", [_timings(contents, ends)]),
        Section("Data", [_data(stored)]),
        Section("Reproduce", list(_reproduce(stored, environment))),
    ]
    under = f"{stored.project}, {state}, {display.date(stored.created)}" if stored.created else stored.project
    return Document(title or f"Run {redact_text(name)}", redact_text(under), sections)


class Measured(NamedTuple):
    """A metric with a summary of its curve."""

    family: Family
    drawn: Curve
    points: int
    last_step: float
    first: float
    last: float
    finite: int  # how many values are
    spread: tuple[float, ...]  # of the finite values: least, greatest, mean and standard deviation
    best: float | None  # None if it is unknown whether lower or higher is better
    best_at: float | None


def _measure(stored: Stored, family: Family) -> Measured | None:
    series = main_series(stored, family)
    if not len(series):  # a newer launch hides it
        return None
    values = series.values
    at = _best(family.name, values)
    finite = values if bool(np.isfinite(values).all()) else values[np.isfinite(values)]
    spread = (finite.min(), finite.max(), finite.mean(), deviation(finite)) if len(finite) else ()
    return Measured(
        family,
        curve(series, POINTS, statistics(stored, family), family.name),
        len(values),
        float(series.steps[-1]),
        float(values[0]),
        float(values[-1]),
        len(finite),
        tuple(map(float, spread)),
        None if at is None else float(values[at]),
        None if at is None else float(series.steps[at]),
    )


def _reader(stored: Stored, measured: Sequence[Measured]) -> Callable[[str], Floats]:
    """Reads the values of a metric of the report again: all of them at once would fill the memory."""
    families = {one.family.name: one.family for one in measured}
    return lambda name: main_series(stored, families[name]).values


def _best(name: str, values: Floats) -> int | None:
    better, finite = catalog.direction(name), np.isfinite(values)
    if not better or not finite.any():
        return None
    return int(
        np.argmin(np.where(finite, values, np.inf))
        if better == "lower"
        else np.argmax(np.where(finite, values, -np.inf))
    )


def _weight(name: str) -> tuple[int, str]:
    """Losses first, then metrics with a better direction, then the rest by name; machines last."""
    if catalog.is_loss(name):
        return 0, name
    return 1 if catalog.direction(name) else 3 if name.startswith("gpu/") else 2, name


# -- sections ----------------------------------------------------------------------------------------------------------


def _what(
    stored: Stored,
    contents: Contents,
    environment: Mapping[str, Plain],
    measured: Sequence[Measured],
    ends: Ends | None,
) -> Pairs:
    attempts = stored.attempts
    starts = [one.start.time for one in attempts if one.start is not None]
    lasts = [ends.time] if ends else [one.last.time for one in attempts if one.last is not None]
    took = display.duration((max(lasts) - min(starts)) / 1e9) if starts and lasts else ""
    steps = [one.last_step for one in measured]
    finish = None if ends else next((one.finish for one in reversed(attempts) if one.finish is not None), None)
    state = ends.state if ends else stored.state
    losses = [one for one in measured if catalog.is_loss(one.family.name)]
    world = max((one.start.world for one in attempts if one.start), default=1)
    return Pairs(
        [
            ("state", state + (f": {redact_text(finish.reason)}" if finish and finish.reason else "")),
            ("started", display.date(stored.created) if stored.created else ""),
            ("took", took),
            ("last step", _number(max(steps)) if steps else ""),
            ("attempts", display.count(launches) if (launches := len({one.attempt for one in attempts})) > 1 else ""),
            ("ranks", display.count(world) if world > 1 else ""),
            *((one.family.name, _in_words(one)) for one in losses[:4]),
            ("command", _command(environment)),
            ("git", _git(environment.get("git") or {})),
            ("tags", ", ".join(stored.tags)),
            ("damage", "; ".join(map(str, contents.damage))),
        ]
    )


def _in_words(one: Measured) -> str:
    best = "" if one.best is None else f", best {_number(one.best)} at step {_number(one.best_at)}"
    return f"{_number(one.first)} at first, {_number(one.last)} at last{best}"


def _overview(measured: Sequence[Measured], more: str) -> Grid:
    rows = []
    for one in measured:
        rows.append(
            [
                one.family.name,
                display.count(one.points),
                _number(one.first),
                _number(one.last),
                "" if one.best is None else _number(one.best),
                "" if one.best_at is None else _number(one.best_at),
                *(map(_number, one.spread) if one.spread else [""] * 4),
                display.count(one.points - one.finite) if one.finite < one.points else "",
                catalog.unit(one.family.name),
            ]
        )
    head = ["metric", "points", "first", "last", "best", "at step", "min", "max", "mean", "std", "not finite", "unit"]
    return Grid(head, rows, right=head[1:-1], more=more)


def _curves(stored: Stored, measured: Sequence[Measured], pictures: Mapping[str, str]) -> Iterator[Block]:
    names_logged = set(stored.names())
    for number, one in enumerate(measured[:CURVES]):
        name = one.family.name
        drawn, names = [one.drawn], [one.family.group]
        other = f"eval/{one.family.short}"
        if one.family.group == "train" and other in names_logged and not other.endswith("tokens"):
            drawn.append(curve(stored.series(other, missing_ok=True), POINTS))
            names.append("eval")
        file = pictures.get(name, "")
        text = "" if file or number >= TEXTS else _plotted(drawn)
        yield Picture(name, svg.chart(drawn, names), text, file)
    if len(measured) > CURVES:
        yield Words(f"{len(measured) - CURVES:,} more metrics are in the table above, and in the data.")


def _plotted(drawn: Sequence[Curve]) -> str:
    curves = [(one.name, one.x, one.mean) for one in drawn]
    return line_plot(curves, width=90, height=12, log=all(one.log for one in drawn))


def _histograms(contents: Contents) -> Iterator[Block]:
    """The newest histogram of each name."""
    for name, one in sorted(contents.histograms.items())[:CURVES]:
        at = "" if one.step is None else f" at step {_number(one.step)}"
        if one.mean is None:
            continue
        values = f"{_number(one.total)} values, mean {_number(one.mean)}, {_number(one.min)} to {_number(one.max)}"
        yield Picture(f"{name}{at}: {values}", svg.bars(one.edges, one.counts), bar_line(one.counts, 64))


def _evals(contents: Contents) -> Grid:
    """The newest evaluations as logged; statistics across ranks are bands of the curves."""
    evals = [record for record in contents.evals if not record.across]
    names = list(dict.fromkeys(name for record in evals for name in record.metrics if name != "step"))[:10]
    rows = [
        [_number(record.step), *(_number(record.metrics.get(name, "")) for name in names)] for record in evals[-EVALS:]
    ]
    more = f"the last {EVALS} of {len(evals):,}" if len(evals) > EVALS else ""
    return Grid(["step", *names], rows, right=["step", *names], more=more)


def _alerts(contents: Contents) -> Grid:
    alerts = list(contents.alerts)
    rows = [
        [
            "" if record.step is None else _number(record.step),
            record.level,
            redact_text(record.title),
            redact_text(record.text),
            ", ".join(f"{key} {_as_text(value)}" for key, value in flat(redact(record.evidence))),
        ]
        for record in alerts[-ALERTS:]
    ]
    more = f"the last {ALERTS} of {len(alerts):,}" if len(alerts) > ALERTS else ""
    return Grid(["step", "level", "alert", "what", "evidence"], rows, right=["step"], more=more)


def _last_words(stored: Stored, state: str) -> Quote:
    """The last output of a run that did not finish normally."""
    if state in ("finished", "running"):
        return Quote("")
    return Quote("\n".join(redact_words(ansi.plain(line.text)) for line in stored.console(LINES)))


def _samples(contents: Contents) -> Iterator[Block]:
    """The newest texts that were logged, and the newest rows of each table."""
    texts = sorted((one.time, name, one) for name, texts in contents.texts.items() for one in texts)
    for _, name, text in texts[-SAMPLES:]:
        at = "" if text.step is None else f", step {_number(text.step)}"
        yield Quote(redact_text(text.cells["text"])[:4000], f"{name}{at}")
    for name, samples in contents.tables.items():
        rows = [one.cells for one in list(samples)[-SAMPLES:]]
        head = list(dict.fromkeys(str(key) for row in rows for key in row))[:12]
        cells = [[redact_text(_as_text(row.get(key, "")))[:600] for key in head] for row in rows]
        yield Grid(head, cells, more=f"the newest rows of the table {name}")


def _environment(facts: Mapping[str, Plain], noted: Mapping[str, Plain]) -> Pairs:
    """What chiplog recorded at the start, then what the script recorded."""
    order = ("host", "platform", "cpus", "device", "python", "executable", "cwd", "script")
    first = [(key, str(facts[key])) for key in order if facts.get(key)]
    packages = [(name, str(version)) for name, version in (facts.get("packages") or {}).items()]
    variables = [(f"${name}", str(value)) for name, value in (facts.get("variables") or {}).items()]
    listed = {*order, "packages", "variables", "git", "command"}
    rest = list(flat({key: value for key, value in facts.items() if key not in listed}))
    return Pairs([*first, *packages, *variables, *rest, *flat(noted)])


def _timings(contents: Contents, ends: Ends | None) -> Pairs:
    """What the script has timed, and what each stage of its end took."""
    timed = [(name, _took(value)) for name, value in flatten(contents.notes["timings"])]
    return Pairs(
        [*timed, *((f"finalize/{stage}", _took(took)) for stage, took in (ends.seconds if ends else {}).items())]
    )


def _data(stored: Stored) -> Pairs:
    rows = [("run", str(stored.path.absolute()))]
    for name in (layout.JOURNAL, layout.PARTS, layout.FILES):
        sizes = [about.st_size for _, about in reading.walk(stored.path, name)]
        if sizes:
            rows.append((name, f"{display.counted(len(sizes), 'file')}, {display.size(sum(sizes))}"))
    return Pairs([*rows, ("read it", f"chiplog.read({str(stored.path.absolute())!r})")])


def _reproduce(stored: Stored, facts: Mapping[str, Plain]) -> Iterator[Block]:
    git = facts.get("git") or {}
    lines = [f"cd {shlex.quote(str(facts['cwd']))}"] if facts.get("cwd") else []
    if git.get("commit"):
        lines.append(
            f"git checkout {git['commit']}" + ("  # and changes that were not committed" if git.get("dirty") else "")
        )
    if command := _command(facts):
        lines.append(command)
    if lines:
        yield Quote("\n".join(lines))
    yield Words(f"The config is above, and in {Path(stored.path) / layout.IDENTITY}.")


# -- words -------------------------------------------------------------------------------------------------------------


def flat(data: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    """Nested settings as pairs of a name with slashes and a text."""
    return ((name, _as_text(value)) for name, value in flatten(data))


def _took(value: object) -> str:
    return f"{value:.2f}s" if isinstance(value, (int, float)) and not isinstance(value, bool) else _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        return _number(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)


def _number(value: object) -> str:
    """Integers in full, other numbers in about five digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == value and abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}" if abs(value) < 1e15 else f"{double(value):.4g}"
    return f"{value:.5g}"


def _command(facts: Mapping[str, Plain]) -> str:
    command = facts.get("command")
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")


def _git(git: Mapping[str, Plain]) -> str:
    if not git.get("commit"):
        return ""
    dirty = ", with changes that were not committed" if git.get("dirty") else ""
    return ", ".join(str(one) for one in (git.get("branch"), git["commit"], git.get("remote")) if one) + dirty
