"""Words for an error about a name that does not exist: similar names, and what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def did_you_mean(name: str, names: Iterable[str], most: int = 3) -> str:
    """`did you mean 'train/loss'? ` with a space behind it; empty if no name is similar."""
    import difflib  # which no correct name needs

    choices = list(dict.fromkeys(names))
    lower = {choice.lower(): choice for choice in reversed(choices)}
    near = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, most)]
    near = near or [choice for choice in choices if name and name.lower() in choice.lower()][:most]
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def some(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
