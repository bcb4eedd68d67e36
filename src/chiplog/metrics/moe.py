"""Router health of a mixture of experts: from the tokens each expert got, and how sure the router was.

Per layer, with c the tokens by expert, T their sum, E the experts, P the mean router probability by expert:

    aux loss      = coefficient * E * sum(c / T * P)            summed over layers
    z-loss        = coefficient * mean(logsumexp(logits)²)      summed over layers; both coefficients are yours, or
                    such that even routing of undecided tokens gives BALANCED_AUX and BALANCED_Z for any model
    utilisation   = experts with tokens / E                     the mean over layers, as all below
    imbalance     = max(c) / mean(c)
    load cv       = std(c) / mean(c)
    max fraction  = max(c) / T,   min active fraction = the least c > 0 / T
    entropy       = mean over tokens of H(p) / ln(E)
    confidence    = mean over tokens of max(p)

A layer that got no tokens counts for none of the means. What was not given (probabilities, logits) has no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from chiplog.core import records
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.media import Media


class Range(NamedTuple):
    """Where a metric of a router is healthy, and from where on it is a warning."""

    low: float
    high: float
    warn_above: float | None = None
    warn_below: float | None = None
    means: str = ""


HEALTHY = {
    "aux_loss": Range(0.001, 0.1, warn_above=1.0, means="severe load imbalance"),
    "z_loss": Range(0.0001, 0.01, warn_above=0.1, means="routing may collapse"),
    "expert_utilization": Range(0.8, 1.0, warn_below=0.5, means="many experts are unused"),
    "load_imbalance": Range(1.0, 2.0, warn_above=3.0, means="poor load distribution"),
}
# What even routing comes to where no coefficients are given; with fixed ones it would hang on the number of layers and
# experts, and no range could judge it (docs/decisions/0030-coefficients-of-a-router.md).
BALANCED_AUX, BALANCED_Z = 0.01, 0.001
LEAST_UTILIZATION = 0.7  # what is worth an alert before it is a warning of the table
MOST_IMBALANCE = 2.5

INLINE = ("aux_loss", "z_loss", "load_imbalance")  # what a step's record carries of them
DOCUMENTED = ("aux_loss", "z_loss", "expert_utilization", "load_imbalance")
FIELDS = (
    *DOCUMENTED,
    "active_experts",
    "max_expert_fraction",
    "min_active_expert_fraction",
    "load_cv",
    "router_entropy",
    "router_confidence",
)


def verdict(name: str, value: float) -> str:
    """`healthy`, `watch` or `warning`, by the table above; `watch` is in between."""
    range_ = HEALTHY[name]
    if range_.warn_above is not None and not value <= range_.warn_above:  # NaN is no good sign either
        return "warning"
    if range_.warn_below is not None and not value >= range_.warn_below:
        return "warning"
    return "healthy" if range_.low <= value <= range_.high else "watch"


class Router(Media):
    """What the routers of a step did: `run.log({"moe": Router(counts, probs)}, step=step)`.

    `counts` are tokens by [layer, expert]; one layer may come as a plain row. `probs` are the router's probabilities:
    their mean by [layer, expert], or those of all tokens, [layer, token, expert], from which entropy and confidence
    follow too. `entropy` (in nats), `confidence` and `z` (mean of logsumexp²) are by layer, where they are known.
    `aux_coefficient` and `z_coefficient` are those you train with; without them even routing gives 0.01 and 0.001.
    Becomes one event with a few scalars and one matrix `<name>/load`.
    """

    __slots__ = ("arrays", "aux_coefficient", "z_coefficient")
    kind = records.Matrix

    def __init__(
        self,
        counts: Any,
        probs: Any = None,
        *,
        entropy: Any = None,
        confidence: Any = None,
        z: Any = None,
        aux_coefficient: float | None = None,
        z_coefficient: float | None = None,
    ) -> None:
        given = {"counts": counts, "probs": probs, "entropy": entropy, "confidence": confidence, "z": z}
        self.arrays = {name: array for name, array in given.items() if array is not None}
        self.aux_coefficient, self.z_coefficient = aux_coefficient, z_coefficient

    def health(self) -> dict[str, int | float]:
        """The scalars; raises ValueError for arrays that do not fit together."""
        return health(**self.arrays, aux_coefficient=self.aux_coefficient, z_coefficient=self.z_coefficient)

    def by_layer(self) -> dict[str, Any]:
        """The same as arrays of numpy, all by layer, counts and probabilities by [layer, expert]."""
        arrays = dict(self.arrays)
        counts = _matrix(arrays.pop("counts"))
        if "probs" in arrays:
            found = _sum_up(arrays["probs"], arrays.get("entropy"), arrays.get("confidence"), counts.shape)
            arrays |= zip(("probs", "entropy", "confidence"), found, strict=True)
        rows = {
            name: _row(array, len(counts)) for name, array in arrays.items() if name != "probs" and array is not None
        }
        return {"counts": counts, **({"probs": arrays["probs"]} if "probs" in arrays else {}), **rows}

    def fields(self) -> dict[str, Any]:
        return {"values": _matrix(self.arrays["counts"]).tolist()}

    def records(self, name: str) -> Iterator[tuple[type[records.Record], dict[str, Any]]]:
        yield records.Event, {"name": name, "data": self.health()}
        yield records.Matrix, {"name": f"{name}/load", **self.fields()}


def health(
    counts: Any,
    probs: Any = None,
    *,
    entropy: Any = None,
    confidence: Any = None,
    z: Any = None,
    aux_coefficient: float | None = None,
    z_coefficient: float | None = None,
) -> dict[str, int | float]:
    """Every number of router health that can be known from these; see `Router` for the arrays."""
    import numpy

    load = _matrix(counts)
    layers, experts = load.shape
    used = numpy.count_nonzero(load, axis=1)
    routed = used > 0
    if not routed.any():
        return {}
    busy = (load if routed.all() else load[routed]).astype("float64")
    totals = busy.sum(axis=1)
    means = totals / experts
    most = busy.max(axis=1)
    least = busy.min(axis=1, where=busy > 0, initial=numpy.inf)
    found: dict[str, float] = {}
    if probs is not None:
        mean_probs, entropy, confidence = _sum_up(probs, entropy, confidence, load.shape)
        chosen = numpy.einsum("le,le->l", busy, mean_probs[routed])  # E * sum(c * P) / T is this by the mean load
        scale = BALANCED_AUX / len(busy) if aux_coefficient is None else aux_coefficient
        found["aux_loss"] = scale * (chosen / means).sum()
    if z is not None:
        scale = BALANCED_Z / len(busy) / numpy.log(max(experts, 2)) ** 2 if z_coefficient is None else z_coefficient
        found["z_loss"] = scale * _row(z, layers).sum()
    away = busy - means[:, None]
    found |= {
        "expert_utilization": used[routed].mean() / experts,
        "load_imbalance": (most / means).mean(),
        "active_experts": used[routed].mean(),
        "max_expert_fraction": (most / totals).mean(),
        "min_active_expert_fraction": (least / totals).mean(),
        "load_cv": (numpy.sqrt(numpy.einsum("le,le->l", away, away) / experts) / means).mean(),
    }
    if entropy is not None:
        found["router_entropy"] = (_row(entropy, layers)[routed] / numpy.log(experts)).mean() if experts > 1 else 0.0
    if confidence is not None:
        found["router_confidence"] = _row(confidence, layers)[routed].mean()
    return {name: float(value) for name, value in found.items()} | {"dead_experts": int(load.size - used.sum())}


def _sum_up(probs: Any, entropy: Any, confidence: Any, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Mean probabilities by [layer, expert]; entropy and confidence too, where all tokens were given."""
    import numpy

    given = _array(probs)
    if given.ndim == len(shape) - 1 or (given.ndim == 2 and shape[0] == 1 and given.shape[0] != 1):
        given = given[None]  # one layer
    if given.ndim == 3:
        if confidence is None:
            confidence = given.max(axis=2).mean(axis=1)
        if entropy is None:
            logs = numpy.log(given, out=numpy.zeros_like(given), where=given > 0)
            entropy = -(given * logs).sum(axis=2).mean(axis=1)
        given = given.mean(axis=1)
    if given.shape != shape:
        raise ValueError(
            f"the router's probabilities have the shape {given.shape}, and the counts {shape}: give the mean by "
            "[layer, expert], or all of them by [layer, token, expert]"
        )
    return given, entropy, confidence


def _matrix(counts: Any) -> Any:
    load = _array(counts)
    if load.ndim == 1:
        load = load[None]
    if load.ndim != 2:
        raise ValueError(f"counts are tokens by [layer, expert], not of shape {load.shape}")
    return load


def _row(values: Any, layers: int) -> Any:
    row = _array(values).reshape(-1)
    if row.shape != (layers,):
        raise ValueError(f"there are {layers} layers, and values for {row.shape[0]}")
    return row


def _array(values: Any) -> Any:
    import numpy

    array = numpy.asarray(on_host(values))
    return array if array.dtype.kind in "iu" and array.ndim == 2 else array.astype("float64")
