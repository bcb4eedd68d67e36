"""Reads an offline run of W&B's real client: its `.wandb` file is a LevelDB log of protobuf records."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER = 32768, 7


class OfflineRun(NamedTuple):
    started: float
    project: str
    name: str
    tags: list[str]
    config: dict[str, Any]
    summary: dict[str, Any]
    history: list[dict[str, Any]]


def load(path: Path) -> OfflineRun:
    """Everything that the comparison needs, as the client wrote it."""
    about: Any = None
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    for data in _records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            about = record.run
            _apply(config, record.run.config.update)
        elif kind == "config":
            _apply(config, record.config.update)
        elif kind == "summary":
            _apply(summary, record.summary.update)
        elif kind == "history":
            row: dict[str, Any] = {}
            _apply(row, record.history.item)
            history.append(row)
    started = about.start_time.seconds + about.start_time.nanos / 1e9
    return OfflineRun(started, about.project, about.display_name, list(about.tags), config, summary, history)


def _apply(target: dict[str, Any], items: Any) -> None:
    for item in items:
        path = list(item.nested_key) or [item.key]
        into = target
        for part in path[:-1]:
            if not isinstance(into.get(part), dict):
                into[part] = {}
            into = into[part]
        into[path[-1]] = json.loads(item.value_json)


def _records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    at, pieces = HEADER, b""
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        piece = data[at + HEADER : at + HEADER + size]
        if len(piece) < size or (kind == 0 and size == 0):
            return
        assert crc == zlib.crc32(piece, zlib.crc32(bytes([kind])))
        pieces += piece
        at += HEADER + size
        if kind in (1, 4):  # complete, or the last piece
            yield pieces
            pieces = b""
