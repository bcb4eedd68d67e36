"""AMD GPUs, through AMD SMI; the fields and units are those of the NVIDIA probe, as far as AMD has them.

Power is in mW and energy in mJ.

AMD's package cannot be imported without its library, so the first sample imports it; a machine without the library
gets one message.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from chiplog.core import messages
from chiplog.core.values.text import words
from chiplog.probes.counters import Rates

INTERVAL = 5.0  # s
SLOW = 1.0  # s between queries of throttling and links, which take a millisecond
LIBRARY = "libamd_smi.so"
KIB, MIB = 1 << 10, 1 << 20
MEGABIT = 1_000_000 / 8  # bytes
MILLI = 1000  # mW per W, and µJ per mJ
UNKNOWN = "N/A"  # AMD's value for "not supported"
# How long the clocks were throttled, and why; the first of several wins.
_HELD = (
    ("ppt_residency_acc", "power cap"),
    ("socket_thm_residency_acc", "thermal cap"),
    ("vr_thm_residency_acc", "thermal cap"),
    ("hbm_thm_residency_acc", "thermal cap"),
    ("prochot_residency_acc", "thermal cap"),
)
_XGMI = {"xgmi_rx": "xgmi_read_data_acc", "xgmi_tx": "xgmi_write_data_acc"}  # in KiB, by link


def open_probe(environ: Mapping[str, str], *, interval: float = INTERVAL, gpus: Sequence[int] | None = None) -> Amd:
    """`gpus` are indices in AMD SMI's list; all GPUs by default."""
    return Amd(interval, gpus=gpus, rocm=environ.get("ROCM_HOME") or environ.get("ROCM_PATH") or "/opt/rocm")


