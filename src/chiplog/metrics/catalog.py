"""What the name of a metric tells: its unit, which direction is better, and whether it is a loss, a count or a setting.

The tables are data, for all parts of chiplog. A name in none of them is an ordinary metric.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

CACHED = 10_000  # names
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")  # between the words of `trainLoss`

# -- tables ------------------------------------------------------------------------------------------------------------

# The unit of a value by the end of its name; the first match counts.
UNITS = (
    ("tokens_per_sec", "tokens/s"), ("samples_per_sec", "samples/s"), ("_per_sec", "1/s"), ("_sec", "s"), ("_ms", "ms"),
    ("_us", "µs"), ("_bytes", "B"), ("_mib", "MiB"), ("_gib", "GiB"), ("tflops", "TFLOP/s"), ("/power", "mW"),
    ("/power_limit", "mW"), ("/utilization", "%"), ("gpu_util", "%"), ("mem_util", "%"),
    ("temperature", "°C"), ("/temp", "°C"), ("pcie_rx", "B/s"), ("pcie_tx", "B/s"), ("nvlink_rx", "B/s"),
    ("nvlink_tx", "B/s"), ("dram_free", "B"), ("dram_total", "B"), ("/energy", "mJ"), ("/fan", "%"),
    ("temp_slowdown", "°C"), ("tokens", "tokens"), ("mem_alloc", "GiB"), ("mem_reserved", "GiB"),
    ("mem_peak_alloc", "GiB"), ("mem_peak_reserved", "GiB"), ("/clock", "MHz"), ("/max_clock", "MHz"), ("_mhz", "MHz"),
    ("_percent", "%"), ("_pct", "%"),
)  # fmt: skip

# Units that people do not read in: the one they do, and how many of the first make one of it.
READABLE = {"mW": ("W", 1000.0), "mJ": ("J", 1000.0)}

# Names of what probes measure, as opposed to the training.
_SYSTEM = ("gpu/", "cpu/", "system/", "memory/", "disk/", "net/", "host/", "node/")

# By the last part of a name, or by the last word of that part: `accuracy`, `eval/accuracy`, `top1_accuracy`.
LOWER_IS_BETTER = ("loss", "perplexity", "ppl", "error", "wer", "bits_per_byte", "bpb")
HIGHER_IS_BETTER = ("acc", "accuracy", "reward", "f1", "bleu", "mfu", "tokens_per_sec", "goodput", "score", "win_rate")

# By the last part of a name. Counters tell where a run is: a curve or a mean across ranks would be useless.
COUNTERS = frozenset((
    "step", "global_step", "iter", "iters", "iteration", "iterations", "epoch", "batch", "idx", "bidx",
))  # fmt: skip
# Settings are the same on every rank, or meaningless as a mean, but may have a curve.
SETTINGS = frozenset((
    "steps", "epochs", "index", "seed", "rank", "world_size", "lr", "learning_rate", "weight_decay", "wd", "momentum",
    "beta1", "beta2", "eps", "epsilon", "clip_grad", "grad_clip", "clip_norm", "max_grad_norm", "warmup",
    "warmup_steps", "warmup_iters",
))  # fmt: skip

STATISTICS = ("mean", "max", "min", "std")  # across ranks, of every metric: `train/loss/mean`
_MORE_STATISTICS = ("sum", "count", "max_rank", "min_rank")
# What the ranks do together: the sum across ranks of what each has measured.
SUMMED = ("train/tokens_per_sec", "train/samples_per_sec")

NOT_FINITE = ("nan", "inf", "-inf")
_LOSS_GROUPS = frozenset(("loss", "losses"))  # `Loss/train`, `losses/ce`, `loss/policy`
# Words that may follow it: `train_loss_step` (Lightning), `loss_eval`.
_AFTER_LOSS = frozenset(("step", "epoch", "train", "training", "val", "valid", "validation", "dev", "eval", "test"))
# The last words of names in the group of the losses that are not losses: `losses/clipfrac` (CleanRL).
_BESIDE_LOSSES = frozenset(
    (
        "scale",
        "weight",
        "coef",
        "ratio",
        "clipfrac",
        "frac",
        "fraction",
        "variance",
        "norm",
        "scaler",
        "mask",
        "count",
        "std",
    )
)
_NOT_LOSSES = frozenset(("entropy", "policy_entropy", "approx_kl", "old_approx_kl"))
# The losses of a policy swing around zero by design, and need not fall.
_OF_POLICY = frozenset(("policy", "pg", "surrogate", "ent", "alpha"))

# Common quantities by name; the first that exists counts.
LOSS = ("train/loss", "loss", "train_loss", "Loss/train", "loss/train", "train/loss_step", "train_loss_step")
GRADIENT_NORM = ("train/grad_norm", "grad_norm", "train/norm", "norm")
LEARNING_RATE = ("train/lr", "lr", "train/learning_rate", "learning_rate")
STEP_TIME = ("train/step_time_sec", "step_time_sec")
TOKENS_PER_SEC = ("train/tokens_per_sec", "tokens_per_sec", "train/tps", "tps")
TOKENS = ("train/tokens", "tokens")  # of one step, by most
MAIN_LOSSES = (*LOSS, "eval/loss")  # the main loss of a run with several, before any other
PROGRESS = {
    "tokens": (
        "train/tokens_seen", "tokens_seen", "train/total_tokens", "total_tokens", "train/tokens_total", "tokens_total",
        "train/num_input_tokens_seen", "train/num_tokens", *TOKENS,
    ),
    "epoch": ("train/epoch", "epoch"),
    "flops": (
        "train/total_flops", "train/flops_total", "total_flops", "train/total_flos", "total_flos", "train/flops",
        "flops",
    ),
}  # fmt: skip

# -- questions ---------------------------------------------------------------------------------------------------------


def unit(name: str) -> str:
    """The unit of a metric, if its name has one."""
    return next((sign for ending, sign in UNITS if name.endswith(ending)), "")


def readable_unit(name: str) -> tuple[str, float]:
    """The unit in which people read a metric, and what to divide its values by: watts for milliwatts."""
    return READABLE.get(sign := unit(name), (sign, 1.0))


def is_system(name: str) -> bool:
    """Whether a metric is of the machine and not of the training: `gpu/0/power`, `host/cpu_percent`."""
    return name.startswith(_SYSTEM)


def direction(name: str) -> str:
    """`lower` or `higher`, whichever is better; empty if unknown."""
    lower, higher = is_loss(name) or _ends_in(name, LOWER_IS_BETTER), _ends_in(name, HIGHER_IS_BETTER)
    return "" if lower == higher else "lower" if lower else "higher"


@lru_cache(CACHED)
def is_loss(name: str) -> bool:
    """Whether a metric is a loss: `train/loss`, `val_loss`, `Loss/train`, `losses/ce`, `loss_cls`, `trainLoss`.

    What only sounds like one is not: `loss_scale`, `gloss`.
    """
    if is_statistic(name):
        return False
    *groups, leaf = _CAMEL.sub("_", name).lower().split("/")
    if groups and leaf.startswith("dataloader_idx_"):  # Lightning, with several loaders
        leaf = groups.pop()
    words = _words(leaf.partition("_vs_")[0])  # `evaluation_loss_vs_iterations`
    if len(words) > 1 and words[-1] in _AFTER_LOSS:
        words.pop()
    among = not _LOSS_GROUPS.isdisjoint(groups) or words[0] == "loss"  # `losses/ce`, `loss_cls` (detectors)
    return words[-1] == "loss" or (among and not _is_beside_losses(leaf))


def should_fall(name: str) -> bool:
    """Whether a metric is a loss that should fall, unlike that of a policy."""
    words = _words(name.lower().replace("/", "_"))
    of_policy = not _OF_POLICY.isdisjoint(words) or ("entropy" in words and "cross" not in words)
    return is_loss(name) and not of_policy


def is_gradient_norm(name: str) -> bool:
    """`grad_norm`, in any group and behind any word, and Surogate's `train/norm`."""
    return name.endswith(("grad_norm", "train/norm"))


