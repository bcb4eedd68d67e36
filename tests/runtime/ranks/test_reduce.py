"""Statistics across ranks, over real process groups of torch (see `scenarios.py` for what the ranks do)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core import records
from chiplog.metrics.moe import health
from tests.runtime.conftest import Told
from tests.runtime.ranks.scenarios import ROUTED, routed


def scenario(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("told", [name], indirect=True, ids=[""])


@scenario("synchronous")
def test_a_row_comes_back_with_its_statistics(told: Told) -> None:
    """On rank 0, names matched whatever their order, with the count where a rank has no such value."""
    third = told.ranks[0]["rows"][3]
    assert third["train/loss/mean"] == pytest.approx(123456789 + 1 / 3, abs=1e-7)
    assert (third["train/loss/min"], third["train/loss/max"]) == (123456789.0, 123456790.0)
    assert (third["acc/mean"], third["acc/std"], third["acc/count"]) == (4.5, 1.5, 2)
    assert "train/loss/count" not in third


@scenario("synchronous")
def test_counters_and_hyperparameters_are_not_reduced(told: Told) -> None:
    assert {name for name in told.ranks[0]["rows"][0] if name.startswith(("lr", "step"))} == {"lr", "step"}


@scenario("synchronous")
def test_other_ranks_take_part_and_write_nothing(told: Told) -> None:
    """They know rank 0's run, and get their own row back."""
    assert len({rank["id"] for rank in told.ranks}) == 1
    assert all(rank["kept"] == ["r00000-a01-0000.jsonl"] for rank in told.ranks)
    assert set(told.ranks[2]["rows"][0]) == {"train/loss", "lr", "step"}


@scenario("two")
def test_large_neighbours_are_told_apart(told: Told) -> None:
    """123456789 and 123456790: in float32 they are one number."""
    row = told.ranks[0]
    assert (row["x/mean"], row["x/std"], row["x/min"], row["x/max"]) == (123456789.5, 0.5, 123456789, 123456790)


@scenario("everyone")
def test_every_rank_may_get_the_row_with_all_extras(told: Told) -> None:
    for rank, rows in enumerate(told.ranks):
        assert rows[1] == {
            "x": rank * 10.0 + 1, "x/mean": 11.0, "x/max": 21.0, "x/min": 1.0, "x/std": pytest.approx((200 / 3) ** 0.5),
            "x/p50": 11.0, "x/p100": 21.0, "x/max_rank": 2, "x/min_rank": 0, "x/count": 3,
        }  # fmt: skip


@scenario("four")
def test_four_ranks_all_get_the_same_row(told: Told) -> None:
    """At every step, also after rounds in which the room is agreed on."""
    for rank, rows in enumerate(told.ranks):
        assert [row["x/mean"] for row in rows] == [step + 1.5 for step in range(70)], rank
        assert all(row["of/3/count"] == 1 for row in rows)


@scenario("asynchronous")
def test_statistics_that_come_later_belong_to_their_step(told: Told, launched: Path) -> None:
    """Also where a step is logged in several calls, and each rank has a name of its own."""
    stored = chiplog.read(launched / "asynchronous" / "runs" / "p" / told.ranks[0]["id"])
    mean = stored.series("x/mean")
    assert sorted(mean.steps.tolist()) == list(range(200))
    assert np.array_equal(mean.values, mean.steps * 2.0)
    assert stored.series("y/std").values.tolist() == pytest.approx([(2 / 3) ** 0.5] * 200)
    assert set(stored.series("only/1/count").values) == {1.0}
    marked = {name: record.across for record in stored.records(kind="step") for name in record.metrics}
    assert marked["x/mean"] and not marked["x"], "a sink can tell statistics from what was logged"


@scenario("asynchronous")
def test_a_run_says_before_its_first_row_that_there_will_be_statistics(told: Told, launched: Path) -> None:
    """So that who gets the rows can tell one rank's own; rank 0 says it, once."""
    stored = chiplog.read(launched / "asynchronous" / "runs" / "p" / told.ranks[0]["id"])
    (said,) = (one for one in stored.records(kind="event") if one.name == "ranks")
    assert said.data == {"statistics": "async"}
    assert said.seq < min(one.seq for one in stored.records(kind="step", rank=0))


