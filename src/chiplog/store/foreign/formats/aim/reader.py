"""`python -m chiplog.store.foreign.formats.aim.reader REPOSITORY HASH`: prints a run of a copy of a repository."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

from aim import Repo, Run

CHUNK = 20_000  # points per line
KINDS = ("aim.text", "aim.distribution", "aim.image", "aim.figure", "aim.audio")


def run(repository: str, hash: str) -> Iterator[dict[str, Any]]:
    opened = Run(hash, repo=Repo(repository), read_only=True, system_tracking_interval=None)
    params = opened.get(..., {})
    own = {str(key): value for key, value in params.items() if not str(key).startswith("__")}
    yield {"params": own, "ended": opened.end_time}
    for metric in opened.metrics():
        steps, (values, _, times) = metric.data.items_list()
        about = {"name": metric.name, "context": metric.context.to_dict()}
        for at in range(0, len(steps), CHUNK):
            part = slice(at, at + CHUNK)
            yield {
                **about,
                "steps": [int(step) for step in steps[part]],
                "values": [_number(value) for value in values[part]],
                "times": [float(time) for time in times[part]],
            }
    for kind, get in (("text", opened.get_text_sequence), ("histogram", opened.get_distribution_sequence)):
        for name, context, _ in opened.iter_sequence_info_by_type(
            (f"aim.{'text' if kind == 'text' else 'distribution'}",)
        ):
            sequence = get(name, context)
            if sequence is not None:
                yield from _media(kind, name, context.to_dict(), sequence)
    for name, _, _ in opened.iter_sequence_info_by_type(KINDS[2:]):
        yield {"lost": name}


def _media(kind: str, name: str, context: dict[str, Any], sequence: Any) -> Iterator[dict[str, Any]]:
    steps, (values, _, times) = sequence.data.items_list()
    for step, value, time in zip(steps, values, times, strict=True):
        about = {"kind": kind, "name": name, "context": context, "step": int(step), "time": float(time)}
        if kind == "text":
            yield {**about, "text": value.data}
        else:
            counts, edges = value.to_np_histogram()
            yield {**about, "counts": [float(one) for one in counts], "edges": [float(one) for one in edges]}


def _number(value: Any) -> float | int:
    return value if isinstance(value, int) else float(value)


if __name__ == "__main__":
    logging.disable()
    for line in run(sys.argv[1], sys.argv[2]):
        sys.stdout.write(json.dumps(line, default=str) + "\n")
