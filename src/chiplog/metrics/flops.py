"""The arithmetic of a transformer: how many floating-point operations training on one token takes.

A weight is multiplied once in the forward pass (2 operations), once for the gradient of its input (2) and once for its
own gradient (2): 6 a weight and token. The scores of attention are multiplied with `context` keys and values, the
tokens that one looks at on average. Norms, biases, rotary embeddings, softmax and the lookup of embeddings are left
out, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Literal

import msgspec

LINEAR = ("q", "k", "v", "o", "gate", "up", "down")  # the matrices of a layer that an adapter may be put on
_AROUND = LINEAR[:4]  # those around its attention


class Transformer(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a model, as far as its operations go."""

    layers: int
    dim: int
    heads: int
    vocab: int
    ffn: int  # width of a dense layer's feed-forward part
    seq_len: int
    kv_heads: int | None = None  # GQA; 1: MQA; None: as many as heads
    head_dim: int | None = None  # None: dim / heads
    value_dim: int | None = None  # of a head's values, where that is another one
    attention_params: int | None = None  # of a layer's projections, where they are not the four usual matrices (MLA)
    gated: bool = True  # SwiGLU and the like have three matrices, others two
    window: int | None = None  # sliding window of attention
    window_layers: int | None = None  # how many layers have it; None: all
    moe_layers: int = 0
    experts: int = 0
    top_k: int = 1
    shared_experts: int = 0
    expert_ffn: int | None = None  # None: as `ffn`
    shared_ffn: int | None = None  # None: as an expert's
    router: bool = False  # count the router's matrix
    tied: bool = False  # the head is the embedding: fewer parameters, the same operations

    @property
    def attention_weights(self) -> int:
        """Weights of the projections around one layer's attention."""
        if self.attention_params is not None:
            return self.attention_params
        return sum(rows * columns for name, (rows, columns) in self.matrices.items() if name in _AROUND)

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """The matrices of a dense layer, (inputs, outputs) each."""
        size = self.head_dim or self.dim // self.heads
        values = self.value_dim or size
        groups = self.kv_heads or self.heads
        found = {
            "q": (self.dim, self.heads * size),
            "k": (self.dim, groups * size),
            "v": (self.dim, groups * values),
            "o": (self.heads * values, self.dim),
            "up": (self.dim, self.ffn),
            "down": (self.ffn, self.dim),
        }
        return {**found, "gate": (self.dim, self.ffn)} if self.gated else found

    @property
    def score_width(self) -> int:
        """Products a token has with each token it looks at, in one layer: scores and the weighted sum of values."""
        size = self.head_dim or self.dim // self.heads
        return self.heads * (size + (self.value_dim or size))

    def ffn_weights(self, *, active: bool = True) -> tuple[int, int]:
        """Weights of the feed-forward part of a dense layer, and of one with experts: those a token meets, or all."""
        matrices = 3 if self.gated else 2
        dense = matrices * self.dim * self.ffn
        width = self.expert_ffn or self.ffn
        chosen = self.top_k if active else self.experts
        sparse = matrices * self.dim * (chosen * width + self.shared_experts * (self.shared_ffn or width))
        return dense, sparse + (self.dim * self.experts if self.router else 0)

    @property
    def params(self) -> int:
        """All weights of the matrices, with the embedding."""
        return self._weights(active=False) + self.vocab * self.dim * (1 if self.tied else 2)

    @property
    def active_params(self) -> int:
        """The weights that one token is multiplied with: chosen experts and the head, not the embedding."""
        return self._weights(active=True) + self.vocab * self.dim

    def _weights(self, *, active: bool) -> int:
        dense, sparse = self.ffn_weights(active=active)
        plain = self.layers - self.moe_layers
        return self.layers * self.attention_weights + plain * dense + self.moe_layers * sparse


class Flops(msgspec.Struct, frozen=True):
    """Operations of one token of training, by where they come from."""

    blocks: int  # the layers' matrices, adapters included
    attention: int  # scores and sums
    head: int
    recomputed: int = 0  # forward passes done a second time to save memory

    @property
    def model(self) -> int:
        """What the model needs: the numerator of MFU."""
        return self.blocks + self.attention + self.head

    @property
    def hardware(self) -> int:
        """What the device does: the numerator of HFU."""
        return self.model + self.recomputed


