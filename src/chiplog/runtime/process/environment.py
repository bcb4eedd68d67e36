"""The environment of a run: host, versions, command line and git, without secrets."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.values.redact import redact, redact_command, redact_text

# Only these variables are kept, with secrets redacted.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "OMP_NUM_THREADS",
)
_PREFIXES = (
    "SLURM_JOB",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_NODELIST",
    "NCCL_",
    "PBS_JOBID",
    "XLA_FLAGS",
)
_PACKAGES = (
    "torch",
    "jax",
    "jaxlib",
    "flax",
    "numpy",
    "transformers",
    "lightning",
    "accelerate",
    "keras",
    "tensorflow",
    "deepspeed",
)


def gather(environ: Mapping[str, str], argv: Sequence[str], cwd: Path) -> dict[str, object]:
    """Collect everything, including what is slow; call it off the training thread."""
    kept = {key: value for key, value in environ.items() if key in _VARIABLES or key.startswith(_PREFIXES)}
    return {
        "host": os.uname().nodename,
        "platform": _platform(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "cpus": os.cpu_count(),
        "command": redact_command(argv),
        "cwd": str(cwd),
        "device": _device(),
        "packages": _versions(),
        "variables": redact(kept),
        "git": _git(cwd, environ),
    }


def _platform() -> str:
    """The same as `platform.platform()`, which would start `uname` for a word that it leaves out."""
    if sys.platform != "linux":
        return platform.platform()
    here = os.uname()
    return "-".join((here.sysname, here.release, here.machine, "with", "".join(platform.libc_ver())))


def _versions() -> dict[str, str]:
    """Versions of the packages this process has loaded."""
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in _PACKAGES if name in sys.modules}
    return {name: str(version) for name, version in versions.items() if version}


def _device() -> str:
    """The accelerator that torch would use, if it is loaded; no device is initialised."""
    accelerator = getattr(sys.modules.get("torch"), "accelerator", None)
    try:
        return str(accelerator.current_accelerator() or "cpu") if accelerator is not None else ""
    except Exception:  # drivers fail in many ways
        return ""


def _git(cwd: Path, environ: Mapping[str, str]) -> dict[str, object]:
    """Commit, branch, remote and whether files were changed; empty outside a repository."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(cwd), *words],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=10,
                check=True,
                env={**environ, "GIT_OPTIONAL_LOCKS": "0"},
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace").strip()

    head = (git("rev-parse", "HEAD", "--abbrev-ref", "HEAD") or "").split()
    if len(head) != 2:
        return {}
    commit, branch = head
    changed = git("status", "--porcelain", "--untracked-files=no")  # slow on network file systems
    facts: dict[str, object] = {"commit": commit, "branch": branch, "dirty": bool(changed)}
    if remote := git("remote", "get-url", "origin"):
        facts["remote"] = redact_text(remote)
    return facts
