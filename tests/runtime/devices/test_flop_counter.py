"""Operations counted by running a module once, or by asking the compiler; nothing is left behind."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

from chiplog.core.errors import ChiplogError
from chiplog.metrics.flops import Transformer, count
from chiplog.runtime.devices.flop_counter import count_jax, count_torch

SHAPE = Transformer(layers=2, dim=64, heads=4, kv_heads=2, vocab=256, ffn=192, seq_len=32)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (
            nn.Linear(64, 64, bias=False),
            nn.Linear(64, 32, bias=False),
            nn.Linear(64, 32, bias=False),
        )
        self.o = nn.Linear(64, 64, bias=False)
        self.gate, self.up, self.down = nn.Linear(64, 192), nn.Linear(64, 192), nn.Linear(192, 64)
        self.norm = nn.LayerNorm(64)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part(self.norm(x)).view(batch, length, heads, 16).transpose(1, 2)
            for part, heads in ((self.q, 4), (self.k, 2), (self.v, 2))
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).reshape(batch, length, 64))
        return x + self.drop(self.down(functional.silu(self.gate(x)) * self.up(x)))


class Model(nn.Module):
    """A transformer of two layers with grouped queries; counts its calls and keeps statistics, as models do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 64)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 256, bias=False)
        self.calls = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))


class Routed(nn.Module):
    """Looks at values, which `meta` has not."""

    def __init__(self) -> None:
        super().__init__()
        self.expert = nn.Linear(8, 8, bias=False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.expert(x[x[:, 0] > 0])


@pytest.mark.parametrize("meta", [True, False])
def test_a_transformer_counts_as_the_formula_says(meta: bool) -> None:
    """Within one percent, the options matching: torch multiplies the whole square, also of causal attention."""
    counted = count_torch(Model(), torch.randint(0, 256, (2, 32)), meta=meta)
    expected = count(SHAPE, causal=False).model * 2 * 32
    assert counted.total == pytest.approx(expected, rel=0.01)
    assert counted.backward == pytest.approx(2 * counted.forward, rel=0.02)
    assert count_torch(Model(), torch.randint(0, 256, (2, 32)), backward=False).total == counted.forward


@pytest.mark.parametrize("meta", [True, False])
def test_nothing_is_left_behind(meta: bool) -> None:
    """Weights, gradients, buffers, attributes and every random generator are as they were."""
    model = Model()
    ids = torch.randint(0, 256, (2, 32))
    model(ids).sum().backward()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    count_torch(model, ids, meta=meta)
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()
    assert before[2] == numpy.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    assert model.calls == 1
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(
        torch.equal(value.grad, gradients[name]) for name, value in model.named_parameters() if name in gradients
    )  # type: ignore[arg-type]
    assert {value.device.type for value in model.state_dict().values()} == {"cpu"}


def test_a_module_that_looks_at_values_is_counted_on_real_ones() -> None:
    """And its buffers stay, too."""
    model = Routed()
    x = torch.ones(10, 8)
    assert count_torch(model, x).forward == 2 * 10 * 8 * 8
    assert model.seen == 0
    with pytest.raises(ChiplogError, match="Routed cannot be counted"):
        count_torch(model, x, meta=True)


def test_frozen_weights_have_no_gradient_to_count() -> None:
    """What is frozen in the module is not counted backwards."""
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[0].requires_grad_(False)
    counted = count_torch(model, torch.ones(4, 8))
    assert (counted.forward, counted.backward) == (2 * 2 * 4 * 64, 2 * 4 * 64)


def test_a_step_of_jax_counts_by_its_compiler() -> None:
    """Given as it is, jitted, lowered or compiled; and nothing is run."""

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        return (x @ w).sum()

    x, w = jnp.ones((16, 32)), jnp.ones((32, 8))
    expected = 2 * 16 * 32 * 8
    for one in (step, jax.jit(step), jax.jit(step).lower(x, w), jax.jit(step).lower(x, w).compile()):
        found = count_jax(one, x, w)
        assert found is not None and expected <= found <= expected * 1.05
    trained = count_jax(jax.jit(jax.grad(step, argnums=1), donate_argnums=1), x, w)
    assert trained is not None and trained > 0 and not w.is_deleted()
