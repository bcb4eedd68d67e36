"""Counts operations: of a torch module by running it once, of a jitted JAX step by asking its compiler.

For models that no formula fits. The result is for one whole batch: pass it to `run.meter(flops_per_step=...)`.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.core.errors import ChiplogError

if TYPE_CHECKING:
    import torch


class Counted(msgspec.Struct, frozen=True):
    """Floating-point operations of one batch."""

    forward: int
    backward: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward


def count_torch(
    module: torch.nn.Module,
    *args: object,
    backward: bool = True,
    loss: Callable[[Any], Any] | None = None,
    meta: bool | None = None,
    **kwargs: object,
) -> Counted:
    """Count a module's operations for these inputs; the module and all random generators stay unchanged.

    `meta=True` computes nothing and takes no memory. A module that depends on values, as some routers do, needs real
    ones (`meta=False`), and is then run once on its device. None tries the first, then the second. `loss` turns the
    output into a scalar; by default that is the output's own `loss`, or the sum of its tensors.

    >>> count_torch(model, torch.randint(0, 1000, (8, 128))).total
    """
    if meta is None:
        try:
            return count_torch(module, *args, backward=backward, loss=loss, meta=True, **kwargs)
        except ChiplogError:
            meta = False
    try:
        return _run(module, args, kwargs, "meta" if meta else None, backward, loss)
    except Exception as error:
        raise ChiplogError(f"the operations of {type(module).__name__} cannot be counted: {error}") from error


def count_jax(step: Any, *args: object, **kwargs: object) -> int | None:
    """The operations of a JAX step for these arguments, by the compiler's cost analysis; None if it has none.

    `step` is a function, jitted or not, or the result of its `lower` or `compile`. Nothing is run, and donated
    arguments stay valid. The compiler counts the body of a loop (`scan`, `while_loop`) once.
    """
    if not hasattr(step, "cost_analysis"):
        if not hasattr(step, "lower"):
            import jax

            step = jax.jit(step)
        step = step.lower(*args, **kwargs)
    cost = step.cost_analysis()
    if cost is None and hasattr(step, "compile"):
        cost = step.compile().cost_analysis()
    if isinstance(cost, (list, tuple)):  # one per program, in older versions
        cost = cost[0] if cost else None
    flops = cost.get("flops") if isinstance(cost, Mapping) else None
    return None if flops is None or flops < 0 else int(flops)


def _run(
    module: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    place: str | None,
    backward: bool,
    loss: Callable[[Any], Any] | None,
) -> Counted:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils._pytree import tree_map
    from torch.utils.flop_counter import FlopCounterMode

    def moved(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(place) if place else value.detach().clone()

    twin = _twin(module, place)
    args, kwargs = tree_map(moved, args), tree_map(moved, kwargs)
    # The counter does not know all fused attention kernels; it knows plain products.
    with _same_randomness(), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as counter:
            output = twin(*args, **kwargs)
        forward = counter.get_total_flops()
        if not backward:
            return Counted(forward)
        with FlopCounterMode(display=False) as counter:
            scalar = _scalar(output) if loss is None else loss(output)
            scalar.backward()
    return Counted(forward, counter.get_total_flops())


def _twin(module: torch.nn.Module, place: str | None) -> torch.nn.Module:
    """A copy of a module with its own parameters: on `meta`, or sharing their data. Its buffers are copies."""
    import torch

    memo: dict[int, object] = {}
    for weight in module.parameters():
        data = torch.empty_like(weight, device=place) if place else weight
        memo[id(weight)] = torch.nn.Parameter(data.detach(), requires_grad=weight.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device=place) if place else buffer.detach().clone()
    return copy.deepcopy(module, memo)


def _scalar(output: object) -> Any:
    """A scalar for the backward pass: the output's loss, or the sum of everything that has a gradient."""
    import torch
    from torch.utils._pytree import tree_leaves

    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is not None:
        return loss
    # Many models return an object of their own, without a loss if they were called without labels.
    fields = {"logits": getattr(output, "logits", None), **getattr(output, "__dict__", {})}
    everything = output if isinstance(output, torch.Tensor) else [tree_leaves(output), fields]
    tensors = {id(one): one for one in tree_leaves(everything) if isinstance(one, torch.Tensor) and one.requires_grad}
    leaves = list(tensors.values())
    if not leaves:
        raise ChiplogError("its output has no gradient; pass loss=... or backward=False")
    return sum((leaf.float().sum() for leaf in leaves[1:]), leaves[0].float().sum())


@contextmanager
def _same_randomness() -> Iterator[None]:
    """Restore the random generators of Python and torch afterwards, and numpy's if it is loaded."""
    import torch

    numpy = sys.modules.get("numpy")
    python, theirs = random.getstate(), numpy.random.get_state() if numpy else None
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.random.set_state(theirs)
