"""What a run was made of: the versions of all installed distributions, and the changes git has not committed.

Both are bounded in size and time and without secrets; call them off the training thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from chiplog.core.values.redact import HIDDEN, is_secret_key, redact_words

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
