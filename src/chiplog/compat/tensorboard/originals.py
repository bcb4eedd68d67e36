"""The packages whose writer the stand-in replaces, and how to get at the real ones."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

PACKAGES = ("torch.utils.tensorboard", "tensorboardX")
MODULES = (*PACKAGES, *(f"{package}.writer" for package in PACKAGES))
ORIGIN = "chiplog"  # of modules that are not the real ones


def original(package: str) -> Any:
    """The real module, whether or not the stand-in is in its place."""
    finders, before = list(sys.meta_path), {name: sys.modules[name] for name in MODULES if name in sys.modules}
    ours = [name for name, module in before.items() if getattr(module.__spec__, "origin", "") == ORIGIN]
    sys.meta_path[:] = [one for one in finders if getattr(one, "origin", "") != ORIGIN]
    for name in ours:
        del sys.modules[name]
    try:
        return import_module(package)
    finally:
        sys.meta_path[:] = finders
        sys.modules.update({name: before[name] for name in ours})
