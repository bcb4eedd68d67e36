"""Router health of a mixture of experts, from the tokens of each expert and the confidence of the router.

Per layer, with c the tokens by expert, T their sum, E the number of experts, P the mean router probability by expert:

    aux loss      = coefficient * E * sum(c / T * P)            summed over layers
    z-loss        = coefficient * mean(logsumexp(logits)²)      summed over layers; both coefficients are yours, or
                    chosen so that even routing of undecided tokens gives BALANCED_AUX and BALANCED_Z
    utilisation   = experts with tokens / E                     the mean over layers, like all below
    imbalance     = max(c) / mean(c)
    load cv       = std(c) / mean(c)
    max fraction  = max(c) / T,   min active fraction = the least c > 0 / T
    entropy       = mean over tokens of H(p) / ln(E)
    confidence    = mean over tokens of max(p)

A layer without tokens is left out of the means. Numbers that need missing arrays (probabilities, logits) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from chiplog.core import records
from chiplog.core.records import Plain
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.media import Media

Array: TypeAlias = Any  # of numpy, torch or JAX, or nested lists


class Range(NamedTuple):
    """The healthy range of a router metric, and the thresholds of a warning."""

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
# The losses of even routing without coefficients. With fixed ones they would depend on the number of layers and
# experts, and would have no healthy range (docs/decisions/0030-coefficients-of-a-router.md).
BALANCED_AUX, BALANCED_Z = 0.01, 0.001
LEAST_UTILIZATION = 0.7  # an alert comes before the warning of the table
MOST_IMBALANCE = 2.5

INLINE = ("aux_loss", "z_loss", "load_imbalance")  # those in the record of a step
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
    """`healthy`, `watch` or `warning` by the table above, with `watch` in between."""
    range_ = HEALTHY[name]
    if range_.warn_above is not None and not value <= range_.warn_above:  # NaN is a warning too
        return "warning"
    if range_.warn_below is not None and not value >= range_.warn_below:
        return "warning"
    return "healthy" if range_.low <= value <= range_.high else "watch"


class Router(Media):
    """The routing of a step: `run.log({"moe": Router(counts, probs)}, step=step)`.

    `counts` are tokens by [layer, expert], or a plain row for one layer. `probs` are the router's probabilities: their
    mean by [layer, expert], or those of all tokens by [layer, token, expert], which also give entropy and confidence.
    `entropy` (in nats), `confidence` and `z` (mean of logsumexp²) are by layer, if they are known. `aux_coefficient`
    and `z_coefficient` are those you train with; without them, even routing gives 0.01 and 0.001. Becomes one event
    with a few scalars and one matrix `<name>/load`.
    """

    __slots__ = ("arrays", "aux_coefficient", "z_coefficient")
    kind = records.MatrixRecord

    def __init__(
        self,
        counts: Array,
        probs: Array = None,
        *,
        entropy: Array = None,
        confidence: Array = None,
        z: Array = None,
        aux_coefficient: float | None = None,
        z_coefficient: float | None = None,
    ) -> None:
        arrays = {"counts": counts, "probs": probs, "entropy": entropy, "confidence": confidence, "z": z}
        self.arrays = {name: array for name, array in arrays.items() if array is not None}
        self.aux_coefficient, self.z_coefficient = aux_coefficient, z_coefficient

    def health(self) -> dict[str, int | float]:
        """The scalars; raises ValueError if the shapes of the arrays do not match."""
        return health(**self.arrays, aux_coefficient=self.aux_coefficient, z_coefficient=self.z_coefficient)

    def by_layer(self) -> dict[str, Array]:
        """The data as numpy arrays: counts and probabilities by [layer, expert], all others by layer."""
        arrays = dict(self.arrays)
        counts = _matrix(arrays.pop("counts"))
        if "probs" in arrays:
            means = _means(arrays["probs"], arrays.get("entropy"), arrays.get("confidence"), counts.shape)
            arrays |= zip(("probs", "entropy", "confidence"), means, strict=True)
        rows = {
            name: _row(array, len(counts)) for name, array in arrays.items() if name != "probs" and array is not None
        }
        return {"counts": counts, **({"probs": arrays["probs"]} if "probs" in arrays else {}), **rows}

    def fields(self) -> dict[str, Plain]:
        return {"values": _matrix(self.arrays["counts"]).tolist()}

    def records(self, name: str) -> Iterator[tuple[type[records.Record], dict[str, Plain]]]:
        yield records.Event, {"name": name, "data": self.health()}
        yield records.MatrixRecord, {"name": f"{name}/load", **self.fields()}


def health(
    counts: Array,
    probs: Array = None,
    *,
    entropy: Array = None,
    confidence: Array = None,
    z: Array = None,
    aux_coefficient: float | None = None,
    z_coefficient: float | None = None,
) -> dict[str, int | float]:
    """All numbers of router health that these arrays determine; see `Router`."""
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
    scalars: dict[str, float] = {}
    if probs is not None:
        mean_probs, entropy, confidence = _means(probs, entropy, confidence, load.shape)
        chosen = numpy.einsum("le,le->l", busy, mean_probs[routed])  # E * sum(c * P) / T is this by the mean load
        scale = BALANCED_AUX / len(busy) if aux_coefficient is None else aux_coefficient
        scalars["aux_loss"] = scale * (chosen / means).sum()
    if z is not None:
        scale = BALANCED_Z / len(busy) / numpy.log(max(experts, 2)) ** 2 if z_coefficient is None else z_coefficient
        scalars["z_loss"] = scale * _row(z, layers).sum()
    away = busy - means[:, None]
    scalars |= {
        "expert_utilization": used[routed].mean() / experts,
        "load_imbalance": (most / means).mean(),
        "active_experts": used[routed].mean(),
        "max_expert_fraction": (most / totals).mean(),
        "min_active_expert_fraction": (least / totals).mean(),
        "load_cv": (numpy.sqrt(numpy.einsum("le,le->l", away, away) / experts) / means).mean(),
    }
    if entropy is not None:
        scalars["router_entropy"] = (_row(entropy, layers)[routed] / numpy.log(experts)).mean() if experts > 1 else 0.0
    if confidence is not None:
        scalars["router_confidence"] = _row(confidence, layers)[routed].mean()
    return {name: float(value) for name, value in scalars.items()} | {"dead_experts": int(load.size - used.sum())}


def _means(probs: Array, entropy: Array, confidence: Array, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Mean probabilities by [layer, expert]; entropy and confidence too, if there are those of all tokens."""
    import numpy

    means = _array(probs)
    if means.ndim == len(shape) - 1 or (means.ndim == 2 and shape[0] == 1 and means.shape[0] != 1):
        means = means[None]  # one layer
    if means.ndim == 3:
        if confidence is None:
            confidence = means.max(axis=2).mean(axis=1)
        if entropy is None:
            logs = numpy.log(means, out=numpy.zeros_like(means), where=means > 0)
            entropy = -(means * logs).sum(axis=2).mean(axis=1)
        means = means.mean(axis=1)
    if means.shape != shape:
        raise ValueError(
            f"the router's probabilities have the shape {means.shape}, and the counts {shape}: give the mean by "
            "[layer, expert], or all of them by [layer, token, expert]"
        )
    return means, entropy, confidence


def _matrix(counts: Array) -> Array:
    load = _array(counts)
    if load.ndim == 1:
        load = load[None]
    if load.ndim != 2:
        raise ValueError(f"counts must be tokens by [layer, expert], not of shape {load.shape}")
    return load


def _row(values: Array, layers: int) -> Array:
    row = _array(values).reshape(-1)
    if row.shape != (layers,):
        raise ValueError(f"there are {layers} layers, but values for {row.shape[0]}")
    return row


def _array(values: Array) -> Array:
    import numpy

    array = numpy.asarray(on_host(values))
    return array if array.dtype.kind in "iu" and array.ndim == 2 else array.astype("float64")
