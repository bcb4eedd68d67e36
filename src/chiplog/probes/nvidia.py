"""NVIDIA GPUs, through NVML.

What a GPU or a driver does not support is absent, and not queried again. Values that change slowly are queried and
reported once per second at most. A lost GPU is reported once and left out; the others continue. Power is the energy
used since the last sample divided by the time since then, so nothing between two samples is missed. Power is in
mW and energy in mJ, as in NVML.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pynvml

from chiplog.core import messages
from chiplog.probes.counters import Rates

INTERVAL = 5.0  # s
SLOW = 1.0  # s between queries of memory, limits, the fan, error counts and the links' rates
RETRY = 60.0  # s until a lost GPU is tried again
ALL_LINKS = 0xFFFFFFFF
KIB = 1024

_UNSUPPORTED = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    )
)
# Why the clocks are throttled; the first of several wins.
_REASONS = (
    (pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, "power cap"),
    (
        pynvml.nvmlClocksEventReasonSwThermalSlowdown
        | pynvml.nvmlClocksEventReasonHwThermalSlowdown
        | pynvml.nvmlClocksEventReasonHwSlowdown,
        "thermal cap",
    ),
    (pynvml.nvmlClocksEventReasonGpuIdle, "idle"),
)
# CUDA cores per multiprocessor by compute capability, NVIDIA's CUDA programming guide; NVML knows only the cores.
_CORES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
_CORES_SINCE_86 = 128

Handle: TypeAlias = object


def open_probe(environ: Mapping[str, str], *, interval: float = INTERVAL, gpus: Sequence[int] | None = None) -> Nvidia:
    """`gpus` are NVML's indices; by default those in `CUDA_VISIBLE_DEVICES`, or all."""
    return Nvidia(interval, gpus=gpus, visible=environ.get("CUDA_VISIBLE_DEVICES"))


