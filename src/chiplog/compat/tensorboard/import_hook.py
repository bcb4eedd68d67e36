"""Gives `from torch.utils.tensorboard import SummaryWriter`, and tensorboardX's, the stand-in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = ("torch.utils.tensorboard", "tensorboardX")
_NAMES = (*PACKAGES, *(f"{package}.writer" for package in PACKAGES))


class _Finder(MetaPathFinder, Loader):
    """Makes modules of these names, whose writer is the stand-in."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin="chiplog", is_package=name in PACKAGES) if name in _NAMES else None

    def exec_module(self, module: ModuleType) -> None:
        from chiplog.compat.tensorboard.writer import SummaryWriter

        vars(module).update(SummaryWriter=SummaryWriter, FileWriter=SummaryWriter)


def install() -> None:
    """From now on; a module that has been imported stays as it is."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def original(package: str) -> Any:
    """The real module, whether or not the stand-in is in its place."""
    finders, before = list(sys.meta_path), {name: sys.modules[name] for name in _NAMES if name in sys.modules}
    ours = [name for name, module in before.items() if getattr(module.__spec__, "origin", "") == "chiplog"]
    sys.meta_path[:] = [one for one in finders if not isinstance(one, _Finder)]
    for name in ours:
        del sys.modules[name]
    try:
        return import_module(package)
    finally:
        sys.meta_path[:] = finders
        sys.modules.update({name: before[name] for name in ours})
