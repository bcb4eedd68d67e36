"""ClearML's offline sessions: `task.json`, and events in `metrics.jsonl` and `log.jsonl`, in arrays of any size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chiplog.core import records
from chiplog.core.records import NONFINITE, Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.archive import Archive
from chiplog.store.foreign.formats.archives.archived_runs import archives
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position, Rewritten, clean_name
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.yaml_and_json import decoded, from_text

NAME = "clearml"
TASK, METRICS, LOG = "task.json", "metrics.jsonl", "log.jsonl"
LARGEST = 64 << 20
_NO_ITERATION = -(2**31)  # of a single value
_MONITOR = ":monitor:"


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for archive in archives(folder, TASK, METRICS):
        task = _task(archive)
        if not isinstance(task.get("id"), str):
            continue
        about, read = partial(_about, archive, task), partial(_read, archive)
        version = archive.stamp()
        runs.append(
            ForeignRun(NAME, f"{NAME}:{task['id']}", archive.path, archive.sources(METRICS, LOG), about, read, version)
        )
    return runs


def _task(archive: Archive) -> dict[str, Plain]:
    task = decoded(archive.read(TASK, LARGEST))
    return task if isinstance(task, dict) else {}


def _about(archive: Archive, task: dict[str, Plain], _: Plain) -> About:
    config: dict[str, Plain] = {}
    for section, params in _mapping(task.get("hyperparams")).items():
        values = {name: from_text(str(_mapping(one).get("value"))) for name, one in _mapping(params).items()}
        config |= values if section == "General" else {str(section): values}
    script = _mapping(task.get("script"))
    facts = {
        "script": script.get("entry_point"),
        "python": script.get("binary"),
        "repository": script.get("repository"),
    }
    source = {key: task[key] for key in ("type", "comment", "parent") if task.get(key)}
    return About(
        project=str(task.get("project_name") or _mapping(task.get("project")).get("name") or NAME),
        id=str(task["id"]).removeprefix("offline-"),
        name=str(task.get("name") or ""),
        created=_first_time(archive),
        tags=[str(tag) for tag in task.get("tags") or ()],
        config=config,
        environment={key: value for key, value in facts.items() if value},
        source={"id": task["id"], **source},
        summary=dict(_single_values(archive)),
        state="finished" if archive.is_packed else "",  # it is packed when the task is closed
    )


def _mapping(value: Plain) -> dict[str, Plain]:
    return value if isinstance(value, dict) else {}


def _events(archive: Archive, name: str, losses: Losses) -> Iterator[dict[str, Plain]]:
    for line in archive.lines(name, losses):
        events = decoded(line) if line.strip() else []
        for event in events if isinstance(events, list) else [events]:
            if isinstance(event, dict):
                yield event
            else:
                losses.add("events that are damaged")


def _first_time(archive: Archive) -> int:
    times = (moment(event.get("timestamp")) for name in (LOG, METRICS) for event in _events(archive, name, Losses()))
    return next((time for time in times if time), 0)


def _single_values(archive: Archive) -> Iterator[tuple[str, Number]]:
    for event in _events(archive, METRICS, Losses()):
        if event.get("iter") == _NO_ITERATION and (value := _number(event.get("value"))) is not None:
            yield clean_name(str(event.get("variant"))), value


def _read(archive: Archive, position: Plain, losses: Losses) -> Iterator[Item]:
    stamp = archive.stamp()
    if position == stamp:
        return
    if position is not None:
        raise Rewritten
    for event in _events(archive, LOG, losses):
        yield from _printed(event)
    for event in _events(archive, METRICS, losses):
        yield from _metric(event, losses)
    artifacts = _mapping(_task(archive).get("execution")).get("artifacts")
    rows = [one for one in artifacts if isinstance(one, dict)] if isinstance(artifacts, list) else []
    if rows:
        listed = [{key: row.get(key) for key in ("key", "type", "hash", "uri")} for row in rows]
        yield records.Table(0, moment(rows[0].get("timestamp")) or _first_time(archive), "artifacts", listed)
    yield Position(stamp, 1.0)


def _printed(event: dict[str, Plain]) -> Iterator[Item]:
    time = moment(event.get("timestamp"))
    lines = [cut(line) for line in str(event.get("msg") or "").split("\n")]
    if any(lines):
        stderr = list(range(len(lines))) if event.get("level") in ("error", "critical") else []
        yield records.ConsoleRecord(0, time, lines, [time] * len(lines), stderr)


def _metric(event: dict[str, Plain], losses: Losses) -> Iterator[Item]:
    time, step = moment(event.get("timestamp")), event.get("iter")
    title, series = str(event.get("metric") or ""), str(event.get("variant") or "")
    if event.get("type") != "training_stats_scalar":
        losses.add(f"events of type {event.get('type')}")
        return
    value = _number(event.get("value"))
    if value is None or step == _NO_ITERATION:
        return
    if title.startswith(_MONITOR):
        yield records.Event(0, time, "system", {series: value}, step if isinstance(step, int) else None)
        return
    name = title if title == series else f"{title}/{series}"
    yield records.Step(0, time, step if isinstance(step, (int, float)) else 0, {clean_name(name): value})


def _number(value: Plain) -> Number | None:
    if isinstance(value, (int, float)):
        return value
    return NONFINITE.get(value.lower()) if isinstance(value, str) else None
