"""Comet's offline experiments: `experiment.json`, and a message per line in `messages.json`."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath

import msgspec

from chiplog.core import records
from chiplog.core.records import NONFINITE, Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.archive import Archive
from chiplog.store.foreign.formats.archives.archived_runs import archives
from chiplog.store.foreign.protocol import (
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    MediaFile,
    Position,
    Rewritten,
    clean_name,
    nanoseconds,
)
from chiplog.store.foreign.yaml_and_json import decoded

NAME = "comet"
EXPERIMENT, MESSAGES = "experiment.json", "messages.json"
LARGEST = 16 << 20
SYSTEM = "sys."
OWN_PARAMS = ("curr_step", "curr_epoch")  # of the client, with every step
_FACTS = {"hostname": "host", "os": "platform", "python_version": "python", "command": "command", "user": "user"}
_OWN_OTHERS = ("offline_experiment", "hasNestedParams", "Name")


class _CometState(msgspec.Struct):
    """What describes the experiment, from its messages."""

    stamp: str
    name: str = ""
    config: dict[str, Plain] = {}
    environment: dict[str, Plain] = {}
    others: dict[str, Plain] = {}
    tags: list[str] = []


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for archive in archives(folder, EXPERIMENT, MESSAGES):
        experiment = decoded(archive.read(EXPERIMENT, LARGEST))
        if isinstance(experiment, dict) and isinstance(experiment.get("offline_id"), str):
            key = f"{NAME}:{experiment['offline_id']}"
            about, read = partial(_about, experiment), partial(_read, archive)
            runs.append(ForeignRun(NAME, key, archive.path, archive.sources(MESSAGES), about, read, archive.stamp()))
    return runs


def _about(experiment: dict[str, Plain], position: Plain) -> About:
    state = msgspec.convert(position, _CometState) if position else _CometState("")
    tags = experiment.get("tags")
    stopped = _time(experiment.get("stop_time"))
    return About(
        project=str(experiment.get("project_name") or NAME),
        id=experiment["offline_id"],
        name=state.name,
        created=_time(experiment.get("start_time")),
        ended=stopped,
        tags=list(dict.fromkeys([*map(str, tags if isinstance(tags, list) else ()), *state.tags])),
        config=state.config,
        environment=state.environment,
        source={"workspace": experiment.get("workspace"), **({"others": state.others} if state.others else {})},
        state="failed" if experiment.get("customer_error_reported") else "finished" if stopped else "",
    )


def _time(value: Plain) -> int:
    """Comet's times are milliseconds."""
    return nanoseconds(value / 1e3) if isinstance(value, (int, float)) else 0


def _read(archive: Archive, position: Plain, losses: Losses) -> Iterator[Item]:
    stamp = archive.stamp()
    if position is not None:
        if msgspec.convert(position, _CometState).stamp != stamp:
            raise Rewritten
        return
    messages = _Messages(archive, _CometState(stamp), losses)
    for line in archive.lines(MESSAGES, losses):
        message = decoded(line)
        if isinstance(message, dict) and isinstance(message.get("payload"), dict):
            yield from messages.items(str(message.get("type")), message["payload"])
        elif line.strip():
            losses.add("messages that are damaged")
    yield from messages.rest()
    yield Position(msgspec.to_builtins(messages.state), 1.0)


class _Messages:
    """Messages as items, one after the other."""

    def __init__(self, archive: Archive, state: _CometState, losses: Losses) -> None:
        self.state = state
        self._archive, self._losses = archive, losses
        self._printed = {False: "", True: ""}  # lines without an end, of stdout and stderr
        self._time = 0
        self._step: Number = 0  # of the newest message that has one

    def items(self, kind: str, payload: dict[str, Plain]) -> Iterator[Item]:
        time = self._time = _time(payload.get("local_timestamp")) or self._time
        if kind == "metric_msg" and isinstance(payload.get("metric"), dict):
            yield from self._metric(payload["metric"], time)
        elif kind == "parameter_msg" and isinstance(payload.get("param"), dict):
            self._configure(payload["param"])
        elif kind == "standard_output":
            yield from self._output(str(payload.get("output") or ""), bool(payload.get("stderr")), time)
        elif kind == "log_other":
            self._describe(str(payload.get("key")), payload.get("value"))
        elif kind == "system_details":
            self.state.environment |= {name: payload[key] for key, name in _FACTS.items() if payload.get(key)}
        elif kind == "file_upload":
            yield from self._upload(payload, time)

    def rest(self) -> Iterator[Item]:
        for stderr, text in self._printed.items():
            if text:
                yield records.ConsoleRecord(0, self._time, [cut(text)], [self._time], [0] if stderr else [])

    def _metric(self, metric: dict[str, Plain], time: int) -> Iterator[Item]:
        name, value, step = (
            clean_name(str(metric.get("metricName"))),
            _number(metric.get("metricValue")),
            metric.get("step"),
        )
        if isinstance(step, (int, float)):
            self._step = step
        if value is None:
            self._losses.add("metrics that are not numbers")
        elif name.startswith(SYSTEM):
            yield records.Event(0, time, "system", {name.removeprefix(SYSTEM): value}, self._step)
        else:
            yield records.Step(0, time, self._step, {name: value})

    def _configure(self, param: dict[str, Plain]) -> None:
        *path, last = str(param.get("paramName")).split("|")
        if last in OWN_PARAMS:
            return
        place = self.state.config
        for key in path:
            below = place.setdefault(key, {})
            if not isinstance(below, dict):
                below = place[key] = {}
            place = below
        place[last] = param.get("paramValue")

    def _describe(self, key: str, value: Plain) -> None:
        if key == "Name":
            self.state.name = str(value)
        elif key == "Tags" and isinstance(value, list):
            self.state.tags += map(str, value)
        elif key not in _OWN_OTHERS:
            self.state.others[key] = value

    def _output(self, text: str, stderr: bool, time: int) -> Iterator[Item]:
        *lines, self._printed[stderr] = (self._printed[stderr] + text).split("\n")
        if lines:
            numbers = list(range(len(lines))) if stderr else []
            yield records.ConsoleRecord(0, time, [cut(line) for line in lines], [time] * len(lines), numbers)

    def _upload(self, payload: dict[str, Plain], time: int) -> Iterator[Item]:
        """A file next to the messages: text and images come over, others are listed."""
        about = payload.get("additional_params")
        about = about if isinstance(about, dict) else {}
        kind, name = (
            str(payload.get("upload_type")),
            clean_name(str(about.get("fileName") or payload.get("upload_type"))),
        )
        step = about.get("step") if isinstance(about.get("step"), (int, float)) else None
        data = self._archive.read(str(payload.get("file_path")), LARGEST)
        if kind == "text-sample" and data:
            yield records.TextRecord(0, time, kind, cut(data.decode("utf-8", "backslashreplace")), step)
        elif kind == "visualization" and data:
            suffix = PurePosixPath(name).suffix or f".{about.get('extension') or 'png'}"
            suffix = suffix if suffix[1:].isalnum() else ".bin"
            media = mimetypes.guess_type(f"x{suffix}")[0] or "application/octet-stream"
            yield MediaFile(name, time, suffix, media, data=data, step=step)
        elif kind != "source_code":
            self._losses.add(f"files of type {kind}")


def _number(value: Plain) -> Number | None:
    if isinstance(value, (int, float)):
        return value
    names = {**NONFINITE, "infinity": NONFINITE["inf"], "-infinity": NONFINITE["-inf"]}
    return names.get(value.lower()) if isinstance(value, str) else None
