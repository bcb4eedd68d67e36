"""Pools the routers of several ranks: counts are added up, and means over tokens are weighted by the tokens.

They are sent as doubles with the names (router, layers, experts, arrays...); the two coefficients follow at the end, as
NaN if they are unset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chiplog.metrics.moe import Router
from chiplog.metrics.ranks.statistics import Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def flat(name: str, router: Router) -> Values:
    """The arrays of a router, as doubles."""
    import numpy

    arrays = router.by_layer()
    layers, experts = arrays["counts"].shape
    coefficients = [numpy.nan if one is None else one for one in (router.aux_coefficient, router.z_coefficient)]
    doubles = [*(array.ravel() for array in arrays.values()), coefficients]
    names = (name, str(layers), str(experts), *arrays)
    return Values(names, numpy.concatenate(doubles, dtype="float64").tobytes())


def pool(routers: Sequence[Values]) -> Router:
    """One router with the tokens of all; raises ValueError if their shapes differ.

    A layer that a rank does not have is a layer without tokens.
    """
    import numpy

    shapes = dict.fromkeys((int(values.names[1]), int(values.names[2])) for values in routers)
    if len(shapes) > 1:
        words = ", ".join(f"{layers} x {experts}" for layers, experts in shapes)
        raise ValueError(f"ranks have routers of different shapes, {words}; give every layer on each, or zeros")
    ranks = [_arrays(values) for values in routers]
    tokens = numpy.stack([arrays["counts"].sum(axis=1) for arrays in ranks])  # by [rank, layer]
    weights = tokens / numpy.maximum(tokens.sum(axis=0), 1)
    counts = numpy.sum([arrays["counts"] for arrays in ranks], axis=0)
    shared = [name for name in ranks[0] if name != "counts" and all(name in arrays for arrays in ranks)]
    means = {
        name: numpy.einsum("rl,rl...->l...", weights, numpy.stack([arrays[name] for arrays in ranks]))
        for name in shared
        if name != "coefficients"
    }
    aux, z = (None if one != one else one for one in ranks[0]["coefficients"].tolist())
    whole = counts.astype("int64") if (counts == counts.round()).all() else counts
    return Router(whole, **means, aux_coefficient=aux, z_coefficient=z)


def _arrays(values: Values) -> dict[str, NDArray[np.float64]]:
    import numpy

    _, layers, experts, *fields = values.names
    shapes = {name: (int(layers), int(experts)) if name in ("counts", "probs") else (int(layers),) for name in fields}
    doubles, arrays, at = numpy.frombuffer(values.doubles), {}, 0
    for name, shape in {**shapes, "coefficients": (2,)}.items():
        size = int(numpy.prod(shape))
        arrays[name] = doubles[at : at + size].reshape(shape)
        at += size
    return arrays
