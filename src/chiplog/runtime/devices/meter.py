"""What measures the steps of a run, on the machine it runs on."""

from __future__ import annotations

from typing import Any

from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.core.protocols import StepMeter


def meter(
    *,
    model: Any = None,
    flops_per_token: Any = None,
    device: str | None = None,
    dtype: Any = "bf16",
    peak_tflops: float | None = None,
    memory: bool = False,
    quiet: bool = False,
    **options: Any,
) -> StepMeter:
    """What measures the steps of a run; a share of the peak only where operations and peak are known.

    A `quiet` one does not say so where they are not: one rank of many is enough.
    """
    from chiplog.metrics import flops, hardware, throughput
    from chiplog.runtime.devices import accelerator as device_
    from chiplog.runtime.devices import memory as memory_

    try:
        if hardware.dtype_name(dtype) is None:
            raise ValueError(f"dtype = {dtype!r}; there are: {', '.join(hardware.DTYPES)}")
        if model is not None:
            flops_per_token = flops.count(model)
        if peak_tflops is None and (flops_per_token is not None or options.get("flops_per_step") is not None):
            name = device or device_.name()
            peak_tflops = hardware.peak(name, dtype) if name else None
            if peak_tflops is None and not quiet:
                messages.say(f"there will be no MFU: {_why(name, dtype)}")
        return throughput.Meter(
            flops_per_token=flops_per_token,
            peak_tflops=peak_tflops,
            memory=memory_.read if memory else None,
            **options,
        )
    except (ValueError, TypeError) as error:
        raise BadSetting(f"run.meter: {error}") from None


def _why(name: str | None, dtype: Any) -> str:
    """Why there is no peak, and what to do."""
    from chiplog.runtime.devices import accelerator as device

    if name is None and device.is_asleep():
        return "nothing computes on the GPU yet; call run.meter(...) when the model is there, or give it device=..."
    return f"the peak of {name or 'this CPU'} in {dtype} is not known; give it: run.meter(peak_tflops=...)"
