"""Operations of a token: golden values, options, configs, and MFU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from chiplog.metrics import flops
from chiplog.metrics.flops import Transformer, count

LLAMA = Transformer(layers=32, dim=4096, heads=32, vocab=32000, ffn=11008, seq_len=2048)
SMALL = Transformer(layers=4, dim=256, heads=4, vocab=1000, ffn=768, seq_len=128)


def small(**more: Any) -> Transformer:
    return msgspec.structs.replace(SMALL, **more)


@pytest.mark.parametrize(
    ("model", "golden"),
    [
        (LLAMA, 42_863_689_728),
        (SMALL, 23_556_096),
        (small(experts=8, moe_layers=4, top_k=2), 37_711_872),
        (small(experts=8, moe_layers=4, top_k=2, shared_experts=1), 51_867_648),
        (small(experts=8, moe_layers=2, top_k=2), 30_633_984),
        (Transformer(layers=2, dim=128, heads=2, vocab=256, ffn=512, seq_len=64), 3_538_944),
    ],
)
def test_golden_values(model: Transformer, golden: int) -> None:
    """To the last operation, with the whole square of attention counted."""
    assert count(model, causal=False).model == golden


def test_the_parts_add_up() -> None:
    """Layers, attention and head, each by its formula."""
    found = count(LLAMA, causal=False)
    assert found.head == 6 * 32000 * 4096
    assert found.attention == 12 * 32 * 4096 * 2048
    assert found.blocks == 6 * 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert found.model == found.hardware == found.blocks + found.attention + found.head


def test_causal_attention_is_half_of_the_square() -> None:
    """And nothing else changes."""
    whole, half = count(LLAMA, causal=False), count(LLAMA, causal=True)
    assert half.attention * 2 == whole.attention and half.blocks == whole.blocks


def test_grouped_queries_have_smaller_keys_and_values() -> None:
    """GQA and MQA change the projections, not the scores."""
    whole, grouped, one = (count(small(kv_heads=kv)) for kv in (None, 2, 1))
    assert whole.attention == grouped.attention == one.attention
    assert whole.blocks - grouped.blocks == 6 * 4 * 2 * 256 * 2 * 64
    assert whole.blocks - one.blocks == 6 * 4 * 2 * 256 * 3 * 64


def test_a_sliding_window_bounds_what_a_token_looks_at() -> None:
    """A window as wide as the sequence is none; in a narrow one all but the first tokens see a whole window."""
    plain = count(small()).attention
    assert count(small(window=128)).attention == count(small(window=4096)).attention == plain
    brute = sum(min(n + 0.5, 32) for n in range(128)) / 128  # half a product for the token itself, as without a window
    assert count(small(window=32)).attention == pytest.approx(12 * 4 * 256 * brute, rel=1e-9)
    half = count(small(window=32, window_layers=2)).attention
    assert half == pytest.approx((plain + count(small(window=32)).attention) / 2)
    assert count(small(window=32), causal=False).attention == 12 * 4 * 256 * 32


def test_packed_documents_do_not_look_at_each_other() -> None:
    """Four documents of a quarter cost a quarter of the attention; the matrices do not care."""
    whole, packed = count(LLAMA), count(LLAMA, lengths=[512] * 4)
    assert packed.attention * 4 == whole.attention and packed.blocks == whole.blocks
    assert count(LLAMA, lengths=[1024, 512, 512]).attention == 12 * 32 * 4096 * (1024**2 + 2 * 512**2) // 2048 // 2


def test_experts_have_their_own_width_and_a_router() -> None:
    """Top-k and shared ones, dense layers between them, and the router when asked."""
    model = small(experts=8, moe_layers=2, top_k=2, shared_experts=1, expert_ffn=128, shared_ffn=512)
    dense, sparse = 3 * 256 * 768, 3 * 256 * (2 * 128 + 512)
    assert count(model).blocks == 6 * (4 * 4 * 256**2 + 2 * dense + 2 * sparse)
    routed = msgspec.structs.replace(model, router=True)
    assert count(routed).blocks - count(model).blocks == 6 * 2 * 256 * 8


def test_a_tied_head_has_fewer_parameters_and_the_same_operations() -> None:
    """The product with the embedding is there either way."""
    tied = small(tied=True)
    assert count(tied) == count(SMALL)
    assert SMALL.params - tied.params == 1000 * 256
    assert small(experts=8, moe_layers=4, top_k=2).active_params < small(experts=8, moe_layers=4, top_k=2).params


@pytest.mark.parametrize(
    "wrong",
    [{"frozen_layers": 5}, {"frozen_layers": -1}, {"lengths": [128, 0]}, {"recompute": "all"}, {"lora_on": ["x"]}],
)
def test_what_no_model_can_have_fails_at_the_door(wrong: dict[str, Any]) -> None:
    """With what is wrong; never a negative count."""
    with pytest.raises(ValueError, match=next(iter(wrong)) if "lora_on" not in wrong else "unknown matrix 'x'"):
        count(SMALL, **wrong)


def test_frozen_weights_get_no_gradient() -> None:
    """Four operations instead of six; attention, which has no weights, stays as it is."""
    whole, frozen = count(SMALL), count(SMALL, frozen=True)
    assert (frozen.blocks, frozen.head) == (whole.blocks * 4 // 6, whole.head * 4 // 6)
    assert frozen.attention == whole.attention


def test_adapters_are_trained_beside_frozen_weights() -> None:
    """LoRA on q and v: two thin matrices each, six operations a weight."""
    lora = count(SMALL, frozen=True, lora_rank=16, lora_on=("q", "v"))
    assert lora.blocks - count(SMALL, frozen=True).blocks == 6 * 4 * 2 * 16 * (256 + 256)
    whole = count(SMALL, frozen=True, lora_rank=16)
    assert whole.blocks - count(SMALL, frozen=True).blocks == 6 * 4 * 16 * (4 * 512 + 3 * (256 + 768))


def test_frozen_layers_at_the_bottom_have_no_backward_pass() -> None:
    """Half of the layers: half of the backward pass."""
    whole, half = count(SMALL), count(SMALL, frozen_layers=2)
    assert half.blocks == whole.blocks * 2 // 3 and half.attention == whole.attention * 2 // 3


def test_recomputation_counts_for_the_hardware_only() -> None:
    """A whole forward pass of the layers more, or that of attention's core."""
    plain, full, core = (count(SMALL, recompute=what) for what in ("none", "full", "attention"))  # type: ignore[arg-type]
    assert plain.model == full.model == core.model == plain.hardware
    assert full.recomputed * 3 == plain.blocks + plain.attention
    assert core.recomputed * 3 == plain.attention
    with pytest.raises(ValueError, match="none, attention, full"):
        count(SMALL, recompute="some")  # type: ignore[arg-type]


