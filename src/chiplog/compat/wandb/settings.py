"""What a run is started with: the arguments of `init`, over `Settings`, over the `WANDB_*` variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chiplog.compat.wandb import messages

# The variables that are honoured, and the setting that each of them is.
VARIABLES = {
    "WANDB_PROJECT": "project",
    "WANDB_ENTITY": "entity",
    "WANDB_NAME": "run_name",
    "WANDB_RUN_ID": "run_id",
    "WANDB_RUN_GROUP": "run_group",
    "WANDB_JOB_TYPE": "run_job_type",
    "WANDB_TAGS": "run_tags",
    "WANDB_NOTES": "run_notes",
    "WANDB_DIR": "root_dir",
    "WANDB_RESUME": "resume",
    "WANDB_MODE": "mode",
    "WANDB_CONSOLE": "console",
}
# Arguments of `init` that have another name in `Settings`.
ARGUMENTS = {
    "name": "run_name",
    "id": "run_id",
    "group": "run_group",
    "job_type": "run_job_type",
    "tags": "run_tags",
    "notes": "run_notes",
    "dir": "root_dir",
}
USED = frozenset(VARIABLES.values()) | {"reinit", "resume_from", "fork_from", "sync_tensorboard"}
# These change how W&B's client works and leave nothing out of the run.
MOOT = frozenset(
    (
        "allow_val_change", "anonymous", "api_key", "base_url", "console_multipart", "email", "force", "host",
        "init_timeout", "login_timeout", "program", "quiet", "save_code", "show_emoji", "show_errors", "show_info",
        "show_warnings", "silent", "start_method", "strict", "symlink", "sync_dir",
        "table_raise_on_max_row_limit_exceeded", "username",
    )
)  # fmt: skip


class Settings:
    """W&B's settings: any keyword is accepted; those that are not honoured are reported once."""

    def __init__(self, **settings: object) -> None:
        self.__dict__.update(settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def keys(self) -> list[str]:
        return list(self.__dict__)

    def update(self, *others: Mapping[str, object], **settings: object) -> None:
        for other in others:
            self.__dict__.update(other)
        self.__dict__.update(settings)

    update_from_dict = update

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def gather(arguments: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings of one `init`: its arguments override `settings=`, which overrides the variables."""
    chosen: dict[str, object] = {VARIABLES[name]: environ[name] for name in VARIABLES if environ.get(name)}
    if environ.get("WANDB_DISABLED", "").lower() in ("true", "1", "yes", "on"):
        chosen["mode"] = "disabled"
    passed = arguments.get("settings")
    if passed is not None:
        explicit = dict(passed) if isinstance(passed, Mapping) else dict(vars(passed))
        chosen.update({name: value for name, value in explicit.items() if value is not None})
    for name, value in arguments.items():
        if name not in ("settings", "config", "config_exclude_keys", "config_include_keys") and value is not None:
            chosen[ARGUMENTS.get(name, name)] = value
    if chosen.pop("tensorboard", None):
        chosen["sync_tensorboard"] = True
    for name, value in chosen.items():
        if name not in USED | MOOT and not name.startswith(("_", "x_")) and value not in (False, ""):
            messages.not_kept(f"init({name}={value!r})", "it has no meaning here")
    return Settings(**chosen)


def words(value: object) -> tuple[str, ...]:
    """Tags: a string with commas, or several strings."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(str(one) for one in value) if isinstance(value, Sequence | set | frozenset) else ()
