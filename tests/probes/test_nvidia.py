"""The NVIDIA probe: the real binding on a stub of its library."""

import time

import pynvml
import pytest

import chiplog
from chiplog.probes import nvidia
from chiplog.probes.nvidia import Nvidia, open_probe
from tests.probes.stubs import H100

LOST, DRIVER_GONE, UNINITIALIZED = 15, 9, 1


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(nvidia.time, "monotonic", lambda: Clock.now)
    return Clock


# (field, what the stub is set to, what the sample says), row by row of the table of GPU metrics
TABLE = [
    ("clock", 1800, "MHz"),
    ("max_clock", 2100, "MHz"),
    ("power", 350_000, "mW"),
    ("power_limit", 400_000, "mW"),
    ("temperature", 72, "°C"),
    ("temp_slowdown", 83, "°C"),
    ("gpu_util", 98, "%"),
    ("mem_util", 85, "%"),
    ("dram_free", 8 << 30, "bytes"),
    ("fan", 65, "%"),
    ("dram_total", 80 << 30, "bytes"),
    ("ecc_corrected", 3, "errors"),
    ("ecc_uncorrected", 0, "errors"),
]


@pytest.mark.parametrize(("field", "value", "unit"), TABLE)
def test_every_field_is_what_nvml_says(nvml, field, value, unit):
    """In the units of the table, as NVML has them."""
    nvml.set(0, "fan", 65)
    (sample,) = Nvidia().sample()
    assert sample["id"] == 0
    assert sample[field] == value


@pytest.mark.parametrize(("field", "grown", "rate"), [
    ("pcie_rx", 1 << 30, (1 << 30) / 2),
    ("pcie_tx", 1 << 29, (1 << 29) / 2),
    ("nvlink_rx", 1 << 20, (1 << 30) / 2),
    ("nvlink_tx", 1 << 10, (1 << 20) / 2),
])  # fmt: skip
def test_links_are_rates_of_their_counters(nvml, clock, field, grown, rate):
    """Bytes a second over the two seconds between two samples; NVLink counts in KiB. The first sample has none."""
    probe = Nvidia()
    (first,) = probe.sample()
    assert field not in first
    nvml.set(0, field, H100[field] + grown)
    clock.now += 2
    (second,) = probe.sample()
    assert second[field] == rate


def test_power_is_the_energy_by_the_time(nvml, clock):
    """800 J in two seconds are 400 W, whatever the meter shows at this moment; energy counts from the first sample."""
    probe = Nvidia()
    assert probe.sample()[0]["energy"] == 0
    nvml.set(0, "energy", H100["energy"] + 800_000)
    nvml.set(0, "power", 1)
    clock.now += 2
    (sample,) = probe.sample()
    assert (sample["power"], sample["energy"]) == (400_000, 800_000)


def test_a_counter_of_32_bits_may_begin_anew(nvml, clock):
    """What is lower than before has wrapped when it was near the end; set back, it has no rate this time."""
    probe = Nvidia()
    nvml.set(0, "pcie_rx", (1 << 32) - 100)
    probe.sample()
    nvml.set(0, "pcie_rx", 900)
    clock.now += 1
    assert probe.sample()[0]["pcie_rx"] == 1000
    nvml.set(0, "pcie_rx", 0)
    clock.now += 1
    assert "pcie_rx" not in probe.sample()[0]


@pytest.mark.parametrize(("bits", "words"), [
    (0, ""), (0x4, "power cap"), (0x80, "power cap"), (0x40, "thermal cap"), (0x20, "thermal cap"), (0x8, "thermal cap"),
    (0x1, "idle"), (0x2, "other cap"), (0x10, "other cap"), (0x4 | 0x40, "power cap"), (0x20 | 0x1, "thermal cap"),
])  # fmt: skip
def test_why_the_clocks_are_down(nvml, bits, words):
    """Power before heat before idleness before anything else; empty when they are not."""
    nvml.set(0, "reasons", bits)
    assert Nvidia().sample()[0]["throttle"] == words


