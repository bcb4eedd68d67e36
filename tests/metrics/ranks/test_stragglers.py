"""Who holds the others up."""

from __future__ import annotations

from array import array

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow
from chiplog.metrics.ranks.stragglers import Stragglers

MS = 1_000_000


def gathered(step: int, times: dict[int, int], **rows: dict[int, float]) -> GatheredStep:
    """Arrivals in ms, and what ranks say under some names."""
    names = {f"train/{name}": values for name, values in rows.items()}
    return GatheredStep(
        step,
        {
            rank: [
                RankRow(
                    step, Values(tuple(names), array("d", [one[rank] for one in names.values()]).tobytes()), at * MS
                )
            ]
            for rank, at in times.items()
        },
    )


def judge(skew: Stragglers, steps: list[GatheredStep]) -> tuple[Row, list[Finding]]:
    found = [skew(one) for one in steps]
    return found[-1][0], [finding for _, finding in found if finding is not None]


def test_the_skew_is_the_excess_of_the_slowest_over_the_median() -> None:
    """(longest − median) / median."""
    steps = [gathered(n, {0: 1, 1: 1, 2: 1}, step_time_sec={0: 1.0, 1: 1.0, 2: 1.5}) for n in (1, 2)]
    row, findings = judge(Stragglers(), steps)
    assert (row["ranks/skew"], row["ranks/slowest"], row["ranks/behind_sec"]) == (0.5, 2, 0.5)
    assert findings == []


def test_the_same_rank_slow_for_many_steps_is_told_once() -> None:
    """With its host, and what else is known of it."""
    clocks = {"0": {"clock": 1980}, "1": {"clock": 300}}
    skew = Stragglers({0: {"host": "node7", "local": 0, "devices": clocks}, 1: {"host": "node7", "local": 1}}, steps=5)
    steps = [gathered(n, {0: 1, 1: 1, 2: 1}, step_time_sec={0: 1.0, 1: 2.0, 2: 1.0}) for n in range(30)]
    _, (finding,) = judge(skew, steps)
    assert finding.title == "rank 1 on node7 is slow"
    assert finding.evidence["device"] == {"clock": 300} and finding.evidence["step"] == 4
    assert "took 2s" in finding.text and finding.evidence["by"] == "time"


def test_ranks_without_a_launcher_have_their_devices_by_order() -> None:
    """Where nobody says which of its host a rank is, all think they are the first."""
    clocks = {str(number): {"clock": number} for number in range(2)}
    facts = {rank: {"host": f"node{rank // 2}", "local": 0, "devices": clocks} for rank in range(4)}
    steps = [gathered(n, dict.fromkeys(range(4), 1), step_time_sec={0: 1, 1: 1, 2: 1, 3: 2}) for n in range(30)]
    _, (finding,) = judge(Stragglers(facts, steps=5), steps)
    assert (finding.evidence["host"], finding.evidence["device"]) == ("node1", {"clock": 1})


def test_of_two_ranks_the_slower_one_is_slow() -> None:
    steps = [gathered(n, {0: 1, 1: 1}, step_time_sec={0: 1.0, 1: 2.0}) for n in range(30)]
    row, (finding,) = judge(Stragglers(steps=5), steps)
    assert (row["ranks/skew"], row["ranks/slowest"], row["ranks/behind_sec"]) == (1.0, 1, 1.0)
    assert finding.title == "rank 1 is slow" and finding.text == (
        "in 5 steps in a row, its step took 2s; the median of all ranks is 1s"
    )


def test_ranks_that_are_slow_in_turn_are_nobodys_fault() -> None:
    steps = [
        gathered(n, {0: 1, 1: 1, 2: 1}, step_time_sec={rank: 2.0 if rank == n % 3 else 1.0 for rank in range(3)})
        for n in range(60)
    ]
    assert judge(Stragglers(steps=5), steps)[1] == []


def test_small_differences_are_noise() -> None:
    """A tenth of a step, or four milliseconds of a very short one."""
    tenth = [gathered(n, {0: 1, 1: 1}, step_time_sec={0: 1.0, 1: 1.1}) for n in range(30)]
    short = [gathered(n, {0: 1, 1: 1}, step_time_sec={0: 0.001, 1: 0.005}) for n in range(30)]
    assert judge(Stragglers(steps=5), tenth)[1] == judge(Stragglers(steps=5), short)[1] == []


def test_noise_and_the_first_step_name_nobody() -> None:
    """The slowest rank is named only if its skew means something; ranks start their first step when they are ready."""
    tenth = [gathered(n, {0: 1, 1: 1}, step_time_sec={0: 1.0, 1: 1.1}) for n in range(3)]
    first = [gathered(0, {0: 1, 1: 1}, step_time_sec={0: 0.2, 1: 0.4})]
    for row in (judge(Stragglers(), tenth)[0], judge(Stragglers(), first)[0]):
        assert row["ranks/skew"] > 0 and "ranks/slowest" not in row


def test_the_wait_for_data_tells_apart_who_waits_for_whom() -> None:
    """Steps in lockstep take equally long on all ranks; one of them waits for its data."""
    steps = [
        gathered(
            n, {0: 1, 1: 1, 2: 1}, step_time_sec=dict.fromkeys(range(3), 1.0), data_time_sec={0: 0.0, 1: 0.0, 2: 0.5}
        )
        for n in range(10)
    ]
    _, (finding,) = judge(Stragglers(steps=5), steps)
    assert finding.evidence["rank"] == 2 and finding.evidence["by"] == "wait"


def test_without_times_in_the_rows_arrivals_tell() -> None:
    """Rank 1 comes 400 ms behind the others at every step of one second."""
    steps = [gathered(n, {0: 1000 * n + 1, 1: 1000 * n + 401, 2: 1000 * n + 3}) for n in range(10)]
    row, (finding,) = judge(Stragglers(steps=5), steps)
    assert row["ranks/slowest"] == 1
    assert finding.evidence["by"] == "late" and abs(finding.evidence["seconds"] - 0.398) < 1e-9


def test_a_rank_that_logs_more_seldom_is_not_slow() -> None:
    """Steps are compared from one that both have logged to the next such."""
    steps = [gathered(n, {0: 1000 * n + 1} | ({1: 1000 * n + 1} if n % 10 == 0 else {})) for n in range(300)]
    assert judge(Stragglers(steps=5), steps)[1] == []


def test_where_step_times_are_logged_clocks_need_not_agree() -> None:
    """The clock of rank 1 is half a second fast."""
    steps = [
        gathered(n, {0: 1000 * n, 1: 1000 * n + 500, 2: 1000 * n}, step_time_sec=dict.fromkeys(range(3), 1.0))
        for n in range(1, 30)
    ]
    row, findings = judge(Stragglers(steps=5), steps)
    assert findings == [] and row["ranks/behind_sec"] == 0


def test_one_rank_alone_has_no_skew() -> None:
    assert Stragglers()(gathered(1, {0: 1})) == ({}, None)