@scenario("asynchronous")
def test_ranks_agree_on_a_run_and_a_launch(told: Told, launched: Path) -> None:
    """With `ranks="all"` and nobody who says which job this is, rank 0 says it; and every journal is there."""
    assert len({(rank["id"], rank["launch"]) for rank in told.ranks}) == 1
    stored = chiplog.read(launched / "asynchronous" / "runs" / "p" / told.ranks[0]["id"])
    matrix = stored.series("x").by_rank()
    assert matrix.ranks.tolist() == [0, 1, 2]
    assert np.array_equal(matrix.values, np.outer(np.arange(200), [1.0, 2.0, 3.0]))
    assert stored.missing == {} and stored.damage == []


@scenario("automatic")
def test_nothing_need_be_said_and_no_collective_of_training_is_called(told: Told) -> None:
    """Not even `new_group`."""
    assert [rank["called"] for rank in told.ranks] == [[], [], []]
    assert chiplog.read(told.ranks[0]["dir"]).series("x/mean").values.tolist() == [1.0] * 20


@scenario("automatic")
def test_a_process_with_a_group_ends_as_it_would_without(told: Told) -> None:
    """It returned from `main`, and neither hung nor crashed; `told` checks the exit codes."""
    assert not any("terminate" in error for error in told.errors)
    assert told.seconds < 60


@scenario("silent")
def test_a_rank_that_never_logs_is_left_out(told: Told) -> None:
    stored = chiplog.read(told.ranks[0])
    assert stored.series("x/mean").values.tolist() == [0.5] * 10
    assert stored.series("x/count").values.tolist() == [2.0] * 10


@scenario("silent_synchronously")
def test_a_rank_that_never_logs_costs_one_deadline(told: Told) -> None:
    """Rank 0 waits for it once, half a second here, and not at every step."""
    assert [row["x/count"] for row in told.ranks[0]["rows"]] == [2] * 10
    assert 0.4 < told.ranks[0]["took"] < 4.0


@scenario("uneven")
def test_ranks_may_log_different_steps(told: Told) -> None:
    """Rank 1 every other one, rank 2 only the first ten: each step is over those that have it."""
    stored = chiplog.read(told.ranks[0])
    mean, count = stored.series("x/mean"), stored.series("x/count")
    assert sorted(mean.steps.tolist()) == list(range(20))
    counts = dict(zip(count.steps.tolist(), count.values.tolist(), strict=True))
    assert [counts.get(step, 3) for step in (2, 3, 12, 13)] == [3, 2, 2, 1]


@scenario("early")
def test_the_others_go_on_without_a_rank_that_has_finished(told: Told) -> None:
    """They form a group of their own; what fell in between is a gap that is marked."""
    stored = chiplog.read(told.ranks[0])
    assert stored.series("y/mean").values.tolist() == [0.5] * 5
    assert "y/count" not in stored.names()
    gaps = [record for record in stored.records("event") if isinstance(record, records.Event) and record.name == "gap"]
    assert [gap.data["across"] for gap in gaps] == ["ranks"] * len(gaps) and len(gaps) in (0, 2)


@scenario("not_finite")
def test_a_value_that_is_not_finite_is_left_out_and_its_rank_named(told: Told) -> None:
    """The statistics are of the others; the alert comes once."""
    *rows, folder = told.ranks[0]
    assert all((row["x/mean"], row["x/std"], row["x/count"]) == (3.0, 1.0, 2) for row in rows)
    assert all((row["y/max"], row["y/count"]) == (1.0, 2) for row in rows)
    alerts = [record for record in chiplog.read(folder).records("alert") if isinstance(record, records.Alert)]
    assert [(alert.evidence["name"], alert.evidence["ranks"]) for alert in alerts] == [("x", [1]), ("y", [2])]


@scenario("straggler")
def test_a_straggler_is_named_with_its_host_and_its_clocks(told: Told) -> None:
    """And why: it waits for its data."""
    stored = chiplog.read(told.ranks[0])
    (alert,) = [record for record in stored.records("alert") if isinstance(record, records.Alert)]
    assert alert.title.startswith("rank 2 on ") and "waited for data" in alert.text
    assert alert.evidence["device"] == {"clock": 300, "throttle": "thermal"}
    assert set(stored.series("ranks/slowest").values) == {2.0}


