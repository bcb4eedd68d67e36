"""Routers of several ranks, pooled: counts are added up, and what is a mean over tokens is weighted by the tokens.

On their way they are doubles under names: (router, layers, experts, arrays...), and the two coefficients at the end,
NaN for those that were not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chiplog.metrics.moe import Router
from chiplog.metrics.ranks.statistics import Values


def flat(name: str, router: Router) -> Values:
    """What a router did, as doubles."""
    import numpy

    arrays = router.by_layer()
    layers, experts = arrays["counts"].shape
    given = [numpy.nan if one is None else one for one in (router.aux_coefficient, router.z_coefficient)]
    doubles = [*(array.ravel() for array in arrays.values()), given]
    names = (name, str(layers), str(experts), *arrays)
    return Values(names, numpy.concatenate(doubles, dtype="float64").tobytes())


def pool(said: Sequence[Values]) -> Router:
    """One router that has seen the tokens of all; raises ValueError where they are not of one shape.

    A layer that a rank does not have is one without tokens there.
    """
    import numpy

    shapes = dict.fromkeys((int(values.names[1]), int(values.names[2])) for values in said)
    if len(shapes) > 1:
        words = ", ".join(f"{layers} x {experts}" for layers, experts in shapes)
        raise ValueError(f"ranks have routers of different shapes, {words}; give every layer on each, or zeros")
    ranks = [_arrays(values) for values in said]
    tokens = numpy.stack([arrays["counts"].sum(axis=1) for arrays in ranks])  # by [rank, layer]
    weights = tokens / numpy.maximum(tokens.sum(axis=0), 1)
    counts = sum(arrays["counts"] for arrays in ranks)
    shared = [name for name in ranks[0] if name != "counts" and all(name in arrays for arrays in ranks)]
    means = {
        name: numpy.einsum("rl,rl...->l...", weights, numpy.stack([arrays[name] for arrays in ranks]))
        for name in shared
        if name != "coefficients"
    }
    aux, z = (None if one != one else one for one in ranks[0]["coefficients"].tolist())
    whole = counts.astype("int64") if (counts == counts.round()).all() else counts
    return Router(whole, **means, aux_coefficient=aux, z_coefficient=z)


def _arrays(values: Values) -> dict[str, Any]:
    import numpy

    _, layers, experts, *fields = values.names
    shapes = {name: (int(layers), int(experts)) if name in ("counts", "probs") else (int(layers),) for name in fields}
    doubles, found, at = numpy.frombuffer(values.doubles), {}, 0
    for name, shape in {**shapes, "coefficients": (2,)}.items():
        size = int(numpy.prod(shape))
        found[name] = doubles[at : at + size].reshape(shape)
        at += size
    return found
