"""The names of Tunix's metrics."""

from __future__ import annotations

from chiplog.frontends.tunix.metric_names import other_names


def test_documented_and_emitted_names_know_each_other() -> None:
    """Whoever asks by one name finds what was logged by the other."""
    assert other_names("score/mean") == ("rewards/score/mean",)
    assert other_names("advantages/old_values/max") == ("values/max",)
    assert other_names("loss") == ()
