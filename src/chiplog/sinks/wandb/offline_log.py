"""The file of an offline run, read to confirm what the SDK has written."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import Record

from chiplog.core.files import reading

BLOCK = 32 * 1024  # bytes


class OfflineLog:
    """The rows in a `.wandb` file as it grows: records of protobuf in the frames of a LevelDB log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._held = b""
        self._rows = 0

    def rows(self) -> int:
        """How many rows of history it has now."""
        for record in self.read():
            self._rows += record.WhichOneof("record_type") == "history"
        return self._rows

    def read(self) -> Iterator[Record]:
        """The records written since the last call; one that is half written is left for the next."""
        try:
            with reading.open_path(self._path) as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        base, at = self._offset, 0
        if base == 0:
            if len(data) < 7:
                return
            at = 7  # ":W&B", a magic number and a version
        while True:
            left = BLOCK - (base + at) % BLOCK
            if left < 7:
                at += left  # no room for a header at the end of a block
                continue
            header = data[at : at + 7]
            length, kind = int.from_bytes(header[4:6], "little"), header[6] if len(header) == 7 else 0
            body = data[at + 7 : at + 7 + length]
            if len(header) < 7 or kind == 0 or len(body) < length:
                break
            if zlib.crc32(body, zlib.crc32(header[6:7])) != int.from_bytes(header[:4], "little"):
                break  # not all of its bytes are written
            at += 7 + length
            self._held = body if kind in (1, 2) else self._held + body  # whole, first, middle, last
            self._offset = base + at
            if kind in (1, 4):
                yield Record.FromString(self._held)
