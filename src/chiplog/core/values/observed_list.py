"""A list that reports changes: the tags of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from typing import Any, SupportsIndex

from chiplog.core.values import convert


class ObservedList(MutableSequence[str]):
    """A list of words that reports its new contents after every change. A tuple, like those of W&B, may be added."""

    def __init__(self, words: Iterable[str], changed: Callable[[Iterable[str]], None]) -> None:
        self._words = list(words)
        self._changed = changed

    def __getitem__(self, index: Any) -> Any:
        return self._words[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._words[index] = list(map(convert.name, value)) if isinstance(index, slice) else convert.name(value)
        self._changed(self._words)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        del self._words[index]
        self._changed(self._words)

    def insert(self, index: int, value: object) -> None:
        self._words.insert(index, convert.name(value))
        self._changed(self._words)

    def extend(self, values: Iterable[str]) -> None:
        self[len(self) :] = values

    def add(self, value: str) -> None:
        """As of a set: append it unless it is there."""
        if value not in self._words:
            self.append(value)

    def __add__(self, other: Iterable[str]) -> list[str]:
        return [*self._words, *other]

    def __len__(self) -> int:
        return len(self._words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple, ObservedList)) and self._words == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._words)


def as_words(tags: object) -> Iterable[str]:
    """Tags as users set them: a list, one word, or None for none."""
    if isinstance(tags, str):
        return (tags,)
    if not isinstance(tags, Iterable | None):
        raise TypeError(f"tags are a list of words, not {tags!r}; they stay as they were")
    return tags or ()
