"""The names and units under which all services get a record's numbers.

Most are the series unchanged. What the engine keeps in base units and under its own groups gets the names and units of
existing charts: `gpu/0/dram_free` in MiB, `train/moe_load_cv`, `allocator/weights_mib`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from chiplog.core import records
from chiplog.core.records import AnyRecord, Event, Number, Plain

MIB = 1 << 20
IN_MIB = frozenset(("dram_free", "dram_total", "pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx"))  # bytes, bytes/s
FLOPS = frozenset(("blocks", "lm_head", "attention"))  # of a sol record
IN_SHORT = frozenset(("aux_loss", "z_loss", "expert_utilization", "load_imbalance"))  # of a moe record


def service_points(record: AnyRecord) -> dict[str, Number]:
    """The numbers of a record under the names that services get; empty for a record without any."""
    points = records.points(record)
    if not isinstance(record, Event):
        return dict(points)
    if record.name == "gpu":
        return _gpu(points)
    if record.name == "moe":
        return _moe(points)
    if record.name == "sol":
        return {f"flops/{name[4:]}" if name[4:] in FLOPS else name: value for name, value in points}
    if record.name == "allocator":
        return allocated(record.data)
    return dict(points)


def with_step(values: Mapping[str, Plain], step: int | float) -> dict[str, Plain]:
    """A row with its step as `step`; a metric of that name with another value is `step/value`."""
    row = {name: value for name, value in values.items() if name != "step"}
    if "step" in values and values["step"] != step:
        row[own_name("step", values)] = values["step"]
    return {**row, "step": step}


def own_name(name: str, taken: Container[str]) -> str:
    """The name of a metric when a column is called the same: `step/value`."""
    name += "/value"
    while name in taken:
        name += "/value"
    return name


def texts(record: AnyRecord) -> dict[str, str]:
    """The texts that services get too: why a GPU is throttled, if it is."""
    if not isinstance(record, Event) or record.name != "gpu":
        return {}
    reason = record.data.get("throttle")
    return {f"gpu/{record.data.get('id', 0)}/throttle": reason} if reason and isinstance(reason, str) else {}


def allocated(data: Mapping[str, object]) -> dict[str, Number]:
    """Device memory in MiB by segment, from an allocator's data: `{"stats": [{"name": ..., "device": bytes}, ...]}`."""
    stats = data.get("stats")
    if not isinstance(stats, list):
        return {}
    return {
        f"allocator/{one['name']}_mib": one["device"] / MIB
        for one in stats
        if isinstance(one, Mapping) and "name" in one and isinstance(one.get("device"), (int, float))
    }


def _gpu(points: Iterable[tuple[str, Number]]) -> dict[str, Number]:
    row = {}
    for name, value in points:
        field = name.rpartition("/")[2]
        if field == "fan" and not value:
            continue  # a passively cooled GPU has none
        row[name] = value / MIB if field in IN_MIB else value
    return row


def _moe(points: Iterable[tuple[str, Number]]) -> dict[str, Number]:
    row: dict[str, Number] = {}
    for name, value in points:
        field = name.removeprefix("moe/")
        row[f"train/moe_{field}"] = value
        if field in IN_SHORT:
            row[f"train/{field}"] = value
    return row
