"""trackio's inbox: fragments of JSON Lines that it has not merged into its database yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.formats.trackio.rows import TrackioRows
from chiplog.store.foreign.protocol import Item, Losses
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.yaml_and_json import decoded

FOLDER, ENDING = "inbox", ".jsonl"
KINDS = ("metric", "system_metric", "alert")
LARGEST = 64 << 20  # bytes of a fragment
MOST = 512 << 20  # bytes of all of them


@dataclass
class TrackioInbox:
    """The fragments next to a folder's databases, by run: (project, id or name)."""

    folder: Path

    @cached_property
    def files(self) -> list[str]:
        return sorted(name for name, _ in reading.walk(self.folder, FOLDER) if name.endswith(ENDING))

    @cached_property
    def runs(self) -> dict[tuple[str, str], list[dict[str, Plain]]]:
        runs: dict[tuple[str, str], list[dict[str, Plain]]] = {}
        left = MOST
        for name in self.files:
            try:
                data = reading.read_bytes(self.folder, name, min(left, LARGEST))
            except OSError:
                continue
            left -= len(data)
            for line in data.split(b"\n"):
                record = decoded(line) if line.strip() else None
                if isinstance(record, dict) and record.get("kind") in KINDS and record.get("run"):
                    key = str(record.get("project")), str(record.get("run_id") or record["run"])
                    runs.setdefault(key, []).append(record)
        return runs

    def paths(self) -> tuple[Path, ...]:
        return tuple(self.folder / name for name in self.files)


def first_time(fragments: list[dict[str, Plain]]) -> str:
    """The timestamp of the first row, as trackio will have it in its database."""
    return min(
        (str(one["timestamp"]) for one in fragments if one["kind"] == "metric" and one.get("timestamp")), default=""
    )


def key_of(record: dict[str, Plain]) -> str:
    """By which trackio adds a record once."""
    return str(record.get("log_id") or record.get("alert_id") or "")


def items(fragments: list[dict[str, Plain]], done: set[str], rows: TrackioRows, losses: Losses) -> Iterator[Item]:
    """What has not been read yet; adds the keys of what it yields."""
    for record in fragments:
        key = key_of(record)
        if key in done:
            continue
        time = moment(record.get("timestamp"))
        if not key or not time:
            losses.add("fragments without a key or a time")
        elif record["kind"] == "metric":
            yield from rows.metrics(record.get("metrics"), record.get("step"), time)
        elif record["kind"] == "system_metric":
            yield from rows.system(record.get("metrics"), time)
        else:
            title, text, level = (record.get(name) for name in ("title", "text", "level"))
            yield rows.alert(title, text, level, record.get("step"), time)
        done.add(key)