def test_an_older_driver_is_asked_the_older_way(nvml):
    """Throttle reasons under their old name, a limit that is not enforced, PCIe as NVML measures it itself."""
    for name in ("reasons", "power_limit", "energy", "pcie_rx", "pcie_tx"):
        nvml.fail(0, name, 3)
    for name, value in {"old_reasons": 4, "managed_limit": 390_000, "slow_pcie_rx": 5, "slow_pcie_tx": 6}.items():
        nvml.set(0, name, value)
    (sample,) = Nvidia().sample()
    assert sample["throttle"] == "power cap"
    assert sample["power_limit"] == 390_000
    assert (sample["pcie_rx"], sample["pcie_tx"]) == (5 * 1024, 6 * 1024)
    assert sample["power"] == 350_000 and "energy" not in sample


def test_what_is_not_supported_is_absent_and_not_asked_again(nvml, clock):
    """A GPU that knows only its clock says only that; the second look makes far fewer calls."""
    nvml.reset(1, {"clock": 1500})
    probe = Nvidia()
    probe.sample()
    before = nvml.calls
    clock.now += 5
    assert probe.sample() == [{"id": 0, "clock": 1500}]
    assert nvml.calls - before == 1


ALWAYS = {"id", "clock", "power", "energy", "temperature", "gpu_util", "mem_util", "throttle"}


def test_what_moves_slowly_is_asked_once_a_second(nvml, clock):
    """Ten samples a second: one has every field, nine have those that move, with fewer questions; power from energy."""
    probe = Nvidia(interval=0.1)
    probe.sample()
    clock.now += nvidia.SLOW
    every = set(probe.sample()[0])
    assert every > ALWAYS
    for _ in range(9):
        before = nvml.calls
        clock.now += nvidia.SLOW / 10.5
        assert set(probe.sample()[0]) == ALWAYS
        assert nvml.calls - before == 6, "energy, clock, temperature, two utilizations, reasons"
    clock.now += nvidia.SLOW / 5
    assert set(probe.sample()[0]) == every


def test_a_lost_gpu_is_said_once_and_the_others_go_on(nvml, clock, capsys):
    """Lost in the middle of a run: one record, one line, the other GPU is sampled as before; looked for again later."""
    nvml.reset(2)
    probe = Nvidia()
    assert [one["id"] for one in probe.sample()] == [0, 1]
    nvml.fail(1, "*", LOST)
    clock.now += 5
    ours, lost = probe.sample()
    assert ours["clock"] == 1800
    assert lost == {"id": 1, "lost": True, "reason": "GPU is lost"}
    clock.now += 5
    assert [one["id"] for one in probe.sample()] == [0]
    assert capsys.readouterr().err.count("GPU 1 does not answer (GPU is lost)") == 1
    nvml.fail(1, "*", 0)
    clock.now += nvidia.RETRY
    assert [one["id"] for one in probe.sample()] == [0, 1]


def test_a_driver_that_goes_and_comes_back(nvml, clock):
    """All GPUs gone: NVML is closed, and opened again when it is time to look."""
    probe = Nvidia()
    probe.sample()
    nvml.fail(0, "*", DRIVER_GONE)
    clock.now += 5
    assert probe.sample()[0]["lost"]
    assert nvml.opened == 0
    clock.now += 5
    assert probe.sample() == []
    nvml.fail(0, "*", 0)
    clock.now += nvidia.RETRY
    assert probe.sample()[0]["clock"] == 1800
    assert nvml.opened == 1


def test_no_driver_raises_for_the_sampler_to_say(nvml):
    """`nvmlInit` fails: so does the sample, and the next one tries again."""
    nvml.init_fails(DRIVER_GONE)
    probe = Nvidia()
    with pytest.raises(pynvml.NVMLError):
        probe.sample()
    nvml.init_fails(0)
    assert probe.sample()[0]["clock"] == 1800


