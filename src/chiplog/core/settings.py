"""The settings: their names, defaults and types, and where they come from.

Arguments of `init` override `CHIPLOG_*` variables, which override `chiplog.toml` or `[tool.chiplog]` in
`pyproject.toml` (the nearest one at or above the working directory), which override the defaults below.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Literal

import msgspec

from chiplog.core.errors import BadSetting
from chiplog.core.files import reading
from chiplog.core.files.working_directory import trusted
from chiplog.core.records import Plain
from chiplog.core.suggestions import did_you_mean

_NAMED = ("sinks", "probes")  # names, each with options

# Arguments of W&B's `init` that are not settings here, and what to write instead.
OF_WANDB = {
    **{name: f"init(config={{{name!r}: ...}}) keeps it; " for name in ("notes", "group", "job_type", "experiment")},
    "entity": "init(sinks={'wandb': {'entity': ...}}) passes it to W&B; ",
}

# Variables that other modules read, and that are therefore not typos.
OTHER_VARIABLES = frozenset(("RUN_ID", "FAULTS", "NO_REDUCE", "CACHE", "AUTO", "EVENT_FILES"))


LARGEST = 4 << 20  # bytes of a file of settings


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting with its default, one per line."""

    project: str = "default"  # the directory that groups related runs
    name: str | None = None  # for people to read; defaults to the id
    dir: str = "runs"  # the directory of all runs
    id: str | None = None  # defaults to one made from the time
    resume: str | None = None  # "allow", "must", "never", "auto", or a token of `run.resume_token()`
    tags: tuple[str, ...] = ()
    # By name, with the options of each.
    sinks: dict[str, dict[str, Plain]] = msgspec.field(default_factory=lambda: {"console": {}})
    probes: dict[str, dict[str, Plain]] = {}  # by name, with the options of each
    ranks: str | tuple[int, ...] = "main"  # the ranks that keep a journal: "main", "all", "last", or a list
    reduce: bool | str | None = None  # statistics across ranks
    durability: Literal["process", "relaxed", "disk"] | None = None  # by default, chosen by file system
    relay: Literal["auto", "thread"] = "auto"  # where the sinks for services run
    on_signal: Literal["flush"] | None = None  # "flush": SIGTERM flushes first, then does what it did before
    permissions: Literal["private", "group", "umask"] = "private"  # who may read the run
    strict: bool = False  # errors in `log` raise instead of being reported
    mode: Literal["enabled", "online", "offline", "disabled"] = "enabled"  # "offline": services wait for `chiplog sync`
    smooth: float | None = None  # 0..1: adds smoothed/… for the losses
    # True: NaN, infinities and spikes of losses and gradient norms; "all": trend, pace, stalls, router, throttling too
    alerts: bool | Literal["all"] = True
    capture: bool = False  # record what the process prints, too
    compact: bool = True  # another process compacts segments when they close, and when the run ends
    config: dict[str, Plain] = {}


def load(arguments: Mapping[str, object], environ: Mapping[str, str], cwd: Path) -> Settings:
    """Merge the sources; an error names the key, the value and the choices."""
    merged: dict[str, Plain] = {}
    for where, source in (
        *_files(cwd),
        ("the environment", _variables(environ)),
        ("init()", {key: value for key, value in arguments.items() if value is not None}),
    ):
        for key, value in source.items():
            converted = _convert(where, key, value)
            if key in _NAMED:  # the nearest source chooses the names; options merge from all sources
                before = merged.get(key, {})
                converted = {name: {**before.get(name, {}), **options} for name, options in converted.items()}
            merged[key] = converted
    return Settings(**merged)


def _convert(where: str, key: str, value: object) -> Plain:
    types = {field.name: field for field in msgspec.structs.fields(Settings)}
    if key not in types:
        hint = OF_WANDB.get(key) or did_you_mean(key, types, 1)
        raise BadSetting(f"unknown setting {key!r} = {value!r} in {where}; {hint}the settings are: {', '.join(types)}")
    if key in ("tags", *_NAMED) and isinstance(value, str):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    if key in _NAMED and isinstance(value, (list, tuple)):
        value = {name: {} for name in value}
    if key in ("project", "name", "id") and (isinstance(value, PathLike) or type(value) in (int, float)):
        value = str(value)  # such as the number of a trial
    if key in ("project", "name", "id") and isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()
    if key == "resume" and str(value).lower() in ("true", "false", "1", "0"):
        value = "auto" if str(value).lower() in ("true", "1") else None
    if key == "ranks":
        value = _ranks(where, value)
    kind = types[key].type
    try:
        return msgspec.convert(value, kind, strict=where != "the environment")
    except msgspec.ValidationError as error:
        wanted = "must be a list of words" if key == "tags" else _choices(kind)
        raise BadSetting(f"{where} sets {key} = {value!r}: {wanted or error}") from None


def _ranks(where: str, value: object) -> str | tuple[int, ...]:
    """A word, a rank, or several ranks separated by commas."""
    if value in ("main", "all", "last"):
        return str(value)
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    words = [str(one).strip() for one in listed if not isinstance(one, bool)]
    if not listed or len(words) < len(listed) or not all(word.isdecimal() and word.isascii() for word in words):
        raise BadSetting(
            f"{where} sets ranks = {value!r}: must be one of 'main', 'all', 'last', or ranks: 3, [0, 3], '0,3'"
        )
    return tuple(sorted({int(word) for word in words}))


def _choices(kind: object) -> str:
    """`must be one of …` for a Literal, even inside an optional."""
    options: list[str] = []
    for part in (kind, *getattr(kind, "__args__", ())):
        if getattr(part, "__origin__", None) is Literal:
            options += [repr(option) for option in getattr(part, "__args__", ())]
    if kind is bool:
        options = ["true", "false"]
    return f"must be one of {', '.join(options)}" if options else ""


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix("CHIPLOG_").lower(): value
        for key, value in environ.items()
        if key.startswith("CHIPLOG_") and key.removeprefix("CHIPLOG_") not in OTHER_VARIABLES and value != ""
    }


def _placed(data: Mapping[str, Plain], folder: Path) -> Mapping[str, Plain]:
    """The settings of a file in this folder, with a relative `dir` made absolute."""
    if isinstance(data, dict) and isinstance(directory := data.get("dir"), str):
        return {**data, "dir": str(folder / Path(directory).expanduser())}
    return data


def _files(cwd: Path) -> list[tuple[str, Mapping[str, Plain]]]:
    for folder in trusted(cwd):  # a run may come from someone else
        for filename in ("chiplog.toml", "pyproject.toml"):
            path = folder / filename
            try:
                text = reading.read_path(path, LARGEST).decode()
            except (OSError, UnicodeDecodeError):
                continue
            if filename == "pyproject.toml" and "[tool.chiplog" not in text:
                continue
            import tomllib

            try:
                data = tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                raise BadSetting(f"{path} is not valid TOML: {error}") from None
            own = data.get("tool", {}).get("chiplog", {}) if filename == "pyproject.toml" else data
            return [(str(path), _placed(own, folder))]
    return []
