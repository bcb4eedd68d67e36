"""The file of an offline run, as it grows."""

from __future__ import annotations

import zlib
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import HistoryRecord, OutputRecord, Record

from chiplog.sinks.wandb.offline_log import BLOCK, OfflineLog

HEADER = b":W&B\x00\x00\x00"
ROW = Record(history=HistoryRecord())
OTHER = Record(output=OutputRecord(line="x" * 50_000))


def log_of(*records: Record) -> bytes:
    """Records in the frames of a LevelDB log: whole, or split at the end of a block."""
    data = bytearray(HEADER)
    for record in records:
        body, first = record.SerializeToString(), True
        while True:
            if (room := BLOCK - len(data) % BLOCK) < 7:
                data += bytes(room)
                room = BLOCK
            piece, body = body[: room - 7], body[room - 7 :]
            kind = (1 if first else 4) if not body else (2 if first else 3)
            crc = zlib.crc32(piece, zlib.crc32(bytes([kind])))
            data += crc.to_bytes(4, "little") + len(piece).to_bytes(2, "little") + bytes([kind]) + piece
            first = False
            if not body:
                break
    return bytes(data)


def test_rows_are_counted_as_the_file_grows(tmp_path: Path) -> None:
    """Wherever a write was torn; a record over several blocks is one."""
    whole = log_of(ROW, OTHER, ROW, OTHER, ROW)
    path = tmp_path / "run.wandb"
    log = OfflineLog(path)
    assert log.rows() == 0, "there is no file yet"
    counts = []
    for end in range(0, len(whole), 997):
        path.write_bytes(whole[:end])
        counts.append(log.rows())
    path.write_bytes(whole)
    assert log.rows() == 3 and counts == sorted(counts)


def test_bytes_that_do_not_match_their_crc_wait(tmp_path: Path) -> None:
    """They may not all be written yet."""
    whole = log_of(OTHER, ROW)
    path = tmp_path / "run.wandb"
    path.write_bytes(whole[:100] + b"\0" + whole[101:])
    log = OfflineLog(path)
    assert log.rows() == 0
    path.write_bytes(whole)
    assert log.rows() == 1
