"""The environment of a run: host, versions, command line and git; all packages, and what git has not committed.

Bounded in size and time, and without secrets; call these functions off the training thread.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from chiplog.core.operating_system import hostname
from chiplog.core.values.redact import HIDDEN, is_secret_key, redact, redact_command, redact_text, redact_words

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
MOST_PACKAGES = 5000
LONGEST_DIFF = 1 << 20  # bytes
LONGEST_LINE = 2000  # characters; longer ones are data
PATIENCE = 10.0  # s
CUT = "… [the rest of the diff is not kept]"
_CONFIG = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".json", ".env", ".properties")
_METADATA = (".dist-info", ".egg-info")
# No commands of the user's configuration: external diff programs, text conversions, colours, a pager.
_DIFF = (
    "--no-pager",
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "HEAD",
)


def gather(environ: Mapping[str, str], argv: Sequence[str], cwd: Path) -> dict[str, object]:
    """Collect everything, including what is slow; call it off the training thread."""
    kept = {key: value for key, value in environ.items() if key in _VARIABLES or key.startswith(_PREFIXES)}
    return {
        "host": hostname(),
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


def packages(path: Iterable[str] | None = None) -> list[str]:
    """`name==version` of every distribution that can be imported, sorted.

    The names of metadata folders have both; reading the metadata would take a hundred times as long.
    """
    versions: dict[str, str] = {}
    for folder in sys.path if path is None else path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # a zip file, or not there
            continue
        for name in names:
            if not name.endswith(_METADATA):
                continue
            project, dash, rest = name[: -len(".dist-info")].partition("-")
            if dash:
                versions.setdefault(project.replace("_", "-").lower(), rest.partition("-")[0])  # the first is imported
    return [f"{name}=={version}" for name, version in sorted(versions.items())[:MOST_PACKAGES]]


def diff(cwd: Path, environ: Mapping[str, str]) -> str:
    """The changes since the last commit to files that git tracks; empty if there are none, or no repository."""
    command = ["git", "-C", str(cwd), *_DIFF]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environ, "GIT_OPTIONAL_LOCKS": "0"},
        ) as git:
            late = threading.Timer(PATIENCE, git.kill)
            late.daemon = True
            late.start()
            try:
                assert git.stdout is not None
                data = git.stdout.read(LONGEST_DIFF + 1)
            finally:
                late.cancel()
                git.kill()
    except OSError:
        return ""
    text = data[:LONGEST_DIFF].decode(errors="replace")
    if len(data) > LONGEST_DIFF:
        text = text.rpartition("\n")[0]
    return "".join(f"{line}\n" for line in _redacted(text.splitlines(), cut=len(data) > LONGEST_DIFF))


def _redacted(lines: Iterable[str], *, cut: bool) -> Iterator[str]:
    """The lines of a diff without secrets; of a private key, only its first and last line are left."""
    config = key = False
    for line in lines:
        if line.startswith(("diff --git ", "+++ ")):
            config, key = line.rstrip('"').endswith(_CONFIG), False
            yield line
            continue
        sign, text = line[:1], line[1:]
        if key and "-----END" not in text:
            continue
        key = "-----BEGIN" in text and "PRIVATE KEY" in text and "-----END" not in text
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}… [{len(text) - LONGEST_LINE:,} characters cut]"
        name, colon, value = text.partition(":")
        if config and colon and value.strip() and is_secret_key(name):
            yield f"{sign}{name}: {HIDDEN}"  # a value without quotes, as in YAML
        else:
            yield sign + redact_words(text)
    if cut:
        yield CUT
