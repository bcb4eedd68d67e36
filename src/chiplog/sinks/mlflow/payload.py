"""The payload of a batch of records in MLflow's terms: points, params, tags and files. Sends nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
from mlflow.entities import Metric

from chiplog.core.records import Alert, AnyRecord, Attempt, Event, File, Finish, Number, Plain, Step, Table, TextRecord
from chiplog.core.values.convert import double
from chiplog.core.values.flatten import flatten
from chiplog.metrics.catalog import STATISTICS, is_statistic
from chiplog.metrics.ranks.statistics import is_reduced
from chiplog.sinks.shared.clean_values import INT64, whole_step
from chiplog.sinks.shared.service_metrics import service_points

STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
LONGEST_NAME, LONGEST_PARAM, LONGEST_TAG = 250, 6000, 5000
RUN_NAME = "mlflow.runName"  # the tag that renames a run
KEPT = ("artifacts", "media")  # folders of `files/` whose files have records


class Payload(msgspec.Struct):
    """What is sent for a batch."""

    counter: int
    reduced: bool = False  # the run has statistics across ranks
    metrics: list[Metric] = []
    params: dict[str, list[str]] = {}  # all values, in order
    tags: dict[str, str] = {}
    files: list[File] = []
    texts: dict[str, str] = {}
    tables: set[str] = set()
    status: str = ""
    ended: int | None = None


class Prefixes(NamedTuple):
    """What the names of params start with."""

    facts: str  # that describe the run
    config: str = ""


def pack(batch: Sequence[AnyRecord], prefixes: Prefixes, counter: int, reduced: bool = False) -> Payload:
    """The payload of a batch; it depends on nothing but the records and what earlier ones have left."""
    payload = Payload(counter, reduced)
    prefix = prefixes.facts
    for record in batch:
        if numbers := service_points(record):
            _points(payload, record, numbers)
        if isinstance(record, Event) and record.name in ("config", "environment"):
            _facts(payload, prefixes.config if record.name == "config" else prefix, record.data)
        elif isinstance(record, Event) and record.name == "summary":
            payload.tags |= dict(flat("summary.", record.data))
        elif isinstance(record, Event) and record.name == "name" and (name := record.data.get("name")):
            payload.tags[RUN_NAME] = str(name)
        elif isinstance(record, Event) and record.name == "tags" and isinstance(tags := record.data.get("tags"), list):
            payload.tags[f"{prefix}tags"] = ",".join(map(str, tags))
        elif isinstance(record, Event) and record.name == "ranks":
            payload.reduced = "statistics" in record.data
        elif isinstance(record, Attempt):
            facts = {"host": record.host, "world_size": record.world, "version": record.version}
            _facts(payload, prefix, facts)
            payload.reduced = payload.reduced and record.attached  # a new attempt reports it again
            payload.tags[f"{prefix}attempt"] = str(record.attempt)
            payload.status = "RUNNING"
        elif isinstance(record, Finish):
            payload.status, payload.ended = STATUS.get(record.state, "FAILED"), milliseconds(record.time)
            if record.reason:
                payload.tags[f"{prefix}reason"] = record.reason
        elif isinstance(record, Alert):
            payload.tags[f"{prefix}alert"] = f"{record.level}: {record.title}"
        elif isinstance(record, File):
            payload.files.append(record)
        elif isinstance(record, TextRecord):
            payload.texts[f"texts/{safe(record.name)}/{record.time}.txt"] = utf8(record.text)
        elif isinstance(record, Table):
            payload.tables.add(record.name)
    return payload


def _points(payload: Payload, record: AnyRecord, numbers: Mapping[str, Number | str]) -> None:
    step = min(whole_step(getattr(record, "step", None), payload.counter), INT64 - 1)
    payload.counter = max(payload.counter, step + 1)
    time = milliseconds(record.time)
    own = payload.reduced and isinstance(record, Step) and not all(map(is_statistic, numbers))
    for name, value in numbers.items():
        if isinstance(value, str):
            continue
        local = any(f"{name}/{one}" in numbers for one in STATISTICS) or (
            own and is_reduced(name) and name.rpartition("/")[0] not in numbers
        )
        payload.metrics.append(Metric(safe(f"{name}/local" if local else name), double(value), time, step))


def _facts(payload: Payload, prefix: str, data: Mapping[str, Plain]) -> None:
    for key, value in flat(prefix, data):
        payload.params.setdefault(key, []).append(value)


def params_and_tags(
    values: Mapping[str, Sequence[str]], params: Mapping[str, str], tags: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """New params and tags: MLflow's params never change, so the first value becomes a param and a later one a tag."""
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
    """Nested data as text by dotted key; a list is JSON, and empty values are left out."""
    for name, value in flatten(data, "."):
        if isinstance(value, str):
            if value:
                yield f"{prefix}{name}", utf8(value)
        elif isinstance(value, (list, tuple)):
            yield f"{prefix}{name}", utf8(msgspec.json.encode(value).decode())
        elif value is not None and not isinstance(value, Mapping):
            yield f"{prefix}{name}", str(value)


def folder_of(record: File) -> str:
    """The folder for a file at MLflow, so that it keeps the name under which it was logged."""
    path = record.path.removeprefix("files/")
    for kind in KEPT:
        path = path.removeprefix(f"{kind}/")
    return path.rpartition("/")[0]


def clean_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {safe(name): utf8(value)[:LONGEST_TAG] for name, value in tags.items()}


def safe(name: str) -> str:
    """A name that MLflow allows; one that had to be changed ends in a hash, so that no two become the same."""
    parts = [part for part in re.sub(r"[^/\w.\- :]", "_", name).split("/") if part not in ("", ".", "..")]
    allowed = "/".join(parts)
    if name and allowed == name and len(name) <= LONGEST_NAME:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{allowed[: LONGEST_NAME - 7]}-{digest}" if allowed else f"_-{digest}"


def milliseconds(time: int) -> int:
    return max(0, time // 1_000_000)


def utf8(text: str) -> str:
    """Text without what UTF-8 or a database cannot hold."""
    return text.encode(errors="replace").decode().replace("\0", "�")
