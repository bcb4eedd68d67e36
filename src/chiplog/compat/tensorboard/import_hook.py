"""Gives `from torch.utils.tensorboard import SummaryWriter`, and tensorboardX's, the stand-in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from chiplog.compat import tensorboard
from chiplog.compat.tensorboard.originals import MODULES, ORIGIN, PACKAGES


class _Finder(MetaPathFinder, Loader):
    """Makes modules of these names, whose writer is the stand-in."""

    origin = ORIGIN

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin=ORIGIN, is_package=name in PACKAGES) if name in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        writer = tensorboard.SummaryWriter
        vars(module).update(SummaryWriter=writer, FileWriter=writer)


def install() -> None:
    """From now on; a module that has been imported stays as it is."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