def count(
    model: Any,
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
    """The operations that one token of training takes; `model` is a `Transformer`, or a config (`from_config`).

    `lengths`: those of the documents packed into a sequence, which do not look at each other. `causal=False` counts
    the whole square of attention, also where half of it is masked (the convention of PaLM and nanoGPT). `frozen`: the
    weights get no gradient, what flows through them does, as below adapters (`lora_rank`, on the matrices `lora_on`).
    `frozen_layers`: as many of the lowest layers have no backward pass. `recompute`: which activations are worked out
    a second time, those of attention's core or of whole layers.

    >>> count(Transformer(layers=32, dim=4096, heads=32, vocab=32000, ffn=11008, seq_len=2048), causal=False).model
    42863689728
    """
    if not isinstance(model, Transformer):
        model = _shape(model, {})
    if recompute not in ("none", "attention", "full"):
        raise ValueError(f"recompute = {recompute!r}; there are: none, attention, full")
    if unknown := set(lora_on) - set(LINEAR):
        raise ValueError(f"no matrix {min(unknown)!r} to put an adapter on; there are: {', '.join(LINEAR)}")
    if not 0 <= frozen_layers <= model.layers:
        raise ValueError(f"frozen_layers = {frozen_layers!r}: of {model.layers} layers")
    if lengths is not None and not all(length > 0 for length in lengths):
        raise ValueError(f"lengths = {list(lengths)[:8]!r}: every document has at least one token")
    weights, scores = _forward(model, lengths or (seq_len or model.seq_len,), causal)
    head = 2 * model.vocab * model.dim
    through = 2 if frozen else 3  # forward, gradient of the input, and of the weights
    live = (model.layers - frozen_layers) / model.layers  # the layers' share that has a backward pass
    adapters = 3 * 2 * lora_rank * _adapter_width(model, lora_on) * live
    again = {"none": 0.0, "attention": scores, "full": weights + scores}[recompute]
    return Flops(
        blocks=round(weights * (1 + live * (through - 1)) + adapters),
        attention=round(scores * (1 + live * 2)),
        head=head * through,
        recomputed=round(again * live),
    )


def tflops_per_step(flops_per_token: float, tokens: int, accumulation: int = 1) -> float:
    """TFLOP of one optimizer step: `tokens` in each of `accumulation` batches."""
    return flops_per_token * tokens * accumulation / 1e12


def mfu(flops_per_token: float, tokens_per_sec: float, peak_tflops: float | None, devices: int = 1) -> float | None:
    """The share of the devices' peak that was used, as a fraction; None where there is no peak to hold it against.

    With `Flops.model` this is MFU, with `Flops.hardware` HFU. `tokens_per_sec` is of all `devices` together.
    """
    if not peak_tflops or devices <= 0:
        return None
    return flops_per_token * tokens_per_sec / 1e12 / (peak_tflops * devices)


def from_config(config: Any, **given: Any) -> Transformer:
    """The shape in a config, an object or a mapping, by the names that configs use; `given` goes over it.

    Knows the configs of `transformers`, nanoGPT, and KempnerForge. Fails for one that lacks what has no default.
    """
    try:
        return _shape(config, given)
    except Incomplete as error:
        raise Incomplete(f"{error}, or give it: from_config(config, {error.lacking[0]}=...)", error.lacking) from None


class Incomplete(ValueError):
    """A config that lacks some of a model's shape."""

    def __init__(self, text: str, lacking: Sequence[str]) -> None:
        super().__init__(text)
        self.lacking = lacking


def _shape(config: Any, given: Mapping[str, Any]) -> Transformer:
    inner = _get(config, "text_config")
    if inner is not None:
        config = inner
    found = {field: value for field, names in _NAMES.items() if (value := _get(config, *names)) is not None}
    if "ffn" not in found and _get(config, "n_embd") is not None:
        found["ffn"] = 4 * found["dim"]  # GPT-2 and nanoGPT
    if _get(config, "multi_query") is True:
        found["kv_heads"] = 1
    found["gated"] = _is_gated(config)
    found |= _experts(config, found) | _window(config, found) | _latent(config, found)
    found |= given
    if lacking := [name for name in ("layers", "dim", "heads", "vocab", "ffn", "seq_len") if name not in found]:
        named = "; ".join(f"{name} (as {', '.join(_NAMES[name])})" for name in lacking)
        raise Incomplete(f"the model's config lacks {named}; add it to the config", lacking)
    return Transformer(**found)


# What configs call it, the most telling first.
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
# Models whose feed-forward part is gated by something else than SiLU.
_GATED = ("gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n_text", "t5gemma")


def _forward(model: Transformer, lengths: Sequence[int], causal: bool) -> tuple[float, float]:
    """Operations of the layers' matrices and of attention in one forward pass, a token."""
    full = model.layers if model.window is None else model.layers - _windowed(model)
    context = full * _context(lengths, None, causal) + (model.layers - full) * _context(lengths, model.window, causal)
    return 2.0 * model._weights(active=True), 2.0 * model.score_width * context


def _windowed(model: Transformer) -> int:
    return model.layers if model.window_layers is None else model.window_layers


def _context(lengths: Sequence[int], window: int | None, causal: bool) -> float:
    """How many tokens one looks at, on average over all tokens of documents of these lengths."""
    seen = 0.0
    for length in lengths:
        reach = min(window or length, length)
        seen += length * reach - (reach * reach / 2 if causal else 0)
    return seen / sum(lengths)


def _adapter_width(model: Transformer, on: Sequence[str]) -> int:
    """Inputs and outputs of the matrices with an adapter, over all layers; each expert has its own."""
    total = 0
    width = model.expert_ffn or model.ffn
    shared = model.shared_experts * (model.dim + (model.shared_ffn or width))
    for name, (inputs, outputs) in model.matrices.items():
        if name in on and name in _AROUND:
            total += model.layers * (inputs + outputs)
        elif name in on:
            total += (model.layers - model.moe_layers) * (inputs + outputs)
            total += model.moe_layers * (model.top_k * (model.dim + width) + shared)
    return total


def _experts(config: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers have experts: every n-th, but for the first and those named."""
    layers, experts = found.get("layers", 0), found.get("experts", 0)
    told = _get(config, "is_moe")
    if told is False or (told is None and not experts):
        return {"experts": 0}
    every = _get(config, "moe_frequency", "decoder_sparse_step", "interleave_moe_layer_step")
    first = _get(config, "first_k_dense_replace") or 0
    dense = _get(config, "mlp_only_layers") or ()
    chosen = [n for n in range(layers) if n >= first and n not in dense and (n + 1) % (every or 1) == 0]
    if (listed := _get(config, "moe_layers")) is not None and isinstance(listed, Sequence):
        chosen = list(listed)
    shared = found.get("shared_experts") or int("shared_ffn" in found)
    width = _expert_width(config, found)
    return {"moe_layers": len(chosen), "shared_experts": shared, "top_k": found.get("top_k", 1), "expert_ffn": width}


def _expert_width(config: Any, found: Mapping[str, Any]) -> int | None:
    """As the config says, or its share of a dense layer's width, in whole sixteens."""
    said: int | None = found.get("expert_ffn")
    share = _get(config, "moe_expert_ffn_multiplier")
    if said is not None or share in (None, 1) or "ffn" not in found:
        return said
    return 16 * ceil(float(found["ffn"] * share) / 16)


def _window(config: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    window = _get(config, "sliding_window")
    if window is None or _get(config, "use_sliding_window") is False:
        return {}
    kinds = _get(config, "layer_types")
    return {
        "window": window,
        "window_layers": found.get("layers") if kinds is None else sum("sliding" in str(kind) for kind in kinds),
    }


def _latent(config: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Attention through a latent space (MLA): keys and values are unfolded from `kv_lora_rank` numbers."""
    rank = _get(config, "kv_lora_rank")
    if rank is None or not {"dim", "heads"} <= found.keys():
        return {}
    dim, heads = found["dim"], found["heads"]
    plain, turned, values = (_get(config, name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    size = plain + turned
    queries = _get(config, "q_lora_rank")
    asked = dim * heads * size if queries is None else queries * (dim + heads * size)
    weights = asked + dim * (rank + turned) + rank * heads * (plain + values) + heads * values * dim
    return {"attention_params": weights, "head_dim": size, "value_dim": values}


def _is_gated(config: Any) -> bool:
    if (said := _get(config, "is_gated_act")) is not None:
        return bool(said)
    activation = _get(config, "hidden_act", "hidden_activation", "activation_function")
    gelu = activation is not None and str(activation).startswith(("gelu", "relu", "quick_gelu"))
    old = activation is None and _get(config, "n_embd") is not None  # nanoGPT
    return str(_get(config, "model_type")) in _GATED or not (gelu or old)


def _get(config: Any, *names: str) -> Any:
    """The first of these that a config says; None where it says none."""
    for name in names:
        value = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if value is not None:
            return value
    return None