@scenario("evaluations")
def test_evaluations_are_reduced_at_their_step(told: Told) -> None:
    """As evaluations, in a second record; names that one rank has get their count, counters are left alone."""
    for mode in ("async", "sync"):
        stored = chiplog.read(told.ranks[0][mode]["dir"])
        mean, deviation = stored.series("eval/loss/mean"), stored.series("eval/loss/std")
        assert (mean.steps.tolist(), mean.values.tolist()) == ([4, 8], [5.0, 9.0])
        assert deviation.values.tolist() == pytest.approx([(2 / 3) ** 0.5] * 2)
        assert stored.series("eval/of/1/count").values.tolist() == [1.0, 1.0]
        assert "eval/epoch/mean" not in stored.names()
        said = [one for one in stored.records("eval") if isinstance(one, records.Eval) and "loss/mean" in one.metrics]
        assert [one.step for one in said] == [4, 8]
        assert stored.series("loss/mean").values.tolist() == [1.0] * 12, "training has its own"


@scenario("evaluations")
def test_an_evaluation_waits_for_nobody(told: Told) -> None:
    """Synchronously neither: rank 0 may be the only one that evaluates, while the others wait for it."""
    for mode in ("async", "sync"):
        found = told.ranks[0][mode]
        assert found["rows"][1] == {"alone": 1.0} and found["longest"] < 1.0
        assert not [name for name in chiplog.read(found["dir"]).names() if name.startswith("eval/alone/")]


@scenario("routers")
def test_routers_are_judged_by_the_tokens_of_all_ranks(told: Told) -> None:
    """The load of the whole model: what one process would have found that had seen all tokens."""
    stored = chiplog.read(told.ranks[0])
    loads = {
        one.step: one.values
        for one in stored.records("matrix")
        if isinstance(one, records.MatrixRecord) and one.name == "moe/all/load"
    }
    assert sorted(loads) == [0, 1, 2, 3]
    for step, load in loads.items():
        (first, one), (second, other) = routed(0, step), routed(1, step)
        assert load == (first + second).tolist() and type(load[0][0]) is int
        z = [(a * a + b * b) / (a + b) / 7 for a, b in zip(first.sum(axis=1), second.sum(axis=1), strict=True)]
        probs = np.concatenate([one, other], axis=1)
        for layer in (2,):  # where rank 1 has no tokens, only those of rank 0 count
            probs[layer, ROUTED:] = probs[layer, :ROUTED]
        wanted = health(first + second, probs, z=z, aux_coefficient=0.01)
        found = {name: stored.series(f"moe/all/{name}") for name in wanted}
        assert {name: dict(zip(s.steps, s.values, strict=True))[step] for name, s in found.items()} == pytest.approx(
            wanted, rel=1e-12
        )


@scenario("routers")
def test_routers_that_cannot_be_added_up_are_said(told: Told) -> None:
    """Other shapes on other ranks; and a router of one rank alone is as it said itself."""
    names = chiplog.read(told.ranks[0]).names()
    assert "odd/load_imbalance" in names and "alone/load_imbalance" in names
    assert not [name for name in names if name.startswith(("odd/all", "alone/all"))]
    assert "different shapes, 1 x 2, 1 x 3" in told.errors[0]


@scenario("fallback")
def test_where_the_store_cannot_be_had_a_new_group_does(told: Told) -> None:
    """With another torch, whose private names are others."""
    assert [rank["row"]["x/mean"] for rank in told.ranks] == [1.0] * 3
    assert len({rank["id"] for rank in told.ranks}) == 1


@scenario("alone")
def test_a_script_that_calls_init_on_rank_0_only_loses_nothing(told: Told) -> None:
    """It ends a second later, and nothing is said unless statistics were asked for."""
    assert told.ranks[0]["x"] == [1.0] and told.ranks[0]["took"] < 10
    assert told.errors[0].count("1 rows have no statistics across ranks: not all ranks have called chiplog.init") == 1


