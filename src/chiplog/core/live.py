"""A dictionary that tells when it is changed: the config and the summary of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Live(dict[str, Any]):
    """Reads as a dict, also by attribute; every change is passed on."""

    def __init__(self, data: Mapping[str, Any], changed: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__(data)
        self._changed = changed

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed({key: value})

    def update(self, *args: Mapping[str, Any] | Iterable[tuple[str, Any]], **kwargs: Any) -> None:  # type: ignore[override]
        change = dict(*args, **kwargs)
        super().update(change)
        self._changed(change)

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __setattr__(self, key: str, value: Any) -> None:
        if key == "_changed":
            object.__setattr__(self, key, value)
        else:
            self[key] = value
