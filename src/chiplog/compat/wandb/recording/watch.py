"""Histograms of gradients and parameters, from hooks on a torch model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chiplog.compat.wandb import messages
from chiplog.compat.wandb.data.media import Histogram

BINS = 64


class Watches:
    """The hooks of one run; `log` gets the histograms by name."""

    def __init__(self, log: Callable[[Mapping[str, Any]], None]) -> None:
        self._log = log
        self._handles: list[Any] = []

    def add(self, models: Any, what: str | None, every: int, index: int) -> None:
        """Watch one model or several: "gradients", "parameters" or "all"."""
        for at, model in enumerate(models if isinstance(models, list | tuple) else [models], index):
            prefix = f"graph_{at}" if at else ""
            if not hasattr(model, "named_parameters"):
                messages.once("watch", f"watch needs a torch module, not {type(model).__name__}; nothing is recorded")
                continue
            if what in ("gradients", "all"):
                for name, parameter in model.named_parameters():
                    if parameter.requires_grad:
                        self._handles.append(
                            parameter.register_hook(self._gradient(f"gradients/{prefix}{name}", every))
                        )
            if what in ("parameters", "all"):
                self._handles.append(model.register_forward_hook(self._parameters(f"parameters/{prefix}", every)))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _gradient(self, name: str, every: int) -> Callable[[Any], None]:
        seen = 0

        def hook(gradient: Any) -> None:
            nonlocal seen
            seen += 1
            if seen % every == 0:
                self._record({name: gradient})

        return hook

    def _parameters(self, prefix: str, every: int) -> Callable[..., None]:
        seen = 0

        def hook(module: Any, *_: object) -> None:
            nonlocal seen
            seen += 1
            if module.training and seen % every == 0:
                self._record({f"{prefix}{name}": one for name, one in module.named_parameters()})

        return hook

    def _record(self, tensors: Mapping[str, Any]) -> None:
        try:
            self._log({name: _histogram(tensor.detach()) for name, tensor in tensors.items()})
        except Exception as error:
            messages.failed("wandb.watch", error)


def _histogram(tensor: Any) -> Histogram:
    """Counted where the tensor is; only the counts are copied."""
    flat = tensor.float().flatten()
    finite = flat[flat.isfinite()]
    if not finite.numel():
        return Histogram([])
    low, high = finite.min().item(), finite.max().item()
    if low == high:
        return Histogram(np_histogram=([float(finite.numel())], [low - 0.5, high + 0.5]))
    counts = finite.cpu().histc(bins=BINS, min=low, max=high).tolist()
    return Histogram(np_histogram=(counts, [low + (high - low) * at / BINS for at in range(BINS + 1)]))
