"""Layouts."""

from chiplog.sinks import layouts
from chiplog.sinks.layouts import DEFAULT, Column, Line, amount, duration, milliseconds, number


def test_forms_have_a_steady_width():
    """Numbers, amounts and times keep their width from the smallest to the largest usual value."""
    assert [number(value) for value in (0.001, 2.3456, 99.5, 1e5, 1e-9)] == [
        "0.0010", "2.3456", "99.5000", "1.0e+05", "1.0e-09",
    ]  # fmt: skip
    assert [amount(value) for value in (0, 12.34, 950, 999.96, 125_300, 1.25e6, 3e9, 2e12, 5e15)] == [
        "0.0", "12.3", "950", "1.0k", "125.3k", "1.2M", "3.0B", "2.0T", "5.0e+03T",
    ]  # fmt: skip
    assert [milliseconds(value) for value in (0.00156, 0.0156, 0.156, 15.6)] == ["1.56", "15.6", "156", "15600"]
    assert [duration(value) for value in (0, 42.4, 3599, 8100, 95 * 3600, 99 * 3600, 1e7)] == [
        "00m00s", "00m42s", "59m59s", "02h15m", "95h00m", "04d03h", "115d17h",
    ]  # fmt: skip


def test_a_line_of_another_shape_is_another_layout():
    """The line of Surogate, with its own words and without padding, is a handful of columns."""
    columns = (
        Column("step", ("@step",), "{}", before=":: "),
        Column("", ("@share",), "[{:5.1f}%]", before=" "),
        Column("loss", ("loss",), "{:.4f}", before=" {} ", mark=layouts.TREND),
        Column("norm", ("norm",), "{:.4f}", before=" |{}", mark=layouts.SPIKE),
        Column("", ("@tokens_per_sec",), amount, unit=" tps"),
        Column("", ("@step_time_sec",), milliseconds, unit=" ms"),
        Column("aux", ("moe_aux_loss",), "{:.4f}"),
        Column("imbal", ("moe_load_imbalance",), "{:.2f}"),
        Column("sol", ("sol",), "{:.1f}"),
        Column("eta", ("@eta",), duration),
    )
    line = Line(columns, DEFAULT._replace(steps=columns, rest=None))
    facts = {
        "@step": 100, "@share": 12.5, "@trend": -1, "@tokens_per_sec": 125_300, "@step_time_sec": 0.156, "@eta": 8100,
    }  # fmt: skip
    row = {"loss": 2.3456, "norm": 0.1234, "lr": 0.0002, "moe_aux_loss": 0.0234, "moe_load_imbalance": 1.45}
    assert line.put({**row, "sol": 78.2}, facts, width=200) == (
        r":: step 100 [ 12.5%] \ loss 2.3456 | norm 0.1234 | 125.3k tps | 156 ms"
        " | aux 0.0234 | imbal 1.45 | sol 78.2 | eta 02h15m"
    )


def test_a_line_of_keys_and_values_is_another_layout():
    """The line of ezpz, key=value(±std) with its companions folded in, is columns and a form for the rest."""

    def spread(name, value, row):
        if name.rpartition("/")[2] in ("mean", "min", "max", "std", "avg"):
            return None
        std = row.get(f"{name}/std")
        return f"{name}={value:.3f}" + ("" if std is None else f"(±{_small(std):>6})")

    def memory(value, row):
        return f"{value:.2f}/{row['mem_reserved']:.2f}GiB ({100 * value / 80:.0f}%)"

    columns = (
        Column("iter", ("iter",), "{}", 4, "<", before="", join="="),
        Column("loss", ("loss",), lambda value, row: spread("loss", value, row)[5:], before=" ", join="="),
        Column("memory", ("mem_alloc",), memory, before=" ", join="="),
    )
    layout = DEFAULT._replace(steps=columns, quiet=frozenset(("mem_reserved",)), rest=spread, before_rest=" ")
    line = Line(columns, layout)
    row = {"iter": 8, "loss": 0.0784, "loss/std": 0.026, "loss/min": 0.0, "accuracy": 0.984, "accuracy/std": 9.9e-3}
    memory_row = {**row, "mem_alloc": 0.01, "mem_reserved": 0.01}
    assert line.put(row, {}, width=200) == "iter=8    loss=0.078(± 0.026) accuracy=0.984(±9.9e-3)"
    assert line.put(memory_row, {}, width=200) == (
        "iter=8    loss=0.078(± 0.026) memory=0.01/0.01GiB (0%) accuracy=0.984(±9.9e-3)"
    )


def _small(value):
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}".replace("e-0", "e-")
