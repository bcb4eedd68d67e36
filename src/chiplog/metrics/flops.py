"""The arithmetic of a transformer: the floating-point operations of training on one token.

A weight is multiplied once in the forward pass (2 operations), once for the gradient of its input (2) and once for its
own gradient (2): 6 per weight and token. In attention, a token is multiplied with the keys and values of `context`
tokens, the average number that it attends to. Norms, biases, rotary embeddings, softmax and the lookup of embeddings
are left out, as is customary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Literal, TypeAlias

import msgspec

Fields: TypeAlias = dict[str, Any]  # of a `Transformer`, as far as they are known

LINEAR = ("q", "k", "v", "o", "gate", "up", "down")  # the matrices of a layer that may have an adapter
_PROJECTIONS = LINEAR[:4]  # of its attention


class Transformer(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a model, as far as it determines the number of operations."""

    layers: int
    dim: int
    heads: int
    vocab: int
    ffn: int  # width of a dense layer's feed-forward part
    seq_len: int
    kv_heads: int | None = None  # GQA; 1: MQA; None: as many as heads
    head_dim: int | None = None  # None: dim / heads
    value_dim: int | None = None  # of a head's values, if it differs
    attention_params: int | None = None  # of a layer's projections, unless they are the four usual matrices (MLA)
    gated: bool = True  # three matrices (SwiGLU and similar) instead of two
    window: int | None = None  # sliding window of attention
    window_layers: int | None = None  # how many layers have it; None: all
    moe_layers: int = 0
    experts: int = 0
    top_k: int = 1
    shared_experts: int = 0
    expert_ffn: int | None = None  # None: like `ffn`
    shared_ffn: int | None = None  # None: like an expert's
    router: bool = False  # count the router's matrix
    tied: bool = False  # the head is the embedding: fewer parameters, the same operations

    @property
    def attention_weights(self) -> int:
        """Weights of the projections of one layer's attention."""
        if self.attention_params is not None:
            return self.attention_params
        return sum(rows * columns for name, (rows, columns) in self.matrices.items() if name in _PROJECTIONS)

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """The matrices of a dense layer, (inputs, outputs) each."""
        size = self.head_dim or self.dim // self.heads
        values = self.value_dim or size
        groups = self.kv_heads or self.heads
        matrices = {
            "q": (self.dim, self.heads * size),
            "k": (self.dim, groups * size),
            "v": (self.dim, groups * values),
            "o": (self.heads * values, self.dim),
            "up": (self.dim, self.ffn),
            "down": (self.ffn, self.dim),
        }
        return {**matrices, "gate": (self.dim, self.ffn)} if self.gated else matrices

    @property
    def score_width(self) -> int:
        """Products per attended token in one layer: scores and the weighted sum of values."""
        size = self.head_dim or self.dim // self.heads
        return self.heads * (size + (self.value_dim or size))

    def ffn_weights(self, *, active: bool = True) -> tuple[int, int]:
        """Weights of the feed-forward part of a dense layer, and of one with experts: the active ones, or all."""
        matrices = 3 if self.gated else 2
        dense = matrices * self.dim * self.ffn
        width = self.expert_ffn or self.ffn
        chosen = self.top_k if active else self.experts
        sparse = matrices * self.dim * (chosen * width + self.shared_experts * (self.shared_ffn or width))
        return dense, sparse + (self.dim * self.experts if self.router else 0)

    @property
    def params(self) -> int:
        """All weights of the matrices, including the embedding."""
        return self._weights(active=False) + self.vocab * self.dim * (1 if self.tied else 2)

    @property
    def active_params(self) -> int:
        """The weights that one token is multiplied with: the chosen experts and the head, not the embedding."""
        return self._weights(active=True) + self.vocab * self.dim

    def _weights(self, *, active: bool) -> int:
        dense, sparse = self.ffn_weights(active=active)
        plain = self.layers - self.moe_layers
        return self.layers * self.attention_weights + plain * dense + self.moe_layers * sparse


class Flops(msgspec.Struct, frozen=True):
    """Operations per token of training, by origin."""

    blocks: int  # the layers' matrices, adapters included
    attention: int  # scores and sums
    head: int
    recomputed: int = 0  # forward passes repeated to save memory

    @property
    def model(self) -> int:
        """The operations that the model needs: the numerator of MFU."""
        return self.blocks + self.attention + self.head

    @property
    def hardware(self) -> int:
        """The operations that the device executes: the numerator of HFU."""
        return self.model + self.recomputed


