"""Aim's repositories: what describes a run is in a SQLite file, and its points are in RocksDB.

A run is copied before it is read, because Aim and RocksDB write next to what they open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign import child_reader, sqlite_file
from chiplog.store.foreign.protocol import (
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    Position,
    Rewritten,
    clean_name,
    digest,
    nanoseconds,
)
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.sqlite_file import Database

NAME = "aim"
FOLDER = ".aim"
CHUNKS = ("meta/chunks", "seqs/chunks")
READER = "chiplog.store.foreign.formats.aim.reader"
MISSING = "everything but its name: reading Aim's files needs its package: pip install 'chiplog[aim]'"
SYSTEM = "__system__"
COPY = 1 << 20  # bytes at a time


class _AimState(msgspec.Struct):
    """How many points of each series have been read, and the last of them."""

    counts: dict[str, int] = {}
    last: dict[str, str] = {}
    config: dict[str, Plain] = {}
    ended: int = 0


def find(folder: Folder) -> list[ForeignRun]:
    if folder.path.name != FOLDER and FOLDER not in folder.folders:
        return []
    repository = folder.path if folder.path.name == FOLDER else folder.path / FOLDER
    try:
        runs_inside = sorted(reading.names(repository, CHUNKS[0]))
    except OSError:
        return []
    folder.taken |= {FOLDER, *(folder.folders if folder.path.name == FOLDER else ())}
    facts = _facts(repository)
    installed = find_spec("aim") is not None
    runs = []
    for run in runs_inside:
        files = tuple(repository / name for part in CHUNKS for name, _ in reading.walk(repository, f"{part}/{run}"))
        about = partial(_about, facts.get(run) or About(repository.absolute().parent.name, run))
        read = partial(_read, repository, run) if installed else _read_nothing
        runs.append(ForeignRun(NAME, f"{NAME}:{run}", repository, files, about, read, NAME if installed else ""))
    return runs


def _facts(repository: Path) -> dict[str, About]:
    """What Aim's SQLite file has about runs, by hash."""
    database = Database(repository / "run_metadata.sqlite")
    if not reading.exists(repository, database.path.name) or not {"run", "experiment"} <= set(database.tables()):
        return {}
    query = (
        "SELECT run.hash, run.name, run.description, run.created_at, run.finalized_at, experiment.name "
        "FROM run LEFT JOIN experiment ON run.experiment_id = experiment.id"
    )
    tags = (
        "SELECT run.hash, tag.name FROM run JOIN run_tag ON run_tag.run_id = run.id JOIN tag ON run_tag.tag_id = tag.id"
    )
    facts: dict[str, About] = {}
    try:
        for run, name, notes, created, ended, experiment in database.all(query):
            about = About(str(experiment or NAME), str(run), str(name or ""), moment(created), moment(ended))
            about.source = {"notes": notes} if notes else {}
            facts[about.id] = about
        for run, tag in database.all(tags):
            facts[str(run)].tags = [*facts[str(run)].tags, str(tag)]
    except (sqlite_file.Unreadable, KeyError):
        pass
    return facts


def _about(facts: About, position: Plain) -> About:
    state = msgspec.convert(position, _AimState) if position else _AimState()
    config = dict(state.config)
    own = config.pop("hparams", {})  # Aim's usual name for all of it
    config |= own if isinstance(own, dict) else {"hparams": own}
    ended = facts.ended or state.ended
    return replace(facts, config=config, ended=ended, state="finished" if ended else "")


def _read_nothing(_: Plain, losses: Losses) -> Iterator[Item]:
    losses.set(MISSING, 1)
    yield from ()


def _read(repository: Path, run: str, position: Plain, losses: Losses) -> Iterator[Item]:
    losses.set(MISSING, 0)
    state = msgspec.convert(position, _AimState) if position else _AimState()
    seen: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="chiplog-") as folder:
        _copy(repository, run, Path(folder) / FOLDER)
        try:
            for line in child_reader.lines(READER, (folder, run)):
                yield from _items(line, state, seen, losses)
        except child_reader.ChildFailed as error:
            losses.set(f"the rest, which Aim cannot read ({error})", 1)
    if any(count > seen.get(name, 0) for name, count in state.counts.items()):
        raise Rewritten
    yield Position(msgspec.to_builtins(state), 1.0)


def _copy(repository: Path, run: str, target: Path) -> None:
    """The files of one run, and those that make a folder a repository; no links."""
    names = [name for part in CHUNKS for name, _ in reading.walk(repository, f"{part}/{run}")]
    for name in (*names, "VERSION", "run_metadata.sqlite"):
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with reading.open_file(repository, name) as file, place.open("wb") as copy:
                while data := file.read(COPY):
                    copy.write(data)
        except FileNotFoundError:
            continue


def _items(line: dict[str, Plain], state: _AimState, seen: dict[str, int], losses: Losses) -> Iterator[Item]:
    if "params" in line:
        state.config, state.ended = line["params"], nanoseconds(line["ended"])
    elif "lost" in line:
        losses.set(f"the sequence {line['lost']}, which is not numbers, texts or histograms", 1)
    elif "kind" in line:
        name, step, time = _name(line), line["step"], nanoseconds(line["time"])
        place = f"{line['kind']} {name}"
        seen[place] = seen.get(place, 0) + 1
        if seen[place] <= state.counts.get(place, 0):
            return
        state.counts[place] = seen[place]
        if line["kind"] == "text":
            yield records.TextRecord(0, time, name, cut(str(line["text"])), step)
        else:
            yield records.HistogramRecord(0, time, name, line["edges"], line["counts"], step)
    else:
        yield from _points(_name(line), line, state, seen)


def _points(name: str, line: dict[str, Plain], state: _AimState, seen: dict[str, int]) -> Iterator[Item]:
    done = state.counts.get(name, 0)
    for step, value, time in zip(line["steps"], line["values"], line["times"], strict=True):
        number = seen[name] = seen.get(name, 0) + 1
        if number < done:
            continue
        point = digest(repr((step, value)))
        if number == done:
            if point != state.last[name]:
                raise Rewritten
            continue
        yield records.Step(0, nanoseconds(time), step, {name: value})
        state.counts[name], state.last[name] = number, point


def _name(line: dict[str, Plain]) -> str:
    """The name of a sequence with its context: `train/loss` for the subset `train` of `loss`."""
    name, context = str(line["name"]), dict(line["context"] or {})
    if name.startswith(SYSTEM):
        name = f"system/{name.removeprefix(SYSTEM)}"
    if subset := context.pop("subset", None):
        name = f"{subset}/{name}"
    return clean_name("/".join([name, *(f"{key}={context[key]}" for key in sorted(context))]))
