"""Router health."""

import math

import numpy
import pytest

import chiplog
from chiplog.core import records
from chiplog.metrics import moe
from chiplog.metrics.moe import HEALTHY, Router, health, verdict


@pytest.mark.parametrize(
    ("counts", "imbalance", "utilization", "cv", "most"),
    [([4, 4, 4, 4], 1.0, 1.0, 0.0, 0.25), ([16, 0, 0, 0], 4.0, 0.25, math.sqrt(3), 1.0)],
)
def test_the_golden_loads(counts, imbalance, utilization, cv, most):
    """Even and fully collapsed routing of four experts."""
    found = health(counts)
    assert found["load_imbalance"] == imbalance
    assert found["expert_utilization"] == utilization
    assert found["load_cv"] == pytest.approx(cv)
    assert found["max_expert_fraction"] == most
    assert found["min_active_expert_fraction"] == most
    assert found["active_experts"] == 4 * utilization
    assert found["dead_experts"] == 4 - 4 * utilization


def test_means_over_layers_and_sums_of_losses():
    """Aux and z-loss add up over the layers; the rest is their mean."""
    counts = [[4, 4, 4, 4], [16, 0, 0, 0]]
    probs = [[0.25] * 4, [0.7, 0.1, 0.1, 0.1]]
    found = health(counts, probs, z=[0.5, 1.5], aux_coefficient=0.01, z_coefficient=0.001)
    assert found["aux_loss"] == pytest.approx(0.01 * (4 * 0.25 + 4 * 0.7))
    assert found["z_loss"] == pytest.approx(0.002)
    assert found["load_imbalance"] == 2.5
    assert found["expert_utilization"] == 0.625
    assert found["dead_experts"] == 3


def test_entropy_and_confidence_of_all_tokens():
    """From the probabilities of every token: entropy as a share of the largest possible, confidence their mean top."""
    probs = numpy.array([[[0.25] * 4, [1.0, 0, 0, 0]]])
    found = health([[2, 2, 2, 2]], probs)
    assert found["router_entropy"] == pytest.approx(0.5)
    assert found["router_confidence"] == pytest.approx(0.625)
    assert found["aux_loss"] == pytest.approx(0.01)
    assert health([2, 2, 2, 2], probs[0]) == found


def test_a_mean_has_no_entropy_of_tokens():
    """What cannot be known is absent, never a number that looks like it."""
    found = health([4, 4, 4, 4], [0.25] * 4)
    assert "router_entropy" not in found and "router_confidence" not in found and "z_loss" not in found


def test_layers_without_tokens_do_not_count():
    """A layer that routed nothing is left out of the means, and its experts are dead; no tokens at all say nothing."""
    found = health([[4, 4], [0, 0]], [[0.5, 0.5], [0.5, 0.5]])
    assert found["load_imbalance"] == 1.0 and found["expert_utilization"] == 1.0
    assert found["aux_loss"] == pytest.approx(0.01)
    assert found["dead_experts"] == 2
    assert health([[0, 0]]) == {}


def test_arrays_that_do_not_fit_are_named():
    """The shapes are in the message."""
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(1, 4\)"):
        health([1, 2, 3, 4], [0.1, 0.2, 0.7])
    with pytest.raises(ValueError, match=r"2 layers.*3"):
        health([[1, 2], [3, 4]], z=[1, 2, 3])


TABLE = [
    ("aux_loss", 0.001, 0.1, 1.01, "severe load imbalance"),
    ("z_loss", 0.0001, 0.01, 0.11, "routing may collapse"),
    ("expert_utilization", 0.8, 1.0, 0.49, "many experts are unused"),
    ("load_imbalance", 1.0, 2.0, 3.01, "poor load distribution"),
]


@pytest.mark.parametrize(("name", "low", "high", "bad", "means"), TABLE)
def test_the_table_of_healthy_ranges(name, low, high, bad, means):
    """Both ends of the range are healthy, beyond the limit is a warning, in between is worth a look."""
    assert verdict(name, low) == verdict(name, high) == "healthy"
    assert verdict(name, bad) == "warning" == verdict(name, math.nan)
    limit = HEALTHY[name].warn_above or HEALTHY[name].warn_below
    assert verdict(name, limit) == "watch"
    assert HEALTHY[name].means == means


@pytest.mark.parametrize(("layers", "experts"), [(1, 2), (3, 8), (24, 8), (48, 128)])
def test_a_balanced_router_is_healthy(layers, experts):
    """In everything that the table judges, however large the model is."""
    even = numpy.full((layers, experts), 1 / experts)
    found = Router(64 * even, even, z=[math.log(experts) ** 2] * layers).health()
    assert {name: verdict(name, found[name]) for name in HEALTHY} == dict.fromkeys(HEALTHY, "healthy")


def test_a_collapsed_router_of_many_experts_is_not():
    """One expert of 128 has everything, and the logits are ten times as large."""
    counts, probs = numpy.zeros((48, 128)), numpy.zeros((48, 128))
    counts[:, 0], probs[:, 0] = 64, 1.0
    found = Router(counts, probs, z=[(10.01 * math.log(128)) ** 2] * 48).health()
    assert {name: verdict(name, found[name]) for name in HEALTHY} == dict.fromkeys(HEALTHY, "warning")


def test_what_is_worth_an_alert():
    """The best practices: utilisation above 0.7, imbalance below 2.5."""
    assert (moe.LEAST_UTILIZATION, moe.MOST_IMBALANCE) == (0.7, 2.5)


def test_a_router_is_one_event_and_one_matrix(tmp_path):
    """`run.log({"moe": Router(...)})`: a few scalars and a [layer, expert] matrix, and no key per expert."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    run.log({"loss": 2.5, "moe": Router([[4, 4], [8, 0]], [[0.5, 0.5], [0.9, 0.1]])}, step=7)
    run.finish()
    stored = chiplog.read(run.dir)
    (matrix,) = stored.records(kind="matrix")
    assert (matrix.name, matrix.values, matrix.step) == ("moe/load", [[4, 4], [8, 0]], 7)
    assert stored.series("moe/load_imbalance").values.tolist() == [1.5]
    assert stored.series("moe/dead_experts").values.tolist() == [1]
    assert stored.series("loss").values.tolist() == [2.5]
    assert len(stored.names()) < 12


def test_a_router_that_does_not_fit_costs_nothing_else(tmp_path, capsys):
    """The row is kept, the mistake is said once."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    for _ in range(2):
        assert run.log({"loss": 2.5, "moe": Router([1, 2], [[1.0]])}) == {"loss": 2.5}
    run.finish()
    assert capsys.readouterr().err.count("probabilities have the shape") == 1
    assert [record.name for record in chiplog.read(run.dir).records(kind="text")] == ["moe", "moe"]


def test_rules_see_what_a_router_says(tmp_path):
    """An event of a router is one for the rules, as any other."""
    said = []
    run = chiplog.init("p", sinks="none", dir=tmp_path, alerts="all")
    run.on_alert(said.append)
    for step in range(20):
        run.log({"moe": Router([16, 0, 0, 0])}, step=step)
    run.finish()
    assert {alert.rule for alert in said} >= {"router", "imbalance"}


def test_counts_are_json_integers():
    """A matrix of whole tokens stays whole."""
    (_, _), (kind, fields) = Router(numpy.array([[3, 1]])).records("moe")
    assert kind is records.MatrixRecord and fields["values"] == [[3, 1]]
    assert type(fields["values"][0][0]) is int