class Nvidia:
    """A probe: an event `gpu` per GPU and sample, and `gpu-model` once per GPU."""

    name = "gpu"

    def __init__(
        self, interval: float = INTERVAL, *, gpus: Sequence[int] | None = None, visible: str | None = None
    ) -> None:
        if not interval > 0:
            raise ValueError(f"interval is seconds between two samples, not {interval!r}")
        self.interval = interval
        self._wanted = None if gpus is None else frozenset(gpus)
        self._visible = visible
        self._gpus: list[_Gpu] = []
        self._open = False

    def first(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        self._open_driver()
        for gpu in self._gpus:
            try:
                yield "gpu-model", gpu.model()
            except pynvml.NVMLError as error:
                self._lose(gpu, error, time.monotonic())

    def sample(self) -> list[dict[str, object]]:
        self._open_driver()
        now = time.monotonic()
        samples: list[dict[str, object]] = []
        for gpu in self._gpus:
            if now < gpu.retry:
                continue
            try:
                samples.append(gpu.sample(now))
            except pynvml.NVMLError as error:
                samples.append(self._lose(gpu, error, now))
        if all(gpu.retry > now for gpu in self._gpus):
            self.close()  # the driver may come back, and is then opened again
        return samples

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                pass  # a driver that is gone cannot be closed either

    def _open_driver(self) -> None:
        if self._open:
            return
        if self._gpus and time.monotonic() < min(gpu.retry for gpu in self._gpus):
            return
        pynvml.nvmlInit()
        self._open = True
        gpus = [_Gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
        self._gpus = [gpu for gpu in gpus if self._is_mine(gpu)]

    def _is_mine(self, gpu: _Gpu) -> bool:
        if self._wanted is not None:
            return gpu.index in self._wanted
        if self._visible is None or "MIG-" in self._visible:
            return True  # it does not select whole GPUs
        names = [name.strip() for name in self._visible.split(",")]
        return any(name == str(gpu.index) or (len(name) > 4 and gpu.uuid.startswith(name)) for name in names)

    def _lose(self, gpu: _Gpu, error: Exception, now: float) -> dict[str, object]:
        gpu.retry = now + RETRY
        messages.once(
            f"gpu {gpu.index} lost",
            f"GPU {gpu.index} does not answer ({error}); it is left out and retried every {RETRY:.0f} s",
        )
        return {"id": gpu.index, "lost": True, "reason": str(error)}


class _Reading(NamedTuple):
    """One query to NVML: the names of its values, and the ways to ask, best first."""

    names: tuple[str, ...]
    ways: Sequence[Callable[[Handle], Any]]


class _Gpu:
    """One GPU, and the queries it supports."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._handle: Handle = None
        self.retry = 0.0
        self._often, self._seldom, self._power = list(_OFTEN), list(_SELDOM), list(_POWER)
        self._slow_at = 0.0  # when to query slow values next
        self._pcie, self._fields = list(_PCIE), list(_LINKS)
        self._rates, self._average = Rates(), Rates()
        self._first_mj: int | None = None  # energy at the first sample

    @property
    def handle(self) -> Handle:
        """Raises when the GPU is lost."""
        if self._handle is None:
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(self.index)
        return self._handle

    @property
    def uuid(self) -> str:
        try:
            return str(pynvml.nvmlDeviceGetUUID(self.handle))
        except pynvml.NVMLError:
            return ""

    def sample(self, now: float) -> dict[str, object]:
        fields: dict[str, Any] = {"id": self.index, **self._query(self._often)}
        average_mw = None
        if (energy_mj := fields.get("energy")) is not None:
            self._first_mj = energy_mj if self._first_mj is None else self._first_mj
            fields["energy"] = energy_mj - self._first_mj
            average_mw = self._average.per_second(now, {"power": energy_mj}).get("power")
        fields |= self._query(self._power) if average_mw is None else {"power": round(average_mw)}
        if now >= self._slow_at:
            self._slow_at = now + SLOW
            links = self._links()
            fields |= self._query(self._seldom) | self._rates.per_second(now, links)
            if "pcie_rx" not in links and "pcie_tx" not in links:
                fields |= self._query(self._pcie)
        return fields

    def model(self) -> dict[str, object]:
        """The model and its properties."""
        fields: dict[str, Any] = {"id": self.index, **self._query(list(_MODEL))}
        cores = fields.pop("cores", None)
        each = _cores_of(fields.get("major"), fields.get("minor"))
        if cores and each and cores % each == 0:
            fields["sm_count"] = cores // each
        return fields

    def _query(self, readings: list[_Reading]) -> dict[str, Any]:
        """The values of these queries; one that is not supported is not tried again. Raises when the GPU is lost."""
        handle = self.handle
        fields: dict[str, Any] = {}
        refused = []
        for reading in readings:
            names, ways = reading
            try:
                answer = ways[0](handle)
            except pynvml.NVMLError as error:
                if error.value not in _UNSUPPORTED:
                    raise
                refused.append(reading)
                continue
            if len(names) == 1:
                fields[names[0]] = answer
            else:
                fields.update(zip(names, answer, strict=True))
        return fields | self._query_otherwise(readings, refused) if refused else fields

    def _query_otherwise(self, readings: list[_Reading], refused: list[_Reading]) -> dict[str, Any]:
        """Query in the next best way, and use that from now on."""
        others = [_Reading(names, rest) for names, (_, *rest) in refused if rest]
        readings[:] = [reading for reading in readings if reading not in refused]
        fields = self._query(others)
        readings += others
        return fields

    def _links(self) -> dict[str, int]:
        """Bytes on the links, from an arbitrary start; all with one call."""
        if not self._fields:
            return {}
        try:
            values = pynvml.nvmlDeviceGetFieldValues(
                self.handle, [(field, scope) for _, field, scope, _ in self._fields]
            )
        except pynvml.NVMLError as error:
            if error.value not in _UNSUPPORTED:
                raise
            self._fields = []
            return {}
        counters, kept = {}, []
        for field, (*_, kind, code, value) in zip(self._fields, _FIELD.iter_unpack(values), strict=True):
            if code == pynvml.NVML_SUCCESS:
                counters[field[0]] = _VALUES[kind].unpack_from(value)[0] * field[3]
                kept.append(field)
            elif code not in _UNSUPPORTED:
                raise pynvml.NVMLError(code)
        self._fields = kept
        return counters


def _reason(bits: int) -> str:
    """Why the clocks are throttled; empty if they are not."""
    return next((words for mask, words in _REASONS if bits & mask), "other cap" if bits else "")


def _cores_of(major: int | None, minor: int | None) -> int | None:
    if major is None or minor is None or major < 7:
        return None
    return _CORES.get((major, minor), _CORES_SINCE_86)


def _memory(handle: Handle) -> tuple[int, int]:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.free, memory.total


def _reserved(handle: Handle) -> int:
    reserved: int = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).reserved
    return reserved


def _utilization(handle: Handle) -> tuple[int, int]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _errors(kind: int) -> Callable[[Handle], object]:
    return lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)


_OFTEN = (
    _Reading(("energy",), (pynvml.nvmlDeviceGetTotalEnergyConsumption,)),
    _Reading(("clock",), (lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),)),
    _Reading(
        ("temperature",),
        (
            lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            lambda handle: pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU),
        ),
    ),
    _Reading(("gpu_util", "mem_util"), (_utilization,)),
    _Reading(
        ("throttle",),
        (
            lambda handle: _reason(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
            lambda handle: _reason(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),  # drivers before 535
        ),
    ),
)
_POWER = (_Reading(("power",), (pynvml.nvmlDeviceGetPowerUsage,)),)  # if there is no energy counter
_SELDOM = (
    _Reading(("dram_free", "dram_total"), (_memory,)),
    _Reading(("max_clock",), (lambda handle: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),)),
    _Reading(("power_limit",), (pynvml.nvmlDeviceGetEnforcedPowerLimit, pynvml.nvmlDeviceGetPowerManagementLimit)),
    _Reading(
        ("temp_slowdown",),
        (lambda handle: pynvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),),
    ),
    _Reading(("fan",), (pynvml.nvmlDeviceGetFanSpeed,)),
    _Reading(("ecc_corrected",), (_errors(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),)),
    _Reading(("ecc_uncorrected",), (_errors(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),)),
)
# Without counters, NVML itself measures for 20 ms; the unit is KB per second.
_PCIE = (
    _Reading(
        ("pcie_rx",),
        (lambda handle: pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES) * KIB,),
    ),
    _Reading(
        ("pcie_tx",),
        (lambda handle: pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_TX_BYTES) * KIB,),
    ),
)
_MODEL = (
    _Reading(("name",), (pynvml.nvmlDeviceGetName,)),
    _Reading(("major", "minor"), (pynvml.nvmlDeviceGetCudaComputeCapability,)),
    _Reading(("cores",), (pynvml.nvmlDeviceGetNumGpuCores,)),
    _Reading(("free", "memory"), (_memory,)),
    _Reading(("reserved",), (_reserved,)),
    _Reading(("uuid",), (pynvml.nvmlDeviceGetUUID,)),
    _Reading(("ecc",), (lambda handle: bool(pynvml.nvmlDeviceGetCurrentEccMode(handle)),)),
    _Reading(("cuda_driver",), (lambda _: pynvml.nvmlSystemGetCudaDriverVersion_v2(),)),
)
# name, field, scope, bytes per count
_LINKS = (
    ("pcie_rx", pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0, 1),
    ("pcie_tx", pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0, 1),
    ("nvlink_rx", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS, KIB),
    ("nvlink_tx", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS, KIB),
)
# The memory layout of nvmlFieldValue_t, and its value by type; the binding's own way takes five times as long.
_FIELD = struct.Struct("=IIqqII8s")
_VALUES = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: struct.Struct("=d"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: struct.Struct("=I"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: struct.Struct("=Q"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: struct.Struct("=Q"),
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: struct.Struct("=q"),
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: struct.Struct("=i"),
}