def count(
    model: object,
    *,
    seq_len: int | None = None,
    lengths: Sequence[int] | None = None,
    causal: bool = True,
    frozen: bool = False,
    frozen_layers: int = 0,
    lora_rank: int = 0,
    lora_on: Sequence[str] = LINEAR,
    recompute: Literal["none", "attention", "full"] = "none",
) -> Flops:
    """The operations per token of training; `model` is a `Transformer`, or a config (`from_config`).

    `lengths`: of the documents packed into a sequence, which do not attend to each other. `causal=False` counts the
    whole square of attention, even if half of it is masked (the convention of PaLM and nanoGPT). `frozen`: the weights
    get no gradient, but gradients flow through them, as below adapters (`lora_rank`, on the matrices `lora_on`).
    `frozen_layers`: this many of the lowest layers have no backward pass. `recompute`: which activations are computed
    twice, those of attention's core or of whole layers.

    >>> count(Transformer(layers=32, dim=4096, heads=32, vocab=32000, ffn=11008, seq_len=2048), causal=False).model
    42863689728
    """
    if not isinstance(model, Transformer):
        model = _shape(model, {})
    if recompute not in ("none", "attention", "full"):
        raise ValueError(f"recompute = {recompute!r}; choose from: none, attention, full")
    if unknown := set(lora_on) - set(LINEAR):
        raise ValueError(f"unknown matrix {min(unknown)!r} in lora_on; available: {', '.join(LINEAR)}")
    if not 0 <= frozen_layers <= model.layers:
        raise ValueError(f"frozen_layers = {frozen_layers!r}: the model has {model.layers} layers")
    if lengths is not None and not all(length > 0 for length in lengths):
        raise ValueError(f"lengths = {list(lengths)[:8]!r}: every document needs at least one token")
    weights, scores = _forward(model, lengths or (seq_len or model.seq_len,), causal)
    head = 2 * model.vocab * model.dim
    through = 2 if frozen else 3  # forward, gradient of the input, and of the weights
    live = (model.layers - frozen_layers) / model.layers  # the share of layers with a backward pass
    adapters = 3 * 2 * lora_rank * _adapter_width(model, lora_on) * live
    again = {"none": 0.0, "attention": scores, "full": weights + scores}[recompute]
    return Flops(
        blocks=round(weights * (1 + live * (through - 1)) + adapters),
        attention=round(scores * (1 + live * 2)),
        head=head * through,
        recomputed=round(again * live),
    )


def tflops_per_step(flops_per_token: float, tokens: int, accumulation: int = 1) -> float:
    """TFLOP of one optimizer step with `tokens` in each of `accumulation` batches."""
    return flops_per_token * tokens * accumulation / 1e12


def mfu(flops_per_token: float, tokens_per_sec: float, peak_tflops: float | None, devices: int = 1) -> float | None:
    """The fraction of the devices' peak that was used; None if the peak is not known.

    With `Flops.model` this is MFU, with `Flops.hardware` HFU. `tokens_per_sec` is the total of all `devices`.
    """
    if not peak_tflops or devices <= 0:
        return None
    return flops_per_token * tokens_per_sec / 1e12 / (peak_tflops * devices)


def from_config(config: object, **fields: Any) -> Transformer:
    """The shape that a config describes, an object or a mapping; `fields` override it.

    Knows the names in configs of `transformers`, nanoGPT, and KempnerForge. Raises if a required field is missing.
    """
    try:
        return _shape(config, fields)
    except Incomplete as error:
        raise Incomplete(f"{error}, or call from_config(config, {error.lacking[0]}=...)", error.lacking) from None


class Incomplete(ValueError):
    """A config that lacks a required field of a model's shape."""

    def __init__(self, text: str, lacking: Sequence[str]) -> None:
        super().__init__(text)
        self.lacking = lacking


def _shape(config: object, override: Fields) -> Transformer:
    inner = _get(config, "text_config")
    if inner is not None:
        config = inner
    fields: Fields
    fields = {field: value for field, names in _NAMES.items() if (value := _get(config, *names)) is not None}
    if "ffn" not in fields and _get(config, "n_embd") is not None:
        fields["ffn"] = 4 * fields["dim"]  # GPT-2 and nanoGPT
    if _get(config, "multi_query") is True:
        fields["kv_heads"] = 1
    fields["gated"] = _is_gated(config)
    fields |= _experts(config, fields) | _window(config, fields) | _latent(config, fields)
    fields |= override
    if lacking := [name for name in ("layers", "dim", "heads", "vocab", "ffn", "seq_len") if name not in fields]:
        named = "; ".join(f"{name} (as {', '.join(_NAMES[name])})" for name in lacking)
        raise Incomplete(f"the model's config lacks {named}; add it to the config", lacking)
    return Transformer(**fields)


