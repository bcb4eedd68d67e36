"""Memory of a GPU in GB of 1024³ bytes; zeros without one."""

from __future__ import annotations

from pathlib import Path

from chiplog.frontends.kempnerforge.logger import get_logger
from chiplog.runtime.devices import accelerator as device_
from chiplog.runtime.devices import memory

GB = 1024**3
STATS = ("allocated_gb", "peak_gb", "reserved_gb", "total_gb")
NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0)

_logger = get_logger("metrics.memory")


def get_memory_stats(device: int | None = 0) -> dict[str, float]:
    """`allocated_gb`, `peak_gb` since the last reset, `reserved_gb`, `total_gb`."""
    return dict(zip(STATS, get_memory(device), strict=False))


def get_memory_utilization(device: int | None = 0) -> float:
    """The peak as a share of the total."""
    return get_memory(device)[4]


def get_memory(device: int | None = 0) -> tuple[float, float, float, float, float]:
    """The four stats and the utilization, measured together."""
    measured = memory.measure(device)
    if measured is None:
        return NOTHING
    bytes_ = (measured.allocated, measured.peak or 0, measured.reserved or 0, measured.total or 0)
    allocated, peak, reserved, total = (one / GB for one in bytes_)
    return allocated, peak, reserved, total, measured.utilization or 0.0


def format_memory_stats(device: int | None = 0) -> str:
    """`GPU mem: 61.0GB allocated, 71.2GB peak, 75.0GB reserved / 80.0GB total (89%)`."""
    allocated, peak, reserved, total, share = get_memory(device)
    return (
        f"GPU mem: {allocated:.1f}GB allocated, {peak:.1f}GB peak, {reserved:.1f}GB reserved / {total:.1f}GB total "
        f"({share:.0%})"
    )


def reset_peak_memory(device: int | None = 0) -> None:
    """Reset the peak to what is allocated now."""
    memory.reset_peak(device)


class DeviceMemoryMonitor:
    """Reports a GPU's memory at each step, with the peak of that step; and writes one snapshot of the allocator."""

    def __init__(
        self, device: int = 0, snapshot_step: int | None = None, snapshot_dir: str = "memory_snapshots"
    ) -> None:
        self.device, self.snapshot_step, self.snapshot_dir = device, snapshot_step, snapshot_dir
        self._snapshot_taken = False

    def report(self, step: int) -> dict[str, float]:
        """The stats of `get_memory_stats` and `mem_utilization`; then the peak is reset."""
        stats = dict(zip((*STATS, "mem_utilization"), get_memory(self.device), strict=True))
        _logger.info(f"[step {step}] {format_memory_stats(self.device)}")
        if step == self.snapshot_step and not self._snapshot_taken:
            self._snapshot_taken = self.capture_snapshot(step) is not None
        reset_peak_memory(self.device)
        return stats

    def capture_snapshot(self, step: int) -> str | None:
        """Write the allocator's blocks to a file for https://pytorch.org/memory_viz; returns its path, or None."""
        path = Path(self.snapshot_dir) / f"snapshot_step_{step}_device_{self.device}.pickle"
        if device_.torch_backend("cuda") is None:  # so there is no need for a directory
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return str(path) if device_.snapshot(path) else None
        except Exception as error:
            _logger.warning(f"no memory snapshot: {error}")
            return None
