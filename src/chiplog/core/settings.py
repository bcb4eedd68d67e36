"""What can be set, from where, and what it may be.

Arguments of `init` go over `CHIPLOG_*` variables, these over `chiplog.toml` or `[tool.chiplog]` in `pyproject.toml`
(the nearest one above the working directory), these over the defaults below.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from chiplog.core.errors import BadSetting

_NAMED = ("sinks", "probes")  # names, each with options

# Variables that are read elsewhere, and so are no typing mistakes.
OTHER_VARIABLES = frozenset(("RUN_ID", "FAULTS", "NO_REDUCE", "CACHE"))


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set; one line each, the default with it."""

    project: str = "default"  # the directory that holds the runs of one kind
    name: str | None = None  # for people to read; the id is used where there is none
    dir: str = "runs"  # where all runs are kept
    id: str | None = None  # made from the time where not given
    resume: str | None = None  # None, "must", "never", or a token of `run.resume_token()`
    tags: tuple[str, ...] = ()
    # By name, with the options of each.
    sinks: dict[str, dict[str, Any]] = msgspec.field(default_factory=lambda: {"console": {}})
    probes: dict[str, dict[str, Any]] = {}  # by name, with the options of each
    ranks: Literal["main", "all"] = "main"  # who keeps a journal
    reduce: bool | str | None = None  # statistics across ranks
    durability: Literal["process", "relaxed", "disk"] | None = None  # by file system where not given
    relay: Literal["auto", "thread"] = "auto"  # where the sinks of services run
    on_signal: Literal["flush"] | None = None  # "flush": SIGTERM flushes first, then does what it did before
    strict: bool = False  # mistakes in `log` raise instead of being reported
    mode: Literal["enabled", "disabled"] = "enabled"
    smooth: float | None = None  # 0..1: adds smoothed/… for the losses
    # True: NaN, infinities and spikes of losses and gradient norms; "all": trend, pace, stalls, router, throttling too
    alerts: bool | Literal["all"] = True
    capture: bool = False  # what the process prints is kept too
    compact: bool = True  # `finish` starts the compaction of the journal in a process of its own
    config: dict[str, Any] = {}


def load(arguments: Mapping[str, Any], environ: Mapping[str, str], cwd: Path) -> Settings:
    """Merge the sources; fails with the key, the value and the choices."""
    merged: dict[str, Any] = {}
    for where, source in (
        *_files(cwd),
        ("the environment", _variables(environ)),
        ("init()", {key: value for key, value in arguments.items() if value is not None}),
    ):
        for key, value in source.items():
            converted = _convert(where, key, value)
            if key in _NAMED:  # which ones, the nearest source says; their options may stand in any
                before = merged.get(key, {})
                converted = {name: {**before.get(name, {}), **options} for name, options in converted.items()}
            merged[key] = converted
    return Settings(**merged)


def _convert(where: str, key: str, value: Any) -> Any:
    types = {field.name: field for field in msgspec.structs.fields(Settings)}
    if key not in types:
        import difflib

        near = difflib.get_close_matches(key, types, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise BadSetting(f"{where} sets {key!r} = {value!r}, which is no setting; {hint}there are: {', '.join(types)}")
    if key in ("tags", *_NAMED) and isinstance(value, str):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    if key in _NAMED and isinstance(value, (list, tuple)):
        value = {name: {} for name in value}
    kind = types[key].type
    try:
        return msgspec.convert(value, kind, strict=where != "the environment")
    except msgspec.ValidationError as error:
        raise BadSetting(f"{where} sets {key} = {value!r}: {_choices(kind) or error}") from None


def _choices(kind: Any) -> str:
    """`must be one of …` for a Literal, also inside an optional."""
    options: list[str] = []
    for part in (kind, *getattr(kind, "__args__", ())):
        if getattr(part, "__origin__", None) is Literal:
            options += [repr(option) for option in part.__args__]
    if kind is bool:
        options = ["true", "false"]
    return f"must be one of {', '.join(options)}" if options else ""


def _variables(environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        key.removeprefix("CHIPLOG_").lower(): value
        for key, value in environ.items()
        if key.startswith("CHIPLOG_") and key.removeprefix("CHIPLOG_") not in OTHER_VARIABLES and value != ""
    }


def _files(cwd: Path) -> list[tuple[str, Mapping[str, Any]]]:
    for folder in (cwd, *cwd.parents):
        for filename in ("chiplog.toml", "pyproject.toml"):
            path = folder / filename
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if filename == "pyproject.toml" and "[tool.chiplog" not in text:
                continue
            import tomllib

            try:
                data = tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                raise BadSetting(f"{path} is not valid TOML: {error}") from None
            return [(str(path), data.get("tool", {}).get("chiplog", {}) if filename == "pyproject.toml" else data)]
    return []
