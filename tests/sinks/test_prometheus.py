"""Prometheus: a real one scrapes a run and answers queries; a real Pushgateway takes what is pushed."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.identity import Identity
from chiplog.core.records import Finish, Step
from chiplog.sinks import prometheus
from tests.support.ports import free_port
from tests.support.prometheus_server import get, server
from tests.support.waiting import wait_for

IDENTITY = Identity("p", "r1", Path("runs"), "first", "launch")


@pytest.fixture(autouse=True)
def straight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@contextmanager
def scraper(folder: Path, scraped: int) -> Iterator[str]:
    """A Prometheus that asks one port every second."""
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: chiplog, static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]}}]\n"
    )
    port = free_port()
    words = ("--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}")
    with server(folder, "prometheus", port, *words) as url:
        yield url


def ask(url: str, query: str) -> dict[str, float]:
    """What Prometheus knows, by the label `name`."""
    answer = get(f"{url}/api/v1/query?query={urllib.parse.quote(query)}")
    found: list[Any] = json.loads(answer)["data"]["result"] if answer else []
    return {one["metric"].get("name", one["metric"]["__name__"]): float(one["value"][1]) for one in found}


def test_a_real_prometheus_scrapes_a_run(tmp_path: Path) -> None:
    """The latest value of every series under its own name, while the run goes on; nothing listens after its end."""
    scraped = free_port()
    with scraper(tmp_path, scraped) as url:
        run = chiplog.init("tiny-lm", sinks={"prometheus": {"port": scraped}}, dir=tmp_path / "runs", id="r1")
        for step in range(20):
            run.log({"train/loss": 2.5 - step / 100, "ünïcode \n": 1}, step=step)
        run.event("gpu", id=0, dram_free=3 << 20)
        run.log({"bad": float("nan")}, step=20)
        query = 'chiplog_metric{project="tiny-lm",run="r1"}'
        wait_for(lambda: len(ask(url, query)) >= 4, 60, "a scrape")
        values = ask(url, query)
        assert values["train/loss"] == 2.5 - 19 / 100 and values["ünïcode \n"] == 1 and values["gpu/0/dram_free"] == 3
        assert math.isnan(values["bad"])
        assert ask(url, "chiplog_step") == {"chiplog_step": 20} and ask(url, "chiplog_running") == {
            "chiplog_running": 1
        }
        run.log({"train/loss": 9.0}, step=21)
        wait_for(lambda: ask(url, query).get("train/loss") == 9.0, 60, "the next scrape")
        assert run.finish(timeout=60)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", scraped), timeout=1)


def test_a_real_prometheus_sees_the_end(tmp_path: Path) -> None:
    """With `linger`, the last values and that the run has ended; the end waits for that scrape, and no longer."""
    scraped = free_port()
    with scraper(tmp_path, scraped) as url:
        options = {"port": scraped, "linger": 300}
        run = chiplog.init("tiny-lm", sinks={"prometheus": options}, dir=tmp_path / "runs", id="r1")
        run.log({"train/loss": 0.25}, step=7)
        assert run.finish(timeout=60)
        last = "last_over_time(%s[5m])"  # what has gone is not a current value
        wait_for(lambda: ask(url, last % "chiplog_running") == {"chiplog_running": 0}, 30, "the end")
        assert ask(url, last % "chiplog_metric")["train/loss"] == 0.25


def test_a_real_pushgateway_has_the_last_values(tmp_path: Path) -> None:
    """They stay there after the run, with the label that it has ended."""
    port = free_port()
    with server(tmp_path, "prometheus-pushgateway", port, f"--web.listen-address=127.0.0.1:{port}") as url:
        run = chiplog.init("tiny-lm", sinks={"prometheus": {"push": url}}, dir=tmp_path / "runs", id="r1")
        for step in range(20):
            run.log({"train/loss": float(step)}, step=step)
        assert run.finish(timeout=60)
        lines = (get(f"{url}/metrics") or "").splitlines()
        mine = [line for line in lines if line.startswith("chiplog_")]
        assert any('name="train/loss"' in line and 'run="r1"' in line and line.endswith(" 19") for line in mine), mine
        assert any(line.startswith("chiplog_running") and line.endswith(" 0") for line in mine)


def test_a_killed_run_does_not_run_for_ever_at_a_gateway(tmp_path: Path) -> None:
    """Nobody has said that it has ended; its relay sees it."""
    port = free_port()
    with server(tmp_path, "prometheus-pushgateway", port, f"--web.listen-address=127.0.0.1:{port}") as url:
        code = (
            "import chiplog, os, signal\n"
            f"run = chiplog.init('p', sinks={{'prometheus': {{'push': {url!r}}}}}, dir='runs', id='r1')\n"
            "run.log({'x': 1.5}, step=0)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, timeout=60)

        def ended() -> bool:
            lines = (get(f"{url}/metrics") or "").splitlines()
            return any(line.startswith("chiplog_running{") and line.endswith(" 0") for line in lines)

        wait_for(ended, 60, "the end at the gateway")
        assert 'name="x"' in (get(f"{url}/metrics") or "")


def test_a_gateway_that_is_down_is_tried_again() -> None:
    """The batch is not taken for delivered."""
    sink = prometheus.open_sink(IDENTITY, {}, push=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(OSError):
        sink.write([Step(0, 1, 0, {"x": 1.0})])


def test_a_relay_that_starts_again_has_the_values_at_once() -> None:
    """From the stored state, with what is not finite too; a port that is taken is an error, and retried."""
    first = prometheus.open_sink(IDENTITY, {}, port=0)
    first.write([Step(0, 1, 7, {"x": 1.5, "nan": float("nan"), "big": 10**400, "lone \ud800": 2})])
    assert first.address is not None
    page = get(f"http://127.0.0.1:{first.address[1]}/metrics") or ""
    taken = prometheus.open_sink(IDENTITY, {}, port=first.address[1])
    with pytest.raises(OSError):
        taken.write([])
    state = json.loads(json.dumps(first.state(), allow_nan=False))
    first.close()
    second = prometheus.open_sink(IDENTITY, {}, port=0)
    second.restore(state)
    second.write([])
    assert second.address is not None
    assert page == get(f"http://127.0.0.1:{second.address[1]}/metrics")
    assert 'name="big"' in page and "+Inf" in page and "NaN" in page
    second.write([Finish(1, 1, "finished")])
    assert 'chiplog_running{project="p",run="r1",run_name="first"} 0.0' in (
        get(f"http://127.0.0.1:{second.address[1]}/metrics") or ""
    )
    second.close()
