"""The packages whose writer the stand-in replaces."""

from __future__ import annotations

import sys

import pytest

from chiplog.compat.tensorboard import SummaryWriter, import_hook
from chiplog.compat.tensorboard.originals import MODULES, original

pytest.importorskip("torch.utils.tensorboard")


def test_the_real_writer_is_at_hand_while_the_stand_in_is_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the stand-in stays where it was."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import_hook.install()
    finders = list(sys.meta_path)
    from torch.utils.tensorboard import SummaryWriter as replaced

    assert replaced is SummaryWriter
    real = original("torch.utils.tensorboard")
    assert real.SummaryWriter is not SummaryWriter and hasattr(real.SummaryWriter, "add_scalar")
    assert sys.meta_path == finders and sys.modules["torch.utils.tensorboard"].SummaryWriter is SummaryWriter


def test_a_package_that_is_not_installed_leaves_everything_as_it_was() -> None:
    """The error is Python's own."""
    before = list(sys.meta_path)
    with pytest.raises(ImportError):
        original("no_such_package_of_tensorboard")
    assert sys.meta_path == before
