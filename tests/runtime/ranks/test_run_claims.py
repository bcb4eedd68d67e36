"""Claims on a run."""

from __future__ import annotations

import os
import time
from pathlib import Path

from chiplog.runtime.ranks.run_claims import FileClaims, SharedClaims, numbered


def test_a_file_of_another_launch_is_ignored(tmp_path: Path) -> None:
    """Only one that was written since this process started counts; the first rank that writes it keeps the run."""
    path = tmp_path / ".keeper-x"
    path.write_text(f"0 {time.time() - 86400}")
    first, second = FileClaims(path), FileClaims(path)
    assert first.keeper() is None
    assert first.claim(3) == 3 and second.claim(0) == 3 and second.keeper() == 3
    assert os.listdir(tmp_path) == [path.name]


def test_ranks_of_one_launch_share_a_claim_and_others_do_not(tmp_path: Path) -> None:
    """The scheduler's job tells launches apart."""
    mine, other = {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_ID": "8"}
    assert SharedClaims("p/1", tmp_path, mine).claim(2) == 2
    assert SharedClaims("p/1", tmp_path, mine).claim(0) == 2
    assert SharedClaims("p/1", tmp_path, other).keeper() is None
    assert SharedClaims("p/2", tmp_path, mine).keeper() is None


def test_runs_of_one_name_are_numbered() -> None:
    """A process may start several, one after the other."""
    assert [numbered("test/claims"), numbered("test/claims")] == ["test/claims/1", "test/claims/2"]
