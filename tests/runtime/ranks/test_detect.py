"""Ranks and launches from the environment."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from chiplog.runtime.ranks import detect


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "8"}, (2, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}, (1, 4)),
        ({"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (5, 6)),
        ({"RANK": "x", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (1, 2)),
        ({"SLURM_PROCID": "5"}, (0, 1)),
        ({"PALS_RANKID": "1", "PALS_SIZE": "2"}, (1, 2)),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "8"}, (1, 2)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "RANK": "11", "WORLD_SIZE": "16"}, (11, 16)),
    ],
)
def test_the_launcher_is_understood(environ: dict[str, str], expected: tuple[int, int]) -> None:
    """torchrun, Open MPI, PMI, PALS, Slurm; half a statement is none, and torchrun inside srun counts."""
    assert detect.detect(environ)[:2] == expected


def test_a_torch_that_does_not_know_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rank counts; the number is the launcher's, or the least that it can be."""

    def unknown() -> int:
        raise ValueError("Default process group has not been initialized")

    torch = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1)
    torch.get_world_size = unknown
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    assert detect.detect({})[:2] == (1, 2)
    assert detect.detect({"RANK": "1", "WORLD_SIZE": "8"})[:2] == (1, 8)
    torch.get_rank = unknown
    assert detect.detect({"RANK": "3", "WORLD_SIZE": "8"})[:2] == (3, 8)


def test_the_local_rank_and_the_host_are_known() -> None:
    """For what is one of several on a machine."""
    found = detect.detect({"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1"})
    assert (found.local, found.host) == (1, os.uname().nodename)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "SLURM_RESTART_COUNT": "1"}, "7-2-1"),
        ({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "a", "MASTER_PORT": "5"}, None),
        ({"TORCHELASTIC_RUN_ID": "abc", "TORCHELASTIC_RESTART_COUNT": "3"}, "abc-3"),
        (
            {"TORCHELASTIC_RUN_ID": "abc", "TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": "3", "MASTER_PORT": "5"},
            "abc-0-3-5",
        ),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "WORLD_SIZE": "3", "MASTER_PORT": "5"}, "7-0"),
    ],
)
def test_a_launch_is_what_all_its_processes_share(environ: dict[str, str], expected: str | None) -> None:
    """The job, its step and its restarts; a port that the next start uses again is none."""
    assert detect.launch_id(environ) == expected


def test_a_job_stays_the_same_when_it_is_restarted() -> None:
    """So its run does."""
    assert detect.job_id({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}) == "7"