class Amd:
    """A probe: an event `gpu` per GPU and sample, and `gpu-model` once per GPU."""

    name = "gpu"

    def __init__(
        self, interval: float = INTERVAL, *, gpus: Sequence[int] | None = None, rocm: str = "/opt/rocm"
    ) -> None:
        if not interval > 0:
            raise ValueError(f"interval is seconds between two samples, not {interval!r}")
        self.interval = interval
        self._wanted = None if gpus is None else frozenset(gpus)
        self._rocm = rocm
        self._smi: Any = None
        self._gpus: dict[int, object] = {}
        self._rates: dict[int, Rates] = {}
        self._slow_rates: dict[int, Rates] = {}
        self._slow_at = 0.0  # when to query throttling and links next
        self._first_mj: dict[int, float] = {}  # energy at the first sample

    def first(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        self._open()
        for index in self._gpus:
            yield "gpu-model", self._model(index)

    def sample(self) -> list[dict[str, object]]:
        self._open()
        now = time.monotonic()
        slow = now >= self._slow_at
        self._slow_at = now + SLOW if slow else self._slow_at
        samples: list[dict[str, object]] = []
        for index in self._gpus:
            fields = self._fields(index, now) | (self._slow(index, now) if slow else {})
            if not fields:
                messages.once(f"gpu {index} silent", f"GPU {index} does not answer; it is left out until it does")
            else:
                samples.append({"id": index, **fields})
        return samples

    def close(self) -> None:
        smi, self._smi = self._smi, None
        if smi is not None:
            smi.amdsmi_shut_down()

    def _open(self) -> None:
        if self._smi is not None:
            return
        _load(self._rocm)
        smi = import_module("amdsmi")
        smi.amdsmi_init()
        self._smi = smi
        handles = dict(enumerate(smi.amdsmi_get_processor_handles()))
        self._gpus = {index: one for index, one in handles.items() if self._wanted is None or index in self._wanted}
        self._rates = {index: Rates() for index in self._gpus}
        self._slow_rates = {index: Rates() for index in self._gpus}

    def _fields(self, index: int, now: float) -> dict[str, object]:
        smi, handle = self._smi, self._gpus[index]
        kind, metric = smi.AmdSmiTemperatureType, smi.AmdSmiTemperatureMetric
        clock = self._query(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX)
        activity = self._query(smi.amdsmi_get_gpu_activity, handle)
        power = self._query(smi.amdsmi_get_power_info, handle)
        memory = self._query(smi.amdsmi_get_gpu_vram_usage, handle)
        energy = self._query(smi.amdsmi_get_energy_count, handle)
        errors = self._query(smi.amdsmi_get_gpu_total_ecc_count, handle)
        fan = self._value(smi.amdsmi_get_gpu_fan_speed, handle, 0)
        most = self._value(smi.amdsmi_get_gpu_fan_speed_max, handle, 0)
        fields: dict[str, object] = {
            "clock": clock.get("clk"),
            "max_clock": clock.get("max_clk"),
            "power": _first(power, "current_socket_power", "average_socket_power", scale=MILLI),
            "power_limit": _limit_mw(power.get("power_limit")),
            "temperature": self._value(smi.amdsmi_get_temp_metric, handle, kind.HOTSPOT, metric.CURRENT),
            "temp_slowdown": self._value(smi.amdsmi_get_temp_metric, handle, kind.HOTSPOT, metric.CRITICAL),
            "gpu_util": activity.get("gfx_activity"),
            "mem_util": activity.get("umc_activity"),
            "dram_free": (memory["vram_total"] - memory["vram_used"]) * MIB if memory else None,
            "dram_total": memory["vram_total"] * MIB if memory else None,
            "fan": round(100 * fan / most) if fan is not None and most else None,
            "ecc_corrected": errors.get("correctable_count"),
            "ecc_uncorrected": errors.get("uncorrectable_count"),
        }
        if energy:
            used_mj = energy["energy_accumulator"] * energy["counter_resolution"] / MILLI  # counted in µJ
            fields["energy"] = used_mj - self._first_mj.setdefault(index, used_mj)
            if (average_mw := self._rates[index].per_second(now, {"energy": used_mj}).get("energy")) is not None:
                fields["power"] = round(average_mw)
        return _supported(fields)

    def _slow(self, index: int, now: float) -> dict[str, object]:
        """Why the clocks are throttled, and the traffic on the links."""
        smi, handle = self._smi, self._gpus[index]
        metrics = self._query(smi.amdsmi_get_gpu_metrics_info, handle)
        counters = {name: metrics[name] for name, _ in _HELD if name in metrics}
        for name, counter in _XGMI.items():
            if links := [count for count in metrics.get(counter, ()) if count != UNKNOWN]:
                counters[name] = sum(links) * KIB
        rates = self._slow_rates[index].per_second(now, counters)
        pcie = self._query(smi.amdsmi_get_pcie_info, handle).get("pcie_metric", {}).get("pcie_bandwidth", UNKNOWN)
        return _supported(
            {
                "throttle": _throttle(metrics, rates),
                "pcie": UNKNOWN if pcie == UNKNOWN else pcie * MEGABIT,
                **{name: rates.get(name) for name in _XGMI},
            }
        )

    def _model(self, index: int) -> dict[str, object]:
        smi, handle = self._smi, self._gpus[index]
        about = self._query(smi.amdsmi_get_gpu_asic_info, handle)
        memory = self._query(smi.amdsmi_get_gpu_vram_usage, handle)
        fields = {
            "id": index,
            "name": about.get("market_name"),
            "sm_count": about.get("num_compute_units"),
            "memory": memory["vram_total"] * MIB if memory else None,
            "free": (memory["vram_total"] - memory["vram_used"]) * MIB if memory else None,
            "uuid": self._value(smi.amdsmi_get_gpu_device_uuid, handle),
            "architecture": about.get("target_graphics_version"),
        }
        return _supported(fields)

    def _query(self, call: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """The supported values of a query that returns several."""
        answer = self._value(call, *arguments)
        return {name: value for name, value in answer.items() if value != UNKNOWN} if answer else {}

    def _value(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except self._smi.AmdSmiException:
            return None


def _supported(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None and value != UNKNOWN}


def _throttle(metrics: Mapping[str, object], rates: Mapping[str, float]) -> str | None:
    """What throttled the clocks since the last sample; without such counters, whether anything does now."""
    held = [(name, words) for name, words in _HELD if name in rates]
    if held:
        return next((words for name, words in held if rates[name] > 0), "")
    now = [metrics[name] for name in ("indep_throttle_status", "throttle_status") if name in metrics]
    return ("other cap" if any(now) else "") if now else None


def _first(answers: Mapping[str, float], *names: str, scale: float = 1.0) -> int | None:
    """The first value that is known and not zero; older cards report zero for unknown."""
    return next((round(answers[name] * scale) for name in names if answers.get(name)), None)


def _limit_mw(limit: int | None) -> int | None:
    """A power limit in mW. Documented in W, but some releases pass on the kernel's µW; the ranges do not overlap."""
    if not limit:
        return None
    return limit * MILLI if limit < 100_000 else round(limit / MILLI)


def _load(rocm: str) -> None:
    """Fail before AMD's package does, which prints something first, if its library is missing."""
    tried = []
    for place in (str(Path(rocm) / "lib" / LIBRARY), LIBRARY):
        try:
            ctypes.CDLL(place)
            return
        except OSError as error:
            tried.append(words(error))
    raise OSError(f"AMD's library {LIBRARY} cannot be loaded: {'; '.join(tried)}")