def is_watched(name: str) -> bool:
    """Whether a value that is not finite, or far above its past, raises an alert by default."""
    return is_loss(name) or is_gradient_norm(name)


def is_counter(name: str) -> bool:
    """Whether a metric only tells where a run is: never plotted, never averaged."""
    return name.rpartition("/")[2] in COUNTERS


def is_setting(name: str) -> bool:
    """Whether a metric is chosen rather than measured: never averaged across ranks."""
    last = name.rpartition("/")[2]
    return last in SETTINGS or last.startswith("lr-") or name.startswith("lr/")


def is_statistic(name: str) -> bool:
    """Whether a name is that of a statistic across ranks, or of data about the ranks themselves."""
    _, slash, last = name.rpartition("/")
    listed = last in STATISTICS or last in _MORE_STATISTICS or (last[:1] == "p" and last[1:].isdecimal())
    return bool(slash) and (listed or name.startswith("ranks/"))


def pick_loss(values: Mapping[str, object]) -> int | float | None:
    """The main loss among a run's last values, also if it is not finite; None if there is none."""
    name = next((name for name in MAIN_LOSSES if name in values), None) or next(filter(is_loss, values), None)
    value = values[name] if name is not None else None
    if value in NOT_FINITE:  # as lists of runs keep it
        return float(value)
    return value if isinstance(value, (int, float)) else None


def progress_name(what: str, names: Collection[str]) -> str | None:
    """Which of these names counts tokens, epochs or FLOPs (`tokens`, `epoch`, `flops`)."""
    return next((name for name in PROGRESS.get(what, ()) if name in names), None)


def _is_beside_losses(leaf: str) -> bool:
    leaf = leaf.removesuffix("_avg")
    return (
        leaf in _NOT_LOSSES
        or leaf in COUNTERS
        or leaf in SETTINGS
        or _words(leaf)[-1] in _BESIDE_LOSSES
        or bool(unit(leaf))
        or _ends_in(leaf, HIGHER_IS_BETTER)
    )


def _words(text: str) -> list[str]:
    return text.replace("-", "_").replace(".", "_").replace(" ", "_").split("_")


def _ends_in(name: str, words: tuple[str, ...]) -> bool:
    leaf = name.rpartition("/")[2]
    return leaf in words or leaf.endswith(tuple(f"_{word}" for word in words))
