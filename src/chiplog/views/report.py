"""The report of a run: what was run, how it went, where its data is and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chiplog.core.redact import redact, redact_text, redact_words
from chiplog.store import layout
from chiplog.store.columns import Floats
from chiplog.store.reader import Stored
from chiplog.store.series import Series
from chiplog.views import ansi, svg, units
from chiplog.views.document import Block, Document, Grid, Pairs, Picture, Quote, Section, Words
from chiplog.views.drawn import Drawn, curve, unit
from chiplog.views.facts import Facts
from chiplog.views.families import Family, families
from chiplog.views.health import sections as health
from chiplog.views.terminal import line_plot

CURVES = 60  # pictures; a run may have thousands of metrics
TEXTS = 12  # of them also in characters, where there are no files of pictures
ROWS = 200  # of a table
POINTS = 300  # of a picture
EVALS, ALERTS, SAMPLES, LINES = 20, 50, 5, 50  # the newest
WELL = ("loss", "perplexity", "ppl", "error", "wer", "bits_per_byte", "bpb")  # the lower the better
HIGH = ("acc", "accuracy", "reward", "f1", "bleu", "mfu", "tokens_per_sec", "goodput", "score", "win_rate")


def report(
    stored: Stored, *, title: str = "", pictures: Mapping[str, str] | None = None, facts: Facts | None = None
) -> Document:
    """The document. `pictures` are the files that were drawn, by metric, as paths seen from the report."""
    facts = facts or Facts(stored)
    environment = redact(facts.environment)
    shown = [family for family in families(stored.names()) if not family.counts]
    measured = [one for family in shown[:ROWS] if (one := _measure(stored, family)) is not None]
    measured.sort(key=lambda one: _weight(one.family.name))
    more = f"the first {ROWS:,} of {len(shown):,} metrics" if len(shown) > ROWS else ""
    name = f"{stored.name} ({stored.id})" if stored.name != stored.id else stored.id
    sections = [
        Section("Run", [_what(stored, facts, environment, measured)]),
        Section("Metric Overview", [_overview(measured, more)]),
        Section("Curves", list(_curves(stored, measured, pictures or {}))),
        Section("Evaluations", [_evals(facts)]),
        *health(stored, facts, {one.family.name: one.series for one in measured}),
        Section("Alerts", [_alerts(facts)]),
        Section("Last Words", [_last_words(stored)]),
        Section("Samples", list(_samples(facts))),
        Section("Config", [Pairs(list(flat(redact(facts.config))))]),
        Section("Environment", [_environment(environment)]),
        Section("Data", [_data(stored)]),
        Section("Reproduce", list(_reproduce(stored, environment))),
    ]
    under = f"{stored.project}, {stored.state}, {units.date(stored.created)}" if stored.created else stored.project
    return Document(title or f"Run {redact_text(name)}", redact_text(under), sections)


class Measured(NamedTuple):
    """A metric with what its curve says in numbers."""

    family: Family
    series: Series
    drawn: Drawn
    first: float
    last: float
    best: float | None  # None where nobody can say which way is better
    best_at: float | None


def _measure(stored: Stored, family: Family) -> Measured | None:
    series = stored.series(family.name)
    if not len(series):  # a newer launch hides it
        return None
    stats = {stat: stored.series(name) for stat, name in family.statistics.items()}
    at = _best(family.name, series.values)
    return Measured(
        family,
        series,
        curve(series, POINTS, stats),
        float(series.values[0]),
        float(series.values[-1]),
        None if at is None else float(series.values[at]),
        None if at is None else float(series.steps[at]),
    )


def _best(name: str, values: Floats) -> int | None:
    low, high = _is_one_of(name, WELL), _is_one_of(name, HIGH)
    finite = np.isfinite(values)
    if low == high or not finite.any():
        return None
    return int(np.argmin(np.where(finite, values, np.inf)) if low else np.argmax(np.where(finite, values, -np.inf)))


def _weight(name: str) -> tuple[int, str]:
    """Losses first, then what says how well it goes, then the rest by name; machines last."""
    loss = _is_one_of(name, ("loss",))
    rank = 0 if loss else 1 if _is_one_of(name, (*WELL, *HIGH)) else 3 if name.startswith("gpu/") else 2
    return rank, name


def _is_one_of(name: str, words: Sequence[str]) -> bool:
    """Whether a name ends in one of the words: `loss`, `train/loss`, `aux_loss`."""
    leaf = name.rpartition("/")[2]
    return leaf in words or leaf.endswith(tuple(f"_{word}" for word in words))


# -- sections ----------------------------------------------------------------------------------------------------------


def _what(stored: Stored, facts: Facts, environment: Mapping[str, Any], measured: Sequence[Measured]) -> Pairs:
    attempts = stored.attempts
    starts = [one.start.time for one in attempts if one.start is not None]
    ends = [one.last.time for one in attempts if one.last is not None]
    took = units.duration((max(ends) - min(starts)) / 1e9) if starts and ends else ""
    steps = [float(one.series.steps[-1]) for one in measured if len(one.series)]
    finish = next((one.finish for one in reversed(attempts) if one.finish is not None), None)
    losses = [one for one in measured if _is_one_of(one.family.name, ("loss",))]
    world = max((one.start.world for one in attempts if one.start), default=1)
    return Pairs(
        [
            ("state", stored.state + (f": {redact_text(finish.reason)}" if finish and finish.reason else "")),
            ("started", units.date(stored.created) if stored.created else ""),
            ("took", took),
            ("steps", _number(max(steps)) if steps else ""),
            ("attempts", units.count(len({one.attempt for one in attempts})) if len(attempts) > 1 else ""),
            ("ranks", units.count(world) if world > 1 else ""),
            *((one.family.name, _in_words(one)) for one in losses[:4]),
            ("command", _command(environment)),
            ("git", _git(environment.get("git") or {})),
            ("tags", ", ".join(stored.tags)),
            ("damage", "; ".join(map(str, facts.damage))),
        ]
    )


def _in_words(one: Measured) -> str:
    best = "" if one.best is None else f", best {_number(one.best)} at step {_number(one.best_at)}"
    return f"{_number(one.first)} at first, {_number(one.last)} at last{best}"


def _overview(measured: Sequence[Measured], more: str) -> Grid:
    rows = []
    for one in measured:
        values = one.series.values
        finite = values if (whole := bool(np.isfinite(values).all())) else values[np.isfinite(values)]
        numbers = [finite.min(), finite.max(), finite.mean(), finite.std()] if len(finite) else []
        rows.append(
            [
                one.family.name,
                units.count(len(values)),
                _number(one.first),
                _number(one.last),
                "" if one.best is None else _number(one.best),
                "" if one.best_at is None else _number(one.best_at),
                *([_number(float(number)) for number in numbers] or [""] * 4),
                "" if whole else units.count(len(values) - len(finite)),
                unit(one.family.name),
            ]
        )
    head = ["metric", "points", "first", "last", "best", "at step", "min", "max", "mean", "std", "not finite", "unit"]
    return Grid(head, rows, right=head[1:-1], more=more)


def _curves(stored: Stored, measured: Sequence[Measured], pictures: Mapping[str, str]) -> Iterator[Block]:
    known = set(stored.names())
    for number, one in enumerate(measured[:CURVES]):
        name = one.family.name
        drawn, names = [one.drawn], [name]
        other = f"eval/{one.family.short}"
        if one.family.group == "train" and other in known and not other.endswith("tokens"):
            drawn.append(curve(stored.series(other), POINTS))
            names.append(other)
        file = pictures.get(name, "")
        text = "" if file or number >= TEXTS else _plotted(drawn, names)
        yield Picture(name, svg.chart(drawn, names), text, file)
    if len(measured) > CURVES:
        yield Words(f"{len(measured) - CURVES:,} more metrics are in the table above, and in the data.")


def _plotted(drawn: Sequence[Drawn], names: Sequence[str]) -> str:
    curves = [(name, one.x, one.mean) for name, one in zip(names, drawn, strict=True)]
    return line_plot(curves, width=90, height=12, log=all(one.log for one in drawn))


def _evals(facts: Facts) -> Grid:
    found = facts.evals
    names = list(dict.fromkeys(name for record in found for name in record.metrics))[:10]
    rows = [
        [_number(record.step), *(_number(record.metrics.get(name, "")) for name in names)] for record in found[-EVALS:]
    ]
    more = f"the last {EVALS} of {len(found):,}" if len(found) > EVALS else ""
    return Grid(["step", *names], rows, right=["step", *names], more=more)


def _alerts(facts: Facts) -> Grid:
    found = facts.alerts
    rows = [
        [
            "" if record.step is None else _number(record.step),
            record.level,
            redact_text(record.title),
            redact_text(record.text),
            ", ".join(f"{key} {_said(value)}" for key, value in flat(redact(record.evidence))),
        ]
        for record in found[-ALERTS:]
    ]
    more = f"the last {ALERTS} of {len(found):,}" if len(found) > ALERTS else ""
    return Grid(["step", "level", "alert", "what", "evidence"], rows, right=["step"], more=more)


def _last_words(stored: Stored) -> Quote:
    """What a run that did not come to a good end printed last."""
    if stored.state in ("finished", "running"):
        return Quote("")
    return Quote("\n".join(redact_words(ansi.plain(line.text)) for line in stored.console(LINES)))


def _samples(facts: Facts) -> Iterator[Block]:
    """The newest texts that were logged, and the newest rows of each table."""
    for record in facts.texts[-SAMPLES:]:
        at = "" if record.step is None else f", step {_number(record.step)}"
        yield Quote(redact_text(record.text)[:4000], f"{record.name}{at}")
    tables: dict[str, list[dict[str, Any]]] = {}
    for found in facts.tables:
        kept = tables.setdefault(found.name, [])
        kept += found.rows
        del kept[:-SAMPLES]
    for name, rows in tables.items():
        head = list(dict.fromkeys(str(key) for row in rows for key in row))[:12]
        cells = [[redact_text(_said(row.get(key, "")))[:600] for key in head] for row in rows]
        yield Grid(head, cells, more=f"the newest rows of the table {name}")


def _environment(facts: Mapping[str, Any]) -> Pairs:
    order = ("host", "platform", "cpus", "device", "python", "executable", "cwd", "script")
    first = [(key, str(facts[key])) for key in order if facts.get(key)]
    packages = [(name, str(version)) for name, version in (facts.get("packages") or {}).items()]
    variables = [(f"${name}", str(value)) for name, value in (facts.get("variables") or {}).items()]
    known = {*order, "packages", "variables", "git", "command"}
    rest = list(flat({key: value for key, value in facts.items() if key not in known}))
    return Pairs([*first, *packages, *variables, *rest])


def _data(stored: Stored) -> Pairs:
    folders = {name: stored.path / name for name in (layout.JOURNAL, layout.PARTS, layout.FILES)}
    rows = [("run", str(stored.path.absolute()))]
    for name, folder in folders.items():
        files = [file for file in folder.rglob("*") if file.is_file()]
        if files:
            rows.append((name, f"{len(files):,} files, {units.size(sum(file.stat().st_size for file in files))}"))
    return Pairs([*rows, ("read it", f"chiplog.read({str(stored.path.absolute())!r})")])


def _reproduce(stored: Stored, facts: Mapping[str, Any]) -> Iterator[Block]:
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


def flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as pairs of a name with slashes and a text."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}/")
        else:
            yield name, _said(value)


def _said(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        return _number(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)


def _number(value: Any) -> str:
    """Whole numbers whole, others in about five digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == value and abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}" if abs(value) < 1e15 else f"{float(value):.4g}"
    return f"{value:.5g}"


def _command(facts: Mapping[str, Any]) -> str:
    command = facts.get("command")
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")


def _git(git: Mapping[str, Any]) -> str:
    if not git.get("commit"):
        return ""
    dirty = ", with changes that were not committed" if git.get("dirty") else ""
    return ", ".join(str(one) for one in (git.get("branch"), git["commit"], git.get("remote")) if one) + dirty
