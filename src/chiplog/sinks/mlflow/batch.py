"""What MLflow gets, in its own words: points, params, tags and files of a batch of records. Nothing here talks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from mlflow.entities import Metric

from chiplog.core.records import Alert, AnyRecord, Attempt, Event, File, Finish, Plain, Step, Table, Text
from chiplog.core.values.convert import double
from chiplog.core.values.flatten import flatten
from chiplog.metrics.catalog import STATISTICS, is_statistic
from chiplog.metrics.ranks.statistics import is_reduced
from chiplog.sinks.shared.service_metrics import outward

STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
LONGEST_NAME, LONGEST_PARAM, LONGEST_TAG = 250, 6000, 5000
STEPS = (-(1 << 63), (1 << 63) - 1)
KEPT = ("artifacts", "media")  # the folders of `files/` with what was handed over


class Batch(msgspec.Struct):
    """What a batch says, in the words of MLflow."""

    counter: int
    reduced: bool = False  # the run has statistics across ranks
    metrics: list[Metric] = []
    params: dict[str, list[str]] = {}  # all values that came, in order
    tags: dict[str, str] = {}
    files: list[File] = []
    texts: dict[str, str] = {}
    tables: set[str] = set()
    status: str = ""
    ended: int | None = None


def pack(batch: Sequence[AnyRecord], prefix: str, counter: int, reduced: bool = False) -> Batch:
    """A batch as what is to be sent; nothing but its records and what those before it have left goes in."""
    parcel = Batch(counter, reduced)
    for record in batch:
        if numbers := outward(record):
            _points(parcel, record, numbers)
        if isinstance(record, Event) and record.name in ("config", "environment"):
            _facts(parcel, "config." if record.name == "config" else prefix, record.data)
        elif isinstance(record, Event) and record.name == "summary":
            parcel.tags |= dict(flat("summary.", record.data))
        elif isinstance(record, Event) and record.name == "ranks":
            parcel.reduced = "statistics" in record.data
        elif isinstance(record, Attempt):
            facts = {"host": record.host, "world_size": record.world, "version": record.version}
            _facts(parcel, prefix, facts)
            parcel.reduced = parcel.reduced and record.attached  # a new start says it anew
            parcel.tags[f"{prefix}attempt"] = str(record.attempt)
            parcel.status = "RUNNING"
        elif isinstance(record, Finish):
            parcel.status, parcel.ended = STATUS.get(record.state, "FAILED"), milliseconds(record.time)
            if record.reason:
                parcel.tags[f"{prefix}reason"] = record.reason
        elif isinstance(record, Alert):
            parcel.tags[f"{prefix}alert"] = f"{record.level}: {record.title}"
        elif isinstance(record, File):
            parcel.files.append(record)
        elif isinstance(record, Text):
            parcel.texts[f"texts/{safe(record.name)}/{record.time}.txt"] = sayable(record.text)
        elif isinstance(record, Table):
            parcel.tables.add(record.name)
    return parcel


def _points(parcel: Batch, record: Any, numbers: Mapping[str, Any]) -> None:
    step = whole(record.step)
    if step is None:
        step = parcel.counter
        parcel.counter += 1
    else:
        parcel.counter = max(parcel.counter, step + 1)
    time = milliseconds(record.time)
    own = parcel.reduced and isinstance(record, Step) and not all(map(is_statistic, numbers))
    for name, value in numbers.items():
        if isinstance(value, (int, float)):
            local = any(f"{name}/{one}" in numbers for one in STATISTICS) or (
                own and is_reduced(name) and name.rpartition("/")[0] not in numbers
            )
            parcel.metrics.append(Metric(safe(f"{name}/local" if local else name), double(value), time, step))


def _facts(parcel: Batch, prefix: str, data: Mapping[str, Plain]) -> None:
    for key, value in flat(prefix, data):
        parcel.params.setdefault(key, []).append(value)


def settle(
    values: Mapping[str, Sequence[str]], params: Mapping[str, str], tags: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """New params, and tags: MLflow's params never change, so the first value is one, and a later one is a tag."""
    new, changed = {}, {}
    for key, (first, *more) in values.items():
        name = safe(key)
        kept = params.get(name, first[:LONGEST_PARAM])
        if name not in params:
            new[name] = kept
        for value in (first, *more):
            if value[:LONGEST_PARAM] != kept or name in tags or name in changed:
                changed[name] = value[:LONGEST_TAG]
    return new, changed


def flat(prefix: str, data: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    """Nested data as texts by dotted keys; a list is one text of JSON, and what is empty is left out."""
    for name, value in flatten(data, "."):
        if isinstance(value, str):
            if value:
                yield f"{prefix}{name}", sayable(value)
        elif isinstance(value, (list, tuple)):
            yield f"{prefix}{name}", sayable(msgspec.json.encode(value).decode())
        elif value is not None and not isinstance(value, Mapping):
            yield f"{prefix}{name}", str(value)


def folder_of(record: File) -> str:
    """The folder for a file at MLflow, so that it has the name it was given."""
    path = record.path.removeprefix("files/")
    for kind in KEPT:
        path = path.removeprefix(f"{kind}/")
    return path.rpartition("/")[0]


def texts(tags: Mapping[str, str]) -> dict[str, str]:
    return {safe(name): sayable(value)[:LONGEST_TAG] for name, value in tags.items()}


def safe(name: str) -> str:
    """A name as MLflow allows it; one that had to be changed ends in a mark of its own, so that no two become one."""
    parts = [part for part in re.sub(r"[^/\w.\- :]", "_", name).split("/") if part not in ("", ".", "..")]
    allowed = "/".join(parts)
    if name and allowed == name and len(name) <= LONGEST_NAME:
        return name
    mark = sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{allowed[: LONGEST_NAME - 7]}-{mark}" if allowed else f"_-{mark}"


def whole(step: int | float | None) -> int | None:
    """A step as MLflow has them: whole, in 64 bits; none for one that is not finite."""
    if step is None or step - step != 0:
        return None
    return max(STEPS[0], min(STEPS[1] - 1, int(step)))


def milliseconds(time: int) -> int:
    return max(0, time // 1_000_000)


def sayable(text: str) -> str:
    """Without what UTF-8 or a database cannot hold."""
    return text.encode(errors="replace").decode().replace("\0", "�")
