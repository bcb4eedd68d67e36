"""Layouts."""

from chiplog.sinks.console import layout as layouts
from chiplog.sinks.console.layout import DEFAULT, ConsoleLine, LayoutColumn, amount, duration, milliseconds, of_value


def test_a_form_may_look_at_the_value_alone():
    """Those of the kit do; a form of your own gets the row too."""
    assert of_value(str.upper)("ab", {}) == "AB" and amount(1500.0) == "1.5k"


def test_a_line_of_another_shape_is_another_layout():
    """The line of Surogate, with its own words and without padding, is a handful of columns."""
    columns = (
        LayoutColumn("step", ("@step",), "{}", before=":: "),
        LayoutColumn("", ("@share",), "[{:5.1f}%]", before=" "),
        LayoutColumn("loss", ("loss",), "{:.4f}", before=" {} ", mark=layouts.TREND),
        LayoutColumn("norm", ("norm",), "{:.4f}", before=" |{}", mark=layouts.SPIKE),
        LayoutColumn("", ("@tokens_per_sec",), amount, unit=" tps"),
        LayoutColumn("", ("@step_time_sec",), milliseconds, unit=" ms"),
        LayoutColumn("aux", ("moe_aux_loss",), "{:.4f}"),
        LayoutColumn("imbal", ("moe_load_imbalance",), "{:.2f}"),
        LayoutColumn("sol", ("sol",), "{:.1f}"),
        LayoutColumn("eta", ("@eta",), duration),
    )
    line = ConsoleLine(columns, DEFAULT._replace(steps=columns, rest=None))
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
        LayoutColumn("iter", ("iter",), "{}", 4, "<", before="", join="="),
        LayoutColumn("loss", ("loss",), lambda value, row: spread("loss", value, row)[5:], before=" ", join="="),
        LayoutColumn("memory", ("mem_alloc",), memory, before=" ", join="="),
    )
    layout = DEFAULT._replace(steps=columns, quiet=frozenset(("mem_reserved",)), rest=spread, before_rest=" ")
    line = ConsoleLine(columns, layout)
    row = {"iter": 8, "loss": 0.0784, "loss/std": 0.026, "loss/min": 0.0, "accuracy": 0.984, "accuracy/std": 9.9e-3}
    memory_row = {**row, "mem_alloc": 0.01, "mem_reserved": 0.01}
    assert line.put(row, {}, width=200) == "iter=8    loss=0.078(± 0.026) accuracy=0.984(±9.9e-3)"
    assert line.put(memory_row, {}, width=200) == (
        "iter=8    loss=0.078(± 0.026) memory=0.01/0.01GiB (0%) accuracy=0.984(±9.9e-3)"
    )


def _small(value):
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}".replace("e-0", "e-")
