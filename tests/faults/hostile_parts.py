"""Parts that are well sealed and hostile: every page and footer has its checksum, and what they say is not ours."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.store.layout import Segment
from chiplog.store.parts import compaction
from chiplog.store.parts.format import seal

About = dict[str, Any]
Change = Callable[[random.Random, pa.Table, About], pa.Table]

TEXTS = [
    *("", "loss", "\x1b]0;owned\x07", "<script>alert(1)</script>", "{", "[]", "null", "1", "true", "abc", "1e5"),
    *('{"log":"step"}', '{"log":"alert","seq":1,"time":1,"title":5}', '{"log":"table","seq":"x"}', "9" * 5000),
    '{"log":"event","seq":99999999999999999999,"time":1,"name":"x","data":{}}',
    '{"a":' * 2000,
]
FAR = [None, 0, -1, 2**62, 2**63 - 1, -(2**63)]
NUMBERS = {"points": ["step", "seq", "value"], "clock": ["seq", "time"], "spans": ["id", "parent", "start", "duration"]}


def damage(run: Path, pick: random.Random, change: str = "") -> str:
    """Compact the first segment of a run and change a file of its part; says what was changed."""
    compaction.compact(run, Segment(0, 1, 0))
    name = change or pick.choice(list(CHANGES))
    kind = name.partition(" ")[0]
    path = run / "parts" / f"r00000-a01-0000.{kind}.parquet"
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"chiplog"])
    table = CHANGES[name](pick, table, about)
    described = table.replace_schema_metadata({b"chiplog": json.dumps(about).encode()})
    with path.open("wb") as file:
        pq.write_table(described, file, write_page_checksum=True, compression="zstd")
    with path.open("r+b") as sealed:
        seal(sealed)
    return name


def _put(table: pa.Table, name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, kind))


def _texts(column: str) -> Change:
    return lambda pick, table, _: _put(table, column, [pick.choice(TEXTS) for _ in range(len(table))], pa.string())


def _nulls(column: str) -> Change:
    return lambda _, table, __: _put(table, column, [None] * len(table), table.schema.field(column).type)


def _words(kind: str) -> Change:
    return lambda pick, table, _: _put(table, pick.choice(NUMBERS[kind]), ["x"] * len(table), pa.string())


def _far(kind: str) -> Change:
    return lambda pick, table, _: _put(
        table, pick.choice(NUMBERS[kind][-1:]), [pick.choice(FAR[1:]) for _ in range(len(table))], pa.int64()
    )


def _without(pick: random.Random, table: pa.Table, _: About) -> pa.Table:
    return table.drop_columns([pick.choice(table.column_names)])


def _last(pick: random.Random, table: pa.Table, about: About) -> pa.Table:
    for where in about["names"].values():
        where[4] = pick.choice(["abc", "9" * 5000, "1e5", "nan", "", True, 10**30, "\x1b[2J"])
    return table


def _described(pick: random.Random, table: pa.Table, about: About) -> pa.Table:
    about[pick.choice(["covers", "records", "first_time", "last_time", "last_seq", "first_seq"])] = pick.choice(FAR)
    about[pick.choice(["first_step", "last_step", "begin_step"])] = pick.choice([1e308, -1e308, 10**30, 2**63, None])
    about["damage"] = pick.choice([[], [[0, 1, "\x1b]0;x\x07<script>alert(1)"]], [[2**62, -1, ""]], [[10**30, 1, "x"]]])
    return table


def _renamed(pick: random.Random, table: pa.Table, about: About) -> pa.Table:
    about["names"] = {f"{at}{pick.choice(TEXTS)}": one for at, one in enumerate(about["names"].values())}
    return table


CHANGES: dict[str, Change] = {
    **{f"{kind} without a column": _without for kind in ("points", "rows", "spans", "clock")},
    **{f"{kind} with words for numbers": _words(kind) for kind in NUMBERS},
    **{f"{kind} with far numbers": _far(kind) for kind in ("clock", "spans")},
    **{f"points without {name}": _nulls(name) for name in ("step", "seq", "value")},
    **{f"spans without {name}": _nulls(name) for name in ("name", "thread", "start", "duration", "failed")},
    **{f"rows with odd {name}": _texts(name) for name in ("record", "kind")},
    **{f"spans with odd {name}": _texts(name) for name in ("tags", "kind", "error")},
    "points with odd exact": _texts("exact"),
    "points with odd last": _last,
    "points with an odd description": _described,
    "points with odd names": _renamed,
    "rows without record": _nulls("record"),
    "clock without time": _nulls("time"),
    "clock without rows": lambda _, table, __: table.slice(0, 0),
}
