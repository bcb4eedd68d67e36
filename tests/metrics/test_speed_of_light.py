"""Speed of light."""

import pytest

import chiplog
from chiplog.metrics import speed_of_light
from chiplog.metrics.speed_of_light import ModelPart, estimate, share, share_in_ms

H100 = "NVIDIA H100 80GB HBM3"
OPS = {"blocks": ModelPart(36_000_000_000), "lm_head": ModelPart(786_432_000), "attention": ModelPart(1_610_612_736)}


def test_the_golden_model_on_an_h100():
    """36 GFLOP of blocks, 0.79 of LM head and 1.6 of attention take 38,806 ns a token: 25,769 tokens a second."""
    found = estimate(OPS, speed_of_light.peaks_of(H100), whole=True)
    assert found.ns_per_token == 38_806
    assert found.data()["tps"] == 25_769
    assert share_in_ms(found.ns_per_token, 16_384, 156) == pytest.approx(635 / 156)


def test_exact_time_is_the_sum_of_the_parts():
    """Each part at its own dtype's peak, without rounding."""
    parts = {"blocks": ModelPart(2e9, "fp8"), "lm_head": ModelPart(1e9, "bf16"), "attention": ModelPart(3e6, "tf32")}
    found = estimate(parts, {"fp8": 2000.0, "bf16": 1000.0, "tf32": 500.0}, devices=2)
    assert found.ns_per_token == pytest.approx((1000 + 1000 + 6) / 2)
    assert found.tokens_per_sec == pytest.approx(1e9 / 1003)
    assert share(found.ns_per_token, 1000, 0.002006) == pytest.approx(0.5)


@pytest.mark.parametrize("device", [None, "Some Card 9000"])
def test_an_unknown_device_has_no_speed_of_light(device):
    """No peak, no time, no rate, no share: never a guess."""
    found = estimate(OPS, speed_of_light.peaks_of(device))
    assert found.ns_per_token is None and found.tokens_per_sec is None
    assert share(found.ns_per_token, 16_384, 0.156) is None
    assert share_in_ms(None, 16_384, 156) is None
    assert found.data()["bf16_peak"] is None and found.data()["tps"] is None


def test_a_dtype_the_device_does_not_have_is_unknown():
    """An A100 has no fp8, so blocks in fp8 have no time."""
    assert (
        estimate({"blocks": ModelPart(1e9, "fp8")}, speed_of_light.peaks_of("NVIDIA A100-SXM4-80GB")).ns_per_token
        is None
    )


def test_peaks_can_be_given():
    """By any spelling of the dtype, over the table."""
    assert speed_of_light.peaks_of(H100, {"bfloat16": 700.0})["bf16"] == 700.0


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_step_without_a_time_has_no_share(seconds):
    """Nothing is divided by zero."""
    assert share(38_806, 16_384, seconds) is None
    assert share_in_ms(38_806, 16_384, seconds) is None


def test_dtypes_of_any_spelling():
    """`BF16`, `torch.bfloat16` and `bf16` are the same."""
    for dtype in ("BF16", "torch.bfloat16", "bfloat16"):
        assert estimate({"blocks": ModelPart(1e12, dtype)}, {"bf16": 1000.0}).ns_per_token == pytest.approx(1e6)


def test_the_work_of_a_dense_model():
    """Six times what a token meets in the blocks and the head; attention counts half of the context."""
    found = speed_of_light.work(layers=2, hidden=8, intermediate=16, qkv=24, vocab=100, attention=8, context=32)
    assert found == {
        "blocks": ModelPart(6 * 2 * 8 * (3 * 16 + 8 + 24)),
        "lm_head": ModelPart(6 * 100 * 8),
        "attention": ModelPart(6 * 2 * 8 * 32),
    }


@pytest.mark.parametrize(("row", "wanted"), [
    ({"train/tokens_per_sec": 500.0}, 0.5),
    ({"train/tokens": 100, "train/step_time_sec": 0.2}, 0.5),
    ({"train/tokens": 100}, None), ({"train/loss": 2.0}, None),
])  # fmt: skip
def test_a_stage_tells_it_of_every_row(tmp_path, row, wanted):
    """From the speed, or from tokens and time; where neither is there, nothing is added."""
    best = speed_of_light.Estimate({}, {}, 1e6)  # 1,000 tokens a second
    run = chiplog.init("p", sinks="none", dir=tmp_path, stages=[speed_of_light.Light(best)])
    found = run.log(row, step=1).get("train/sol")
    run.finish()
    assert found == (wanted if wanted is None else pytest.approx(wanted))


def test_an_unknown_speed_of_light_adds_nothing():
    """A stage for a device without peaks."""
    row = {"train/tokens_per_sec": 500.0}
    assert speed_of_light.Light(estimate(OPS, speed_of_light.peaks_of(None)))(row, 1) is row


def test_the_block_at_the_start():
    """Peaks of the dtypes in use, the parts, the rate: columns as they are known."""
    data = {
        "blocks": 123.4e9, "lm_head": 45.6e9, "attention": 78.9e9, "tps": 156_000, "bf16_peak": 989.5,
        "dtypes": dict.fromkeys(speed_of_light.PARTS, "bf16"),
    }  # fmt: skip
    assert list(speed_of_light.block(data)) == [
        "[Speed of Light]",
        "  Peak BF16:    989.5 TFLOP/s",
        "  Blocks:       123.4 GFLOP   in bf16",
        "  LM-Head:       45.6 GFLOP   in bf16",
        "  Attention:     78.9 GFLOP   in bf16",
        "  SOL:         156000 tok/s",
    ]


def test_the_block_of_an_unknown_device():
    """It says so, and small work is in MFLOP."""
    data = estimate({"blocks": ModelPart(2e9, "fp8"), "lm_head": ModelPart(1e6)}, speed_of_light.peaks_of(None)).data()
    assert list(speed_of_light.block(data)) == [
        "[Speed of Light]",
        "  Peak BF16: unknown",
        "  Peak  FP8: unknown",
        "  Blocks:      2000.0 MFLOP   in fp8",
        "  LM-Head:        1.0 MFLOP   in bf16",
        "  SOL:       unavailable",
    ]
