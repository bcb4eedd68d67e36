"""Whether W&B can be used without asking a person, known without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

HOST = "api.wandb.ai"
QUIET_MODES = ("offline", "dryrun", "disabled", "shared")


def is_silent(environ: Mapping[str, str], mode: str | None = None) -> bool:
    """Whether nothing would have to be asked: there is a key, or none is needed."""
    if (mode or environ.get("WANDB_MODE", "")) in QUIET_MODES:
        return True
    if environ.get("WANDB_DISABLED", "").lower() not in ("", "0", "false", "no"):
        return True
    if any(environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return True
    host = urlsplit(environ.get("WANDB_BASE_URL", "")).hostname or HOST
    return any(_has(path, host) for path in _files(environ))


def _files(environ: Mapping[str, str]) -> list[Path]:
    if environ.get("NETRC"):
        return [Path(environ["NETRC"]).expanduser()]
    home = Path(environ.get("HOME") or "~").expanduser()
    return [home / ".netrc", home / "_netrc"]


def _has(path: Path, host: str) -> bool:
    import netrc

    try:
        return netrc.netrc(str(path)).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return False
