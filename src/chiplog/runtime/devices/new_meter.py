"""Creates the meter of a run for the machine it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.core.protocols import StepMeter
from chiplog.core.suggestions import did_you_mean
from chiplog.metrics import flops, hardware, throughput
from chiplog.runtime.devices import accelerator
from chiplog.runtime.devices import memory as memory_

if TYPE_CHECKING:
    from chiplog.metrics.flops import Flops


def meter(
    *,
    model: object = None,
    params: float | None = None,
    flops_per_token: float | Flops | None = None,
    device: str | None = None,
    dtype: object = "bf16",
    peak_tflops: float | None = None,
    memory: bool = False,
    quiet: bool = False,
    **options: Any,
) -> StepMeter:
    """Create the meter of a run; it has an MFU only if operations and peak are known.

    `model` is a config, a `Transformer`, or a module; `params` is the number of its weights, if that is all there is.

    Otherwise that is reported, unless `quiet`: one rank of many is enough.
    """
    for option in options:
        if option not in (names := _options()):
            raise BadSetting(
                f"run.meter has no option {option!r}; {did_you_mean(option, names)}available: {', '.join(names)}"
            )
    try:
        if hardware.dtype_name(dtype) is None:
            raise ValueError(f"unknown dtype {dtype!r}; available: {', '.join(hardware.DTYPES)}")
        if model is not None:
            flops_per_token = _count(model)
        elif params is not None and flops_per_token is None:
            flops_per_token = 6 * float(params)  # see metrics/flops.py
        if peak_tflops is None and (flops_per_token is not None or options.get("flops_per_step") is not None):
            name = device or accelerator.name()
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


def _options() -> list[str]:
    """The options of `run.meter`, for its messages."""
    names = {**(meter.__kwdefaults__ or {}), **(throughput.Meter.__init__.__kwdefaults__ or {})}
    return [name for name in names if name != "quiet"]


def _count(model: Any) -> Any:
    """The operations per token of a config, or of a module: by its config if it has one, else by its weights."""
    parameters = getattr(model, "parameters", None)
    if not callable(parameters):
        return flops.count(model)
    if (config := getattr(model, "config", None)) is not None:
        try:
            return flops.count(config)
        except (ValueError, TypeError):
            pass  # not the config of a transformer
    return 6 * sum(weights.numel() for weights in parameters())


def _why(name: str | None, dtype: object) -> str:
    """Why there is no peak, and what to do."""
    if name is None and accelerator.is_asleep():
        return "the GPU is not in use yet; call run.meter(...) after the model is loaded, or pass device=..."
    return f"the peak of {name or 'this CPU'} in {dtype} is unknown; pass it: run.meter(peak_tflops=...)"
