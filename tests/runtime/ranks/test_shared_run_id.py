"""The runs of a launch."""

from __future__ import annotations

from pathlib import Path

from chiplog.runtime.ranks.shared_run_id import shared_id

TORCHRUN = {"TORCHELASTIC_RUN_ID": "100", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2"}


def test_ranks_and_restarts_share_a_run_and_launches_do_not(tmp_path: Path) -> None:
    """Three starts of torchrun with one --rdzv-id are three runs; a second run of a launch is another."""

    def start(new: str, rank: int, agent: str, attempt: int = 0) -> str | None:
        error_file = f"/tmp/torchelastic_{agent}/100_x/attempt_{attempt}/{rank}/error.json"
        return shared_id(new, tmp_path / agent / "p", rank, {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": error_file})

    assert [start("a", 0, "one"), start("b", 1, "one")] == ["a", "a"]
    assert [start("c", 0, "two"), start("d", 0, "three")] == ["c", "d"]
    assert start("e", 0, "one") == "e"
    assert shared_id("f", tmp_path, 0, {}) is None