def test_the_operations_of_a_step_are_those_of_its_tokens() -> None:
    """Over all batches that are accumulated."""
    assert flops.tflops_per_step(42_863_689_728, 16384) == pytest.approx(702.2787)
    assert flops.tflops_per_step(1e9, 1000, accumulation=4) == 4.0


def test_mfu_is_a_fraction_and_absent_without_a_peak() -> None:
    """No guess: unknown hardware gives none."""
    assert flops.mfu(42_863_689_728, 10_000, 989) == 0.4334043450758342
    assert flops.mfu(23_556_096, 1e6, 312) == 0.07550030769230769
    assert flops.mfu(42_863_689_728, 10_000, 989, devices=2) == 0.4334043450758342 / 2
    assert flops.mfu(1e9, 1e3, None) is None and flops.mfu(1e9, 1e3, 0.0) is None


def test_a_config_may_be_an_object_or_a_mapping() -> None:
    """By the names that configs use; nanoGPT's has no width of its own."""
    expected = Transformer(layers=12, dim=768, heads=12, vocab=50304, ffn=3072, seq_len=1024, gated=False)
    nano = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50304, "block_size": 1024}
    assert flops.from_config(nano) == flops.from_config(SimpleNamespace(**nano)) == expected
    assert count(nano) == count(expected)


def test_experts_may_be_narrower_than_a_dense_layer() -> None:
    """`moe_expert_ffn_multiplier` of KempnerForge: two experts of half the width are one dense layer."""
    model = {"n_layers": 4, "dim": 256, "n_heads": 4, "vocab_size": 1000, "max_seq_len": 128, "ffn_hidden_dim": 768}
    moe = {**model, "num_experts": 8, "moe_top_k": 2}
    half = {**moe, "moe_expert_ffn_multiplier": 0.5}
    assert count(half, causal=False) == count(model, causal=False) and count(half, causal=False).model == 23_556_096
    assert count({**moe, "moe_expert_ffn_multiplier": 1.0}, causal=False).model == 37_711_872
    assert flops.from_config({**moe, "moe_expert_ffn_multiplier": 0.33}).expert_ffn == 256, "253.44, in whole sixteens"
    assert flops.from_config({**half, "computed_expert_ffn_hidden_dim": 400}).expert_ffn == 400, "as the model says"
    assert count({**half, "moe_shared_experts": 2}, causal=False).model == 37_711_872, "shared ones are as narrow"


def test_a_config_that_lacks_something_is_refused() -> None:
    """With what it lacks, and how to give it."""
    with pytest.raises(ValueError, match=r"lacks vocab \(as vocab_size, padded_vocab_size\)"):
        flops.from_config({"n_layer": 1, "n_embd": 8, "n_head": 1, "block_size": 8})


def test_configs_of_transformers() -> None:
    """The library's own classes: dense, GQA, sliding windows, experts of several kinds, latent attention."""
    import transformers as hf

    llama = flops.from_config(
        hf.LlamaConfig(vocab_size=32000, intermediate_size=11008, max_position_embeddings=2048, num_key_value_heads=8)
    )
    assert llama == msgspec.structs.replace(LLAMA, kv_heads=8, head_dim=llama.head_dim)
    gpt2 = flops.from_config(hf.GPT2Config())
    assert (gpt2.layers, gpt2.ffn, gpt2.gated, gpt2.tied) == (12, 3072, False, True)
    mistral = flops.from_config(hf.MistralConfig(sliding_window=4096))
    assert (mistral.window, mistral.kv_heads, mistral.gated) == (4096, 8, True)
    mixtral = flops.from_config(hf.MixtralConfig())
    assert (mixtral.experts, mixtral.top_k, mixtral.moe_layers, mixtral.shared_experts) == (8, 2, 32, 0)
    qwen = flops.from_config(hf.Qwen2MoeConfig(decoder_sparse_step=2, num_hidden_layers=24))
    assert (qwen.moe_layers, qwen.shared_experts, qwen.expert_ffn, qwen.shared_ffn) == (12, 1, 1408, 5632)
    deepseek = flops.from_config(hf.DeepseekV3Config())
    assert (deepseek.moe_layers, deepseek.experts, deepseek.shared_experts) == (61 - 3, 256, 1)
    assert deepseek.params == pytest.approx(671e9, rel=0.01)
    assert deepseek.active_params == pytest.approx(37e9, rel=0.02)
    gemma = flops.from_config(hf.Gemma2Config())
    assert (gemma.gated, gemma.window_layers, gemma.head_dim) == (True, 13, 256)
