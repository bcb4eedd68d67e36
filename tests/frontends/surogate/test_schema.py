"""The objects in the log file, and the order of their fields."""

from __future__ import annotations

import pytest

import chiplog
from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, TrainingRunLogger
from tests.frontends.surogate.logs import H100, MOE, OPS, STEP, read

ORDERS = [
    (lambda made: made.log_cmd(["a", "b"]), "log time step cmd"),
    (lambda made: made.log_options({"lr": 1.0}), "log time step name value"),
    (lambda made: made.log_dataset({"files": 1, "tokens": 5}), "log split time step files tokens file_index chunk_index seed"),
    (lambda made: made.log_gpu_model(name=H100), "log time rank step id name l2_size sm_count major minor memory free reserved uuid ecc shared_mem cuda_driver cuda_runtime"),
    (lambda made: made.log_allocator({"weights": {"device": 1}}), "log time step stats"),
    (lambda made: made.log_sol_estimate(*OPS), "log time rank step blocks lm_head attention tps tf32_peak bf16_peak fp16_peak fp8_peak"),
    (lambda made: made.log_step(1, *STEP), "log time step epoch step_tokens duration_ms norm loss lr"),
    (lambda made: made.log_step(1, *STEP, moe_aux_loss=1, moe_z_loss=1, moe_load_imbalance=1), "log time step epoch step_tokens duration_ms norm loss lr moe_aux_loss moe_z_loss moe_load_imbalance"),
    (lambda made: made.log_step_moe(1, *STEP, *MOE), "log time step epoch step_tokens duration_ms norm loss lr moe_aux_loss moe_z_loss moe_load_imbalance moe_expert_utilization moe_active_experts moe_max_expert_fraction moe_min_active_expert_fraction moe_load_cv moe_router_entropy moe_router_confidence"),
    (lambda made: made.log_eval(1, 1.5, 1, 1, 2.0), "log time step epoch eval_tokens duration_ms loss"),
    (lambda made: made.log_moe_stats(1, 1, 1, 1, 1), "log time step aux_loss z_loss expert_utilization load_imbalance"),
    (lambda made: made.log_moe_stats(1, *range(10)), "log time step aux_loss z_loss expert_utilization load_imbalance active_experts max_expert_fraction min_active_expert_fraction load_cv router_entropy router_confidence"),
    (lambda made: made.log_gpu_state(1, 0, GPUUtilInfo()), "log time step id clock max_clock fan power power_limit temperature temp_slowdown gpu_util mem_util throttle dram_free pcie_rx pcie_tx"),
    (lambda made: made.log_abs_maxes(1, {"w": 2.0}), "log time step abs_maxes"),
    (lambda made: made.log_message(1, "x"), "log time step message"),
    (lambda made: made.log_section_end(1, "x"), "log time step message duration_ms"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "order"), ORDERS, ids=[order.partition(" step")[0] + str(at) for at, (_, order) in enumerate(ORDERS)]
)
def test_36_the_fields_of_a_record_and_their_order(logger, tmp_path, call, order):
    """Names and places, exactly."""
    call(logger)
    assert logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert list(record) == order.split()


def test_36_unknown_peaks_are_null(logger, tmp_path):
    """And so is the rate; -1 is nobody's peak."""
    logger.log_sol_estimate(*OPS, device="Some Card 9000")
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert {record[name] for name in ("tps", "tf32_peak", "bf16_peak", "fp16_peak", "fp8_peak")} == {None}


def test_metrics_of_ones_own(logger, tmp_path):
    """The run is a run of ours: what else is logged is in the file under a kind of its own."""
    logger.run.log({"my/metric": 1.5}, step=4)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert record.pop("time") and record == {"log": "metrics", "step": 4, "my/metric": 1.5}


def test_a_step_may_have_more(logger, tmp_path):
    """By keyword: a series, and a field behind the documented ones."""
    logger.set_phase("warmup")
    logger.log_step(1, *STEP, accuracy=0.75)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert list(record)[-2:] == ["accuracy", "phase"] and record["accuracy"] == 0.75
    assert "tokens_per_second" not in record
    assert chiplog.read(logger.run.dir).series("train/accuracy").values.tolist() == [0.75]


def test_another_start_is_in_no_phase_yet(tmp_path):
    """What the run before said about itself does not go on."""
    for phase in ("diverging", None):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT, resume=True) as made:
            if phase:
                made.set_phase(phase)
            made.log_step(1, *STEP)
    assert [record.get("phase") for record in read(tmp_path / "log.json")] == ["diverging", None]
