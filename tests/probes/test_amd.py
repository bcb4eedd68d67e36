"""The AMD probe: the real binding on a stub of its library."""

import subprocess
import sys

import pytest

from chiplog.probes import amd as module
from chiplog.probes.amd import Amd

MI300X = {
    "clk": 2100, "max_clk": 2100, "gfx": 97, "umc": 60, "power": 700, "limit": 750, "vram_total": 196_592,
    "vram_used": 100_000, "temperature": 65, "critical": 100, "energy": 1_000_000, "ecc": 2, "units": 304,
}  # fmt: skip


@pytest.fixture
def full(amd):
    for name, value in MI300X.items():
        amd.set(name, value)
    return amd


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(module.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.mark.parametrize(("field", "value"), [
    ("clock", 2100), ("max_clock", 2100), ("gpu_util", 97), ("mem_util", 60), ("power", 700_000),
    ("power_limit", 750_000), ("temperature", 65), ("temp_slowdown", 100), ("dram_total", 196_592 << 20),
    ("dram_free", 96_592 << 20), ("ecc_corrected", 2), ("ecc_uncorrected", 0), ("energy", 0),
])  # fmt: skip
def test_every_field_in_the_units_of_the_table(full, field, value):
    """MHz, percent, mW, °C and bytes, as for NVIDIA's."""
    first, second = Amd().sample()
    assert (first["id"], second["id"]) == (0, 1)
    assert first[field] == value


def test_power_is_the_energy_by_the_time(full, clock):
    """The accumulator counts in 15.3 µJ."""
    probe = Amd(gpus=[1])
    probe.sample()
    full.set("energy", 1_000_000 + 100_000_000)
    clock.now += 2
    (sample,) = probe.sample()
    assert sample["power"] == pytest.approx(100_000_000 * 15.3 / 1e3 / 2, rel=1e-4)
    assert sample["energy"] == pytest.approx(1_530_000, rel=1e-4)


HELD = ("ppt", "socket_thm", "vr_thm", "hbm_thm", "prochot")


@pytest.mark.parametrize(("grown", "words"), [
    ((), ""), (("ppt",), "power cap"), (("socket_thm",), "thermal cap"), (("vr_thm",), "thermal cap"),
    (("hbm_thm",), "thermal cap"), (("prochot",), "thermal cap"), (("prochot", "ppt"), "power cap"),
])  # fmt: skip
def test_why_the_clocks_were_down_since_the_last_look(full, clock, grown, words):
    """From how long each limit held; power before heat. The first look has nothing to compare with, and does not say."""
    for name in ("metrics", *HELD):
        full.set(name, 7)
    probe = Amd(gpus=[0])
    assert "throttle" not in probe.sample()[0]
    for name in grown:
        full.set(name, 8)
    clock.now += 2
    assert probe.sample()[0]["throttle"] == words


@pytest.mark.parametrize("field", ["indep_throttle_status", "throttle_status"])
@pytest.mark.parametrize(("bits", "words"), [(0, ""), (1 << 20, "other cap")])
def test_an_older_card_says_only_that_it_is_throttled(full, field, bits, words):
    """Its reasons are bits, of which the binding says whether there are any."""
    full.set("metrics", 1)
    full.set(field, bits)
    assert Amd().sample()[0]["throttle"] == words


def test_links_are_rates_of_their_counters(full, clock):
    """Over all links, of which two are there; PCIe as AMD says it, in megabits."""
    for name, value in {"metrics": 1, "xgmi_read": 1000, "xgmi_write": 500, "pcie": 80}.items():
        full.set(name, value)
    probe = Amd(gpus=[1])
    (first,) = probe.sample()
    assert first["pcie"] == 10_000_000 and "xgmi_rx" not in first
    full.set("xgmi_read", 1000 + 4096)
    full.set("xgmi_write", 500 + 1024)
    clock.now += 2
    (second,) = probe.sample()
    assert (second["xgmi_rx"], second["xgmi_tx"]) == (2 * 4096 * 1024 / 2, 2 * 1024 * 1024 / 2)


def test_throttling_and_links_are_asked_once_a_second(full, clock):
    """The other samples do not say them."""
    for name, value in {"metrics": 1, "throttle_status": 0, "pcie": 80}.items():
        full.set(name, value)
    probe = Amd(0.1, gpus=[0])
    said = []
    for _ in range(12):
        said.append({"throttle", "pcie"} <= probe.sample()[0].keys())
        clock.now += 0.1
    assert said.count(True) == 2 and said[0]


def test_a_limit_in_microwatts_is_one_too(full):
    """Some releases hand on what the kernel says."""
    full.set("limit", 750_000_000)
    assert Amd().sample()[0]["power_limit"] == 750_000


def test_what_is_not_supported_is_absent(amd, capsys):
    """Whether AMD raises, says N/A or says zero; a card that says nothing is left out, and that is said."""
    amd.set("gfx", 50)
    assert Amd().sample() == [{"id": 0, "gpu_util": 50}, {"id": 1, "gpu_util": 50}]
    amd.reset()
    assert Amd().sample() == []
    assert "GPU 0 does not answer" in capsys.readouterr().err


def test_the_model(full):
    """Once a card."""
    (name, first), (_, second) = Amd().first()
    assert name == "gpu-model"
    assert first == {
        "id": 0, "name": "AMD Instinct MI300X", "sm_count": 304, "memory": 196_592 << 20, "free": 96_592 << 20,
        "uuid": "ff0", "architecture": "gfx942",
    }  # fmt: skip
    assert second["uuid"] == "ff1"


def test_a_fan_is_percent_of_its_fastest(full):
    """AMD counts to 255."""
    full.set("fan", 128)
    assert Amd().sample()[0]["fan"] == 50


def test_without_the_library_nothing_is_printed(tmp_path):
    """AMD's package would print and fail with a KeyError; the probe fails with the reason, and prints nothing."""
    code = (
        "from chiplog.probes.amd import open_probe\n"
        "try: open_probe({'ROCM_PATH': '/no/rocm'}).sample()\n"
        "except OSError as error: assert 'libamd_smi.so cannot be loaded' in str(error), error\n"
        "else: raise SystemExit('it should have failed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
