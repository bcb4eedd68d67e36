"""Whether W&B can be used without asking a person, determined without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from chiplog.core.errors import Refused
from chiplog.core.files import reading
from chiplog.core.records import Plain

HOST = "api.wandb.ai"
MODES = ("online", "offline", "disabled", "shared", "run", "dryrun")
QUIET_MODES = ("offline", "dryrun", "disabled", "shared")
NO_KEY = "W&B has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline to keep the run in files"


def check(environ: Mapping[str, str], options: Mapping[str, Plain]) -> None:
    """Raise `Refused` if a key is needed and missing, and for an unknown mode."""
    if unknown := unknown_mode(environ, options.get("mode")):
        raise Refused(f"cannot use W&B: {unknown}")
    if not (options.get("settings") or {}).get("api_key") and not is_silent(environ, options.get("mode")):
        raise Refused(NO_KEY)


def unknown_mode(environ: Mapping[str, str], mode: str | None = None) -> str:
    """What is wrong with the chosen mode; empty if W&B has it."""
    chosen = mode or environ.get("WANDB_MODE") or "online"
    if chosen in MODES or is_disabled(environ):
        return ""
    return f"{'mode' if mode else 'WANDB_MODE'} = {chosen!r} is not one of its modes: {', '.join(MODES[:4])}"


def is_silent(environ: Mapping[str, str], mode: str | None = None) -> bool:
    """Whether W&B would not have to ask: there is a key, or none is needed."""
    if (mode or environ.get("WANDB_MODE", "")) in QUIET_MODES or is_disabled(environ):
        return True
    if any(environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return True
    host = urlsplit(environ.get("WANDB_BASE_URL", "")).hostname or HOST
    return any(_has(path, host) for path in _files(environ)) or _is_configured(environ)


def is_disabled(environ: Mapping[str, str]) -> bool:
    return is_on(environ.get("WANDB_DISABLED", ""))


def is_on(flag: str) -> bool:
    return flag.lower() not in ("", "0", "false", "no")


def _files(environ: Mapping[str, str]) -> list[Path]:
    if environ.get("NETRC"):
        return [Path(environ["NETRC"]).expanduser()]
    home = Path(environ.get("HOME") or "~").expanduser()
    return [home / ".netrc", home / "_netrc"]


def _has(path: Path, host: str) -> bool:
    import netrc

    try:
        hosts = netrc.netrc(str(path)).hosts
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return False
    return any(name == "default" or name.partition(":")[0] == host for name in hosts)


def _is_configured(environ: Mapping[str, str]) -> bool:
    """Whether W&B's own settings name a key, or a server that the variables do not."""
    folder = environ.get("WANDB_CONFIG_DIR") or Path(environ.get("HOME") or "~", ".config", "wandb")
    try:
        words = reading.read_path(Path(folder).expanduser() / "settings").decode("utf-8", "replace")
    except OSError:
        return False
    return "api_key" in words or ("base_url" in words and not environ.get("WANDB_BASE_URL"))
