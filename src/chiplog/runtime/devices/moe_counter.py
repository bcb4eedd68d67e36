"""Counts the choices of a torch model's routers on their device: nothing is read back, so nothing waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chiplog.metrics.moe import Router

if TYPE_CHECKING:
    import torch


class Routing:
    """Adds up the choices of every router over a step, micro-batches included; `take` returns them and starts over.

    >>> routing = chiplog.Routing(layers=24, experts=64)
    >>> routing.add(layer, chosen, logits)              # in the forward pass of each router
    >>> run.log({"moe": routing.take()}, step=step)     # once per step
    """

    def __init__(
        self, layers: int, experts: int, *, aux_coefficient: float | None = None, z_coefficient: float | None = None
    ) -> None:
        self.layers, self.experts = layers, experts
        self._coefficients = {"aux_coefficient": aux_coefficient, "z_coefficient": z_coefficient}
        self._sums: dict[str, torch.Tensor] = {}

    def add(self, layer: int, chosen: torch.Tensor, logits: torch.Tensor | None = None) -> None:
        """Add the experts chosen for some tokens, of any shape, and the router's logits, [..., expert]."""
        import torch  # the caller has it

        with torch.no_grad():
            flat = chosen.detach().reshape(-1)
            counts = self._sum("counts", self.experts, flat.device, torch.int64)
            # `bincount` needs the largest index first, and would wait for the device
            counts[layer].scatter_add_(0, flat.long(), torch.ones_like(flat, dtype=torch.int64))
            if logits is None:
                return
            table = logits.detach().reshape(-1, self.experts).float()
            lse = table.logsumexp(dim=1)
            logs = table - lse[:, None]
            probs = logs.exp()
            for name, value in (
                ("tokens", torch.ones_like(lse).sum()),
                ("z", (lse * lse).sum()),
                ("entropy", -(probs * logs).sum()),
                ("confidence", probs.amax(dim=1).sum()),
            ):
                self._sum(name, None, flat.device, torch.float64)[layer] += value
            self._sum("probs", self.experts, flat.device, torch.float64)[layer] += probs.sum(dim=0)

    def take(self) -> Router:
        """The counts since the last call, still on their device."""
        import torch

        sums, self._sums = self._sums, {}
        counts = sums.get("counts", torch.zeros(self.layers, self.experts, dtype=torch.int64))
        if "tokens" not in sums:
            return Router(counts, **self._coefficients)
        tokens = sums["tokens"].clamp(min=1)
        return Router(
            counts,
            sums["probs"] / tokens[:, None],
            entropy=sums["entropy"] / tokens,
            confidence=sums["confidence"] / tokens,
            z=sums["z"] / tokens,
            **self._coefficients,
        )

    def _sum(self, name: str, width: int | None, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        if name not in self._sums:
            import torch

            shape = (self.layers,) if width is None else (self.layers, width)
            self._sums[name] = torch.zeros(shape, dtype=dtype, device=device)
        return self._sums[name]
