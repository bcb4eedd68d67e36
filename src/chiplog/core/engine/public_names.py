"""The names of a run that are meant for users, as `dir(run)` lists them; the others are for the other layers."""

from __future__ import annotations

from chiplog.core.errors import NotStored
from chiplog.core.suggestions import did_you_mean

PUBLIC_NAMES = (
    "alert", "artifact", "config", "dir", "end_step", "eval", "event", "finish", "flush", "health", "id", "log",
    "meter", "name", "on_alert", "on_record", "project", "resume_token", "settle", "sink", "span", "spans",
    "start_step", "step", "steps", "stopwatch", "summary", "table", "tags", "trace",
)  # fmt: skip
_STORED = ("config", "name", "summary", "tags")
WRITABLE = frozenset((*_STORED, "across", "engine", "identity", "post", "tracer"))


def assign(run: object, name: str, value: object) -> None:
    """Set an attribute of a run that the run does not store, and raise to say so; a method may be replaced."""
    meant = getattr(type(run), name, None)
    if isinstance(meant, property):
        raise NotStored("it cannot be changed during the run; pass it to init()")
    object.__setattr__(run, name, value)
    if meant is None:
        raise NotStored(
            f"this is not stored; {did_you_mean(name, _STORED)}a run stores what is in its config, name, summary and "
            f"tags: run.config[{name!r}] = ... is stored"
        )
