"""OpenTelemetry: what arrives at an endpoint, decoded with the official messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import chiplog
from chiplog.core.errors import BadSetting, RejectedByService
from chiplog.core.identity import Identity
from chiplog.core.records import Attempt, Event, SpansRecord, Step
from chiplog.sinks import otel
from tests.support.otlp import Endpoint
from tests.support.waiting import wait_for

IDENTITY = Identity("tiny-lm", "r1", Path("runs"), "first", "launch")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_run_arrives_with_its_points_spans_and_names(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the relay: every number once, at the time it was logged; spans with their parents; who it is, and headers."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret,x=y")
    run = chiplog.init("tiny-lm", sinks="otel", alerts=False)
    with run.span("outer"):
        for step in range(30):
            with run.span("inner", tags={"role": "actor"}):
                run.log({"train/loss": step / 7}, step=step)
    run.eval({"loss": 3.0}, step=29)
    run.log({"bad": float("nan"), "big": 10**400}, step=3)
    assert run.finish()
    points = endpoint.points
    assert [value for name, _, value in points if name == "train/loss"] == [step / 7 for step in range(30)]
    assert [value for name, _, value in points if name == "chiplog.step"] == [*range(30), 3]
    assert [value for name, _, value in points if name == "eval/loss"] == [3.0]
    assert [math.isnan(value) for name, _, value in points if name == "bad"] == [True]
    assert [value for name, _, value in points if name == "big"] == [math.inf]
    stored = chiplog.read(run.dir)
    times = [record.time for record in stored.records() if isinstance(record, Step) and "train/loss" in record.metrics]
    assert [time for name, time, _ in points if name == "train/loss"] == times
    spans = endpoint.spans
    outer = [span for span in spans if span.name == "outer"]
    inner = [span for span in spans if span.name == "inner"]
    assert len(outer) == 1 and len(inner) == 30 and len({span.span_id for span in spans}) == 31
    assert {span.parent_span_id for span in inner} == {outer[0].span_id} and outer[0].parent_span_id == b""
    assert len({span.trace_id for span in spans}) == 1
    assert all(outer[0].start_time_unix_nano <= span.start_time_unix_nano for span in inner)
    assert ("role", "actor") in {(one.key, one.value.string_value) for one in inner[0].attributes}
    _, headers, body = endpoint.requests[0]
    assert headers["api-key"] == "a secret" and headers["x"] == "y"
    about = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].resource.attributes
    assert {one.key: one.value.string_value for one in about}.items() >= {
        ("service.name", "tiny-lm"),
        ("chiplog.run.id", run.id),
    }
    for file in run.dir.rglob("*"):
        assert file.is_dir() or b"a secret" not in file.read_bytes()


def test_an_endpoint_that_is_down_gets_everything_later(endpoint: Endpoint) -> None:
    """Nothing is lost and nothing comes twice while it answers 503."""
    endpoint.status = 503
    run = chiplog.init("p", sinks={"otel": {"endpoint": endpoint.url}})
    for step in range(20):
        run.log({"x": step}, step=step)
    wait_for(lambda: "503" in run.health()["sinks"]["otel"].get("last_error", ""), 60)
    endpoint.status = 200
    assert run.finish(timeout=60)
    assert [value for name, _, value in endpoint.points if name == "x"] == list(range(20))


def sink(endpoint: Endpoint, **environ: str) -> otel.Otel:
    return otel.open_sink(IDENTITY, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint.url, **environ})


def test_an_endpoint_that_asks_to_wait_is_left_alone(endpoint: Endpoint) -> None:
    """429 with Retry-After: no request before that, the same batch after it."""
    one = sink(endpoint)
    endpoint.status, endpoint.headers = 429, {"Retry-After": "2"}
    batch = [Step(0, 1, 0, {"x": 1.0})]
    with pytest.raises(ConnectionError, match="429"):
        one.write(batch)
    endpoint.status = 200
    with pytest.raises(ConnectionError, match="asked us to wait"):
        one.write(batch)
    assert endpoint.requests == []

    def accepted() -> bool:
        try:
            one.write(batch)
        except ConnectionError:
            return False
        return True

    wait_for(accepted, 20)
    assert endpoint.points == [("x", 1, 1.0), ("chiplog.step", 1, 0.0)]


@pytest.mark.parametrize(
    ("given", "wait"),
    [(None, 0), ("7", 7), ("-3", 0), ("soon", 0), ("99999", 300), ("Thu, 01 Jan 1970 00:00:50 GMT", 40)],
)
def test_a_wait_is_a_number_or_a_date(given: str | None, wait: float) -> None:
    """And has a bound."""
    assert otel.seconds(given, 10.0) == wait


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, RejectedByService), (413, RejectedByService), (401, ConnectionError), (302, ConnectionError)],
)
def test_only_a_wrong_content_is_rejected_for_good(endpoint: Endpoint, status: int, error: type[Exception]) -> None:
    """A wrong key or a redirect can be mended, and then everything must still be there."""
    endpoint.status, endpoint.headers = status, {"Location": "/elsewhere"}
    with pytest.raises(error, match=str(status)):
        sink(endpoint).write([Step(0, 1, 0, {"x": 1.0})])


def test_an_answer_that_is_no_otlp_is_no_acknowledgement(endpoint: Endpoint) -> None:
    """A login page, say."""
    endpoint.body = b"<html>please log in</html>"
    with pytest.raises(ConnectionError, match="is not OTLP"):
        sink(endpoint).write([Step(0, 1, 0, {"x": 1.0})])


def test_ids_are_the_same_whoever_sends_them(endpoint: Endpoint) -> None:
    """After a restart from the stored state too; another attempt has others."""
    spans = SpansRecord(1, 1, ["a"], ["main"], [0], [0], [5], [0], [100], [50], [None], failed=[5])
    start = Attempt(0, 1, 2, "l", 0, 1, "h", 1, 1, "process", "0")
    first = sink(endpoint)
    first.write([start, spans])
    second = sink(endpoint)
    second.restore(first.state())
    second.write([spans])
    sink(endpoint).write([spans])
    ids = [(span.trace_id, span.span_id) for span in endpoint.spans]
    assert ids[0] == ids[1] != ids[2]
    assert endpoint.spans[0].end_time_unix_nano == 150 and endpoint.spans[0].status.code == 2


def test_variables_of_a_signal_are_used_as_they_are(endpoint: Endpoint) -> None:
    """Without a path put behind them."""
    one = sink(endpoint, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{endpoint.url}/here")
    one.write([Event(0, 1, "gpu", {"id": 0, "power": 300}), Step(1, 1, 0, {"lone \ud800": 1.0})])
    assert [path for path, _, _ in endpoint.requests] == ["/here"]


@pytest.mark.parametrize("url", ["ftp://host", "http://user:hunter2@host:1", "host:4318"])
def test_a_wrong_endpoint_is_said_without_its_password(url: str) -> None:
    """It is refused when the sink is opened."""
    with pytest.raises(BadSetting) as caught:
        otel.open_sink(IDENTITY, {}, endpoint=url)
    assert "hunter2" not in str(caught.value)
