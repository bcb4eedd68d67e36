"""Counting routers on a device."""

import jax
import jax.numpy as jnp
import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import chiplog
from chiplog.metrics.moe import HEALTHY, Router, health, verdict
from chiplog.runtime.devices.moe_counter import Routing
from chiplog.runtime.devices.pending_values import PendingValues


def test_counts_are_those_of_numpy():
    """Two micro-batches of two layers, against the same worked out by hand."""
    torch.manual_seed(0)
    routing = Routing(layers=2, experts=8, aux_coefficient=0.01, z_coefficient=0.001)
    logits = torch.randn(2, 2, 50, 8)
    for micro in range(2):
        for layer in range(2):
            chosen = logits[micro, layer].topk(2, dim=1).indices
            routing.add(layer, chosen, logits[micro, layer].requires_grad_())
    found = routing.take().health()
    flat = logits.detach().transpose(0, 1).reshape(2, 100, 8).double()
    chosen = flat.topk(2, dim=2).indices
    counts = numpy.stack([numpy.bincount(chosen[layer].reshape(-1).numpy(), minlength=8) for layer in range(2)])
    wanted = health(
        counts,
        flat.softmax(dim=2).numpy(),
        z=(flat.logsumexp(dim=2) ** 2).mean(dim=1).numpy(),
        aux_coefficient=0.01,
        z_coefficient=0.001,
    )
    assert found == pytest.approx(wanted, rel=1e-5)
    assert routing.take().health() == {}, "taken, and started again"


def test_bfloat16_and_no_logits():
    """Half precision is counted in single; without logits only the load is known."""
    routing = Routing(layers=1, experts=4)
    routing.add(0, torch.tensor([[0, 1], [0, 2]]))
    found = routing.take().health()
    assert found["max_expert_fraction"] == 0.5 and "router_entropy" not in found
    routing.add(0, torch.tensor([0, 1]), torch.zeros(2, 4, dtype=torch.bfloat16))
    assert routing.take().health()["router_entropy"] == pytest.approx(1.0)


def test_an_untrained_router_is_healthy():
    """Three layers of small random logits, with nothing said about coefficients."""
    torch.manual_seed(0)
    routing = Routing(layers=3, experts=8)
    for layer in range(3):
        logits = torch.randn(512, 8)
        routing.add(layer, logits.topk(2).indices, logits)
    found = routing.take().health()
    assert {name: verdict(name, found[name]) for name in HEALTHY} == dict.fromkeys(HEALTHY, "healthy")


class Deaf(TorchDispatchMode):
    """Fails whenever a value of a tensor is needed on the host, or the size of a result hangs on one."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "item", "bincount", "nonzero", "unique"), (
            f"{name} waits for the device"
        )
        return function(*args, **(kwargs or {}))


def test_nothing_is_read_while_counting():
    """Counting and handing over ask for no value, so no device is waited for."""
    with Deaf():
        with pytest.raises(AssertionError, match="waits"):
            torch.ones(1).item()
        routing = Routing(layers=1, experts=4)
        routing.add(0, torch.zeros(6, dtype=torch.int64), torch.zeros(6, 4))
        router = routing.take()
    assert router.health()["load_imbalance"] == 4.0
    assert type(router.fields()["values"][0][0]) is int


@jax.jit
def slow(x):
    """Counts that take a good part of a second on any CPU."""
    return jax.lax.fori_loop(0, 150, lambda _, y: jnp.tanh(y @ y), x).sum() * 0 + jnp.full((2, 4), 5)


def test_a_router_on_a_device_is_not_waited_for(tmp_path):
    """Counts that are still being computed: log() returns with the rest, the router follows when it is ready."""
    matrix = jnp.ones((500, 500)) / 500
    slow(matrix).block_until_ready()
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    router = Router(slow(matrix), numpy.full((2, 4), 0.25))
    assert PendingValues().holds(router)
    assert run.log({"loss": 1.0, "moe": router}, step=3) == {"loss": 1.0}
    run.finish()
    stored = chiplog.read(run.dir)
    assert stored.series("moe/load_imbalance").values.tolist() == [1.0]
    (record,) = stored.records(kind="matrix")
    assert record.step == 3 and record.values == [[5] * 4] * 2


def test_jax_arrays_that_are_ready_are_written_at_once(tmp_path):
    """No detour for what is here already."""
    counts = jnp.array([[3, 1]])
    counts.block_until_ready()
    assert not PendingValues().holds(Router(counts))
    assert Router(counts).health()["max_expert_fraction"] == 0.75
