"""A reader of run directories written from docs/format.md alone, which is the judge of the fault tests."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

SEGMENT = re.compile(r"r(\d{5,})-a(\d{2,})-(\d{4,})\.jsonl")
SEAL = re.compile(rb',"crc":(\d+)\}')
START = b'{"log":"'
NONFINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}

Range = tuple[int, int]


class Found(NamedTuple):
    """What one segment holds: its records in the order of arrival, and the byte ranges that are none."""

    records: list[dict[str, Any]]
    damage: list[Range]


def check(line: bytes) -> dict[str, Any] | None:
    """The record of a line without its newline, if every byte of it is as it was written."""
    at = line.rfind(b',"crc":')
    seal = SEAL.fullmatch(line, at) if at >= 0 else None
    if seal is None or zlib.crc32(line[:at]) != int(seal[1]):
        return None
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError:  # the CRC of nothing is 0: `,"crc":0}`
        return None
    return record


def segment(data: bytes) -> Found:
    """Read the bytes of one segment."""
    found = Found([], [])
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin)
        if end < 0:
            found.damage.append((begin, len(data)))
            break
        line = data[begin:end]
        whole = check(line) if line else None
        if whole is not None:
            found.records.append(whole)
        elif line:
            _pieces(line, begin, found)
        begin = end + 1
    return found


def _pieces(line: bytes, begin: int, found: Found) -> None:
    """Whole records inside a damaged line."""
    starts = [match.start() for match in re.finditer(re.escape(START), line)]
    good = 0
    for at, stop in zip(starts, [*starts[1:], len(line)], strict=False):
        for seal in SEAL.finditer(line, at, stop):
            if (record := check(line[at : seal.end()])) is not None:
                if at > good:
                    found.damage.append((begin + good, begin + at))
                found.records.append(record)
                good = seal.end()
                break
    if good < len(line):
        found.damage.append((begin + good, begin + len(line)))


def streams(run: Path) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The records of a run by (rank, attempt), in the order of `seq`."""
    out: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for path in sorted((run / "journal").iterdir()):
        if match := SEGMENT.fullmatch(path.name):
            out.setdefault((int(match[1]), int(match[2])), []).extend(segment(path.read_bytes()).records)
    return {key: sorted(records, key=lambda record: int(record["seq"])) for key, records in sorted(out.items())}


def records(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """All records of a run, by rank and attempt, then `seq`."""
    return [record for stream in streams(run).values() for record in stream if kind in (None, record["log"])]


def series(run: Path, name: str) -> list[Any]:
    """The values that steps gave a name, in order."""
    return [number(row["metrics"][name]) for row in records(run, "step") if name in row["metrics"]]


def number(value: Any) -> Any:
    """A value of a row: the three strings are the numbers that JSON cannot say."""
    return NONFINITE.get(value, value) if isinstance(value, str) else value


def missing(run: Path) -> dict[tuple[int, int], list[int]]:
    """The `seq` numbers that are not there, up to the newest that is."""
    found = {key: {int(record["seq"]) for record in stream} for key, stream in streams(run).items()}
    return {key: sorted(set(range(max(seqs, default=-1) + 1)) - seqs) for key, seqs in found.items()}


def damage(run: Path) -> list[Range]:
    """All byte ranges of a run that hold no record."""
    files = [path for path in sorted((run / "journal").iterdir()) if SEGMENT.fullmatch(path.name)]
    return [span for path in files for span in segment(path.read_bytes()).damage]
