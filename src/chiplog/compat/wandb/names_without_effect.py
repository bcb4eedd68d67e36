"""A name of W&B's client that has no meaning here: it can be called, used and ignored."""

from __future__ import annotations

from typing import Any

from chiplog.compat.wandb import messages


class Inert:
    """Accepts everything, does nothing, and is reported once."""

    def __init__(self, name: str) -> None:
        self._name = name
        messages.not_kept(name, "the stand-in does not have it")

    def __call__(self, *_: object, **__: object) -> Inert:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        if name == "_name":
            object.__setattr__(self, name, value)

    def __enter__(self) -> Inert:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __repr__(self) -> str:
        return f"<not kept: {self._name}>"
