"""The probes by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.core.protocols import Probe

# Each is a module here with a function `open_probe(environ, **options)`, and the module it needs.
PROBES = {"nvidia": "pynvml", "amd": "amdsmi", "cpu": "psutil"}
_DEVICES = {"nvidia": "/dev/nvidiactl", "amd": "/dev/kfd", "cpu": "/"}  # where each device is, if there is one


def present() -> list[str]:
    """The probes whose package is installed and whose device this machine has."""
    return [name for name, module in PROBES.items() if Path(_DEVICES[name]).exists() and find_spec(module) is not None]


def open_named(name: str, options: Mapping[str, object], environ: Mapping[str, str]) -> Probe:
    """Open a probe by name; fails for an unknown name, a missing package and an unknown option.

    A missing device or driver is not an error here: the sampler reports it, and tries again.
    """
    if name not in PROBES:
        raise BadSetting(f"no probe named {name!r}; available: {', '.join(PROBES)}")
    if find_spec(PROBES[name]) is None:
        raise MissingPackage(f"the {name!r} probe needs the {PROBES[name]!r} module: pip install 'chiplog[{name}]'")
    opener = import_module(f"chiplog.probes.{name}").open_probe
    names = list(inspect.signature(opener).parameters)[1:]
    for option in options:
        if option not in names:
            raise BadSetting(f"the {name!r} probe has no option {option!r}; available: {', '.join(names)}")
    try:
        probe: Probe = opener(environ, **options)
    except (TypeError, ValueError) as error:
        raise BadSetting(f"the {name!r} probe does not accept {dict(options)!r}: {error}") from None
    return probe