# The names of a field in configs, the most specific first.
_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "dim": ("hidden_size", "dim", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads"),
    "kv_heads": ("num_key_value_heads", "n_kv_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "ffn": ("computed_ffn_hidden_dim", "intermediate_size", "ffn_hidden_dim", "n_inner", "ffn_dim", "d_ff"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "seq_len": ("max_seq_len", "max_position_embeddings", "n_positions", "block_size", "seq_len"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "top_k": ("moe_top_k", "num_experts_per_tok"),
    "shared_experts": ("moe_shared_experts", "n_shared_experts"),
    "expert_ffn": ("moe_intermediate_size", "computed_expert_ffn_hidden_dim"),
    "shared_ffn": ("shared_expert_intermediate_size",),
    "tied": ("tie_word_embeddings", "tie_embeddings"),
}
# Models whose feed-forward part has a gate other than SiLU.
_GATED = ("gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n_text", "t5gemma")


def _forward(model: Transformer, lengths: Sequence[int], causal: bool) -> tuple[float, float]:
    """Operations of the layers' matrices and of attention in one forward pass, per token."""
    full = model.layers if model.window is None else model.layers - _windowed(model)
    context = full * _context(lengths, None, causal) + (model.layers - full) * _context(lengths, model.window, causal)
    return 2.0 * model._weights(active=True), 2.0 * model.score_width * context


def _windowed(model: Transformer) -> int:
    return model.layers if model.window_layers is None else model.window_layers


def _context(lengths: Sequence[int], window: int | None, causal: bool) -> float:
    """How many tokens a token attends to, on average over documents of these lengths."""
    seen = 0.0
    for length in lengths:
        reach = min(window or length, length)
        seen += length * reach - (reach * reach / 2 if causal else 0)
    return seen / sum(lengths)


def _adapter_width(model: Transformer, on: Sequence[str]) -> int:
    """Inputs and outputs of the matrices with an adapter, over all layers; each expert has an adapter of its own."""
    total = 0
    width = model.expert_ffn or model.ffn
    shared = model.shared_experts * (model.dim + (model.shared_ffn or width))
    for name, (inputs, outputs) in model.matrices.items():
        if name in on and name in _PROJECTIONS:
            total += model.layers * (inputs + outputs)
        elif name in on:
            total += (model.layers - model.moe_layers) * (inputs + outputs)
            total += model.moe_layers * (model.top_k * (model.dim + width) + shared)
    return total


def _experts(config: object, fields: Fields) -> Fields:
    """Which layers have experts: every n-th, except for the first ones and those listed as dense."""
    layers, experts = fields.get("layers", 0), fields.get("experts", 0)
    is_moe = _get(config, "is_moe")
    if is_moe is False or (is_moe is None and not experts):
        return {"experts": 0}
    every = _get(config, "moe_frequency", "decoder_sparse_step", "interleave_moe_layer_step")
    first = _get(config, "first_k_dense_replace") or 0
    dense = _get(config, "mlp_only_layers") or ()
    chosen = [n for n in range(layers) if n >= first and n not in dense and (n + 1) % (every or 1) == 0]
    if (listed := _get(config, "moe_layers")) is not None and isinstance(listed, Sequence):
        chosen = list(listed)
    shared = fields.get("shared_experts") or int("shared_ffn" in fields)
    width = _expert_width(config, fields)
    return {"moe_layers": len(chosen), "shared_experts": shared, "top_k": fields.get("top_k", 1), "expert_ffn": width}


def _expert_width(config: object, fields: Fields) -> int | None:
    """As in the config, or its share of a dense layer's width, rounded up to a multiple of 16."""
    width: int | None = fields.get("expert_ffn")
    share = _get(config, "moe_expert_ffn_multiplier")
    if width is not None or share in (None, 1) or "ffn" not in fields:
        return width
    return 16 * ceil(float(fields["ffn"] * share) / 16)


def _window(config: object, fields: Fields) -> Fields:
    window = _get(config, "sliding_window")
    if window is None or _get(config, "use_sliding_window") is False:
        return {}
    kinds = _get(config, "layer_types")
    return {
        "window": window,
        "window_layers": fields.get("layers") if kinds is None else sum("sliding" in str(kind) for kind in kinds),
    }


def _latent(config: object, fields: Fields) -> Fields:
    """Attention through a latent space (MLA): keys and values are projected from `kv_lora_rank` numbers."""
    rank = _get(config, "kv_lora_rank")
    if rank is None or not {"dim", "heads"} <= fields.keys():
        return {}
    dim, heads = fields["dim"], fields["heads"]
    plain, turned, values = (_get(config, name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    size = plain + turned
    queries = _get(config, "q_lora_rank")
    projected = dim * heads * size if queries is None else queries * (dim + heads * size)
    weights = projected + dim * (rank + turned) + rank * heads * (plain + values) + heads * values * dim
    return {"attention_params": weights, "head_dim": size, "value_dim": values}


def _is_gated(config: object) -> bool:
    if (gated := _get(config, "is_gated_act")) is not None:
        return bool(gated)
    activation = _get(config, "hidden_act", "hidden_activation", "activation_function")
    gelu = activation is not None and str(activation).startswith(("gelu", "relu", "quick_gelu"))
    old = activation is None and _get(config, "n_embd") is not None  # nanoGPT
    return str(_get(config, "model_type")) in _GATED or not (gelu or old)


def _get(config: object, *names: str) -> Any:
    """The first of these fields that a config has; None if it has none of them."""
    for name in names:
        value = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if value is not None:
            return value
    return None