def test_a_gpu_that_is_lost_from_the_start(nvml):
    """Its handle cannot be had; the others are sampled."""
    nvml.reset(2)
    nvml.fail(0, "handle", LOST)
    lost, ours = Nvidia().sample()
    assert lost["lost"] and ours["id"] == 1


@pytest.mark.parametrize(("visible", "ids"), [
    (None, [0, 1, 2]), ("1", [1]), ("2,0", [0, 2]), ("GPU-00000001", [1]), ("MIG-abc", [0, 1, 2]), ("", []), ("-1", []),
])  # fmt: skip
def test_only_the_visible_gpus(nvml, visible, ids):
    """As CUDA is told, by number or UUID; none where all are hidden, all where only parts of GPUs are named."""
    nvml.reset(3)
    probe = open_probe({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert [one["id"] for one in probe.sample()] == ids


def test_gpus_can_be_named(nvml):
    """By NVML's index, whatever CUDA is told."""
    nvml.reset(3)
    assert [one["id"] for one in open_probe({"CUDA_VISIBLE_DEVICES": "0"}, gpus=[2]).sample()] == [2]


MODEL = [
    ("name", "NVIDIA H100 80GB HBM3"), ("sm_count", 132), ("major", 9), ("minor", 0), ("memory", 80 << 30),
    ("free", 8 << 30), ("uuid", "GPU-00000000-0000-0000-0000-000000000000"), ("ecc", True), ("cuda_driver", 12080),
    ("reserved", 512 << 20),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), MODEL)
def test_the_model_of_a_gpu(nvml, field, value):
    """What NVML knows of the table; multiprocessors from the cores."""
    ((name, data),) = Nvidia().first()
    assert name == "gpu-model" and data["id"] == 0
    assert data[field] == value


def test_the_model_of_a_gpu_that_says_little(nvml):
    """Absent, not zero."""
    nvml.reset(1, {})
    ((_, data),) = Nvidia().first()
    assert data == {"id": 0, "name": MODEL[0][1], "uuid": MODEL[6][1], "cuda_driver": 12080}


def test_a_run_samples_gpus_by_name(nvml, tmp_path):
    """`init(probes={"nvidia": …})`: the model once, then samples by GPU, on a thread of its own."""
    nvml.reset(2)
    run = chiplog.init("p", sinks="none", dir=tmp_path, probes={"nvidia": {"interval": 0.01}})
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and run.health()["journal"]["trouble"] is None:
        if "gpu/1/power_limit" in chiplog.read(run.dir).names():
            break
        time.sleep(0.01)
    run.finish()
    stored = chiplog.read(run.dir)
    assert [record.data["id"] for record in stored.records(kind="event") if record.name == "gpu-model"] == [0, 1]
    assert set(stored.series("gpu/1/clock").values.tolist()) == {1800}
    assert nvml.opened == 0, "closed with the run"


def test_no_driver_costs_a_run_nothing(nvml, tmp_path, capsys):
    """One line on stderr; the run is as it would be without."""
    nvml.init_fails(DRIVER_GONE)
    with chiplog.init("p", sinks="none", dir=tmp_path, probes="nvidia") as run:
        run.log({"loss": 1.0})
        deadline = time.monotonic() + 10
        said = ""
        while "probe 'gpu' failed" not in said and time.monotonic() < deadline:
            said += capsys.readouterr().err
            time.sleep(0.01)
    assert said.count("probe 'gpu' failed and will be retried: NVMLError_DriverNotLoaded") == 1
    assert chiplog.read(run.dir).series("loss").values.tolist() == [1.0]


@pytest.mark.parametrize("interval", [0, -1, float("nan")])
def test_an_interval_is_positive(interval):
    """A mistake at the door."""
    with pytest.raises(chiplog.ChiplogError, match="interval is seconds"):
        chiplog.init("p", sinks="none", probes={"nvidia": {"interval": interval}})