@scenario("one_after_the_other")
def test_ranks_that_end_at_different_times_end_quietly(told: Told) -> None:
    """Nobody is missed who has said goodbye; the statistics go on with those who are left."""
    assert not any("chiplog:" in error for error in told.errors), told.errors
    stored = chiplog.read(told.ranks[0])
    means = set(stored.series("x/mean").values)
    assert {1.0, 0.5} <= means, means
    assert stored.state == "finished"


@scenario("forks")
def test_forked_children_hang_nobody(told: Told) -> None:
    """And what they log is neither kept nor part of the statistics."""
    assert all(rank["codes"] == [0] * 6 for rank in told.ranks)
    assert chiplog.read(told.ranks[0]["dir"]).series("x/mean").values.tolist() == [1.0] * 30


@scenario("restarted")
def test_runs_one_after_the_other_do_not_meet(told: Told) -> None:
    assert [row["x/mean"] for row in told.ranks[0]["rows"]] == [1.0, 1.0]


@scenario("restarted")
def test_a_run_that_has_ended_leaves_no_thread(told: Told) -> None:
    """On no rank, though the process goes on: nobody asks for a rank 0 that has finished."""
    assert [rank["left"] for rank in told.ranks] == [[], [], []]


@scenario("closed_under_way")
def test_a_group_that_is_closed_in_a_round_is_closed_for_the_others(told: Told) -> None:
    """They notice it at once, not when the deadline of five seconds is over."""
    assert told.ranks[1] < 3.0


@scenario("gone_before")
def test_a_rank_that_has_gone_before_the_group_is_formed_is_not_waited_for(told: Told) -> None:
    """Connecting to it would hold a thread in native code, in which a process cannot end cleanly."""
    assert [rank["members"] for rank in (told.ranks[0], told.ranks[2])] == [[0, 2]] * 2
    assert max(rank["longest"] for rank in told.ranks) < 1.0


@scenario("refused")
def test_a_rank_0_whose_run_is_refused_is_not_waited_for(told: Told) -> None:
    assert [rank["started"] for rank in told.ranks] == [False, True, True]
    assert max(rank["took"] for rank in told.ranks) < 10.0


@scenario("several_calls")
def test_a_step_in_several_calls_is_over_all_ranks_in_each(told: Told) -> None:
    """Also where rank 0 hears what the others say of the second call before it makes it."""
    for first, second in told.ranks[0]["rows"]:
        assert first == {"x": 0.0, "x/mean": 1.0, "x/max": 2.0, "x/min": 0.0, "x/std": pytest.approx((2 / 3) ** 0.5)}
        assert (second["y/mean"], "y/count" in second) == (1.0, False)
    stored = chiplog.read(told.ranks[0]["dir"])
    assert stored.series("y/mean").values.tolist() == [1.0] * 3 and "y/count" not in stored.names()


@scenario("own_rows")
def test_what_rank_0_logs_for_itself_costs_one_deadline(told: Told) -> None:
    """A row without anything to reduce costs none; and the rows of all are of all as before."""
    longest = told.ranks[0]["longest"]
    assert max(longest[:2]) < 0.4 and sum(took > 0.4 for took in longest) == 1
    assert [(row["loss/mean"], row.get("loss/count")) for row in told.ranks[0]["rows"]] == [(1.0, None)] * 6


@scenario("started_again")
def test_what_ranks_before_a_restart_have_left_is_not_met(told: Told) -> None:
    """Neither the run they were, nor the group: torchrun may keep its store."""
    assert told.ranks[0]["row"]["x/mean"] == 1.0
    assert len({rank["id"] for rank in told.ranks}) == 1 and told.ranks[0]["id"] != "old"


@scenario("stopped_synchronously")
def test_a_rank_that_stands_still_costs_synchronous_training_one_deadline(told: Told) -> None:
    """After it rows carry local values only, until the group is whole again."""
    seen = told.ranks[0]
    assert sum(took > 0.4 for _, took, _ in seen) == 1
    gap = next(step for step, _, whole in seen if not whole and step >= 50)
    again = next(step for step, _, whole in seen if whole and step > gap)
    assert any(whole for step, _, whole in seen if step < gap)
    assert 1.0 < (again - gap) / 50 < 5.0
