"""`chiplog sync`."""

from __future__ import annotations

from tests.commands.conftest import Cli


def test_an_unknown_service_is_an_error_without_a_run(cli: Cli) -> None:
    """The name is checked before anything else, with the choices."""
    code, out, err = cli("sync", "--to", "wandbb")
    assert (code, out) == (2, "") and "no sink named 'wandbb'" in err and "wandb" in err
    assert cli("sync", "--to", "wandb")[0] == 0  # there is nothing to deliver
