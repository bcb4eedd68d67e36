"""The names of Tunix's metrics, and the other names under which the same metric is found."""

from __future__ import annotations

COMMON = ("loss", "perplexity", "learning_rate", "step_time_sec", "steps_per_sec", "tflops_per_step")
SAMPLES = "rollouts"  # the table of prompts, completions and trajectory ids

# The names that Tunix's code emits, by the documented name.
ALIASES: dict[str, tuple[str, ...]] = {
    "reward_kl_penalty": ("rewards/reward_kl_penalty",),
    **{f"score/{one}": (f"rewards/score/{one}",) for one in ("mean", "max", "min")},
    **{f"returns/{one}": (f"advantages/returns/{one}",) for one in ("mean", "max", "min")},
    **{f"values/{one}": (f"advantages/old_values/{one}",) for one in ("mean", "max", "min")},
    **{f"completions/{one}_length": (f"generation/completions/{one}_length",) for one in ("mean", "max", "min")},
}
_SYNONYMS = tuple((documented, *others) for documented, others in ALIASES.items())


def other_names(name: str) -> tuple[str, ...]:
    """The names of the same metric besides this one."""
    return next((tuple(one for one in names if one != name) for names in _SYNONYMS if name in names), ())
