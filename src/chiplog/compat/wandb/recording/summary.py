"""The summary of a run: the last value of everything that was logged, aggregates, and what the script sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from chiplog.compat.wandb import messages
from chiplog.compat.wandb.recording.metrics import Definitions
from chiplog.core.values import convert

Changed = Callable[[str, object], None]


class Summary(MutableMapping[str, Any]):
    """W&B's summary, by key or attribute. A value that the script sets lasts until it is logged again."""

    def __init__(self, definitions: Definitions, changed: Changed, values: Mapping[str, object] | None = None) -> None:
        object.__setattr__(self, "_last", dict(values or {}))  # `log` updates it directly
        object.__setattr__(self, "_by_hand", {})
        object.__setattr__(self, "_definitions", definitions)
        object.__setattr__(self, "_changed", changed)

    def __getitem__(self, key: str) -> Any:
        made = self._definitions.aggregates.get(key)
        if made is not None and (values := made.summary()) and key not in self._by_hand:
            return values
        if key not in self._last or (self._definitions.any and self._definitions.hides(key)):
            raise KeyError(key)
        value = self._last[key]
        number = convert.number(value)  # the value may still be on a device
        return value if number is None else number

    def __setitem__(self, key: str, value: object) -> None:
        try:
            self._last[key] = self._by_hand[key] = value
            self._changed(key, value)
        except Exception as error:
            messages.failed("wandb.summary", error)

    def __delitem__(self, key: str) -> None:
        self._last.pop(key, None)
        self._by_hand.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter([key for key in self._last if key in self])

    def __contains__(self, key: object) -> bool:
        return key in self._last and not (self._definitions.any and self._definitions.hides(str(key)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"summary has no {key!r}") from None

    __setattr__ = __setitem__

    def update(self, *others: Any, **more: object) -> None:
        for key, value in {**(dict(others[0]) if others else {}), **more}.items():
            self[key] = value

    @property
    def _json_dict(self) -> dict[str, Any]:
        return dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def overtaken(self) -> dict[str, Any]:
        """Values that the script set and then logged again: the newer one is the summary."""
        return {
            key: self._last[key]
            for key, value in self._by_hand.items()
            if key in self._last and self._last[key] is not value
        }
