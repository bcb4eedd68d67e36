"""What a history has recorded, read from its run: values by name and group, datasets and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog import Run, Stored
from chiplog.core.records import Plain
from chiplog.frontends.ezpz import output
from chiplog.frontends.ezpz.output.rows import rows
from chiplog.frontends.ezpz.run_writer import Writer
from chiplog.views.metric_families import ABOUT_RANKS, group_of, grouped

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


class StoredHistory:
    """The methods of a history that only read."""

    _run: Run
    _writer: Writer
    _outdir: Path | None

    @property
    def history(self) -> dict[str, list[Plain]]:
        """All values so far, by name and in order: those of the run, or on ranks other than 0 those logged here."""
        if (memory := self._writer.memory) is not None:
            return memory.by_name()
        self._run.flush()
        stored = self._stored
        values: dict[str, list[Plain]] = {}
        for row in rows(stored):
            for name, value in row.metrics.items():
                values.setdefault(name, []).append(value)
        events = (name for name in stored.names() if name not in values and group_of(name) != ABOUT_RANKS)
        return values | {
            name: stored.series(name, missing_ok=True).exact for name in events
        }  # of stopwatches, for example

    @property
    def data(self) -> dict[str, list[Plain]]:
        return self.history

    def history_to_dict(self) -> dict[str, list[Plain]]:
        return self.history

    @property
    def groups(self) -> dict[str, dict[str, list[Plain]]]:
        """The same by group: `groups["train"]["loss"]`; names without a group are under `""`."""
        values = self.history
        return {
            group: {
                name.removeprefix(f"{group}/"): values[name]
                for family in families
                for name in (family.name, *family.statistics.values())
            }
            for group, families in grouped(values).items()
        }

    def get_dataset(self, data: Mapping[str, Sequence[object]] | None = None, warmup: int | float = 0) -> xr.Dataset:
        """One dataset: of `data`, or of everything so far, with `train/loss` as `train_loss`."""
        if data is not None:
            return output.datasets.from_data(data, warmup)
        groups = self.get_grouped_datasets(warmup)
        return next(iter(groups.values())) if len(groups) == 1 else output.datasets.joined(groups)

    def get_grouped_datasets(self, warmup: int | float = 0) -> dict[str, xr.Dataset]:
        """The datasets of all groups so far; names without a group are under `""`."""
        if self._writer.memory is not None:
            return {group: output.datasets.from_data(members, warmup) for group, members in self.groups.items()}
        self._run.flush()
        return output.datasets.of_run(self._stored, warmup)

    def to_DataArray(self, x: object, warmup: int | float = 0) -> xr.DataArray:
        """Values by step as an array by draw; vectors also have chains, and matrices leapfrogs."""
        return output.datasets.to_data_array(x, warmup)

    def save_dataset(
        self,
        outdir: str | Path,
        fname: str = "dataset",
        use_hdf5: bool = True,
        data: Mapping[str, Sequence[object]] | None = None,
        dataset: xr.Dataset | None = None,
        warmup: int | float = 0,
    ) -> Path:
        """Write one dataset, by default of everything so far, and return its path."""
        chosen = dataset if dataset is not None else self.get_dataset(data, warmup)
        return output.datasets.save({"": chosen}, Path(outdir).expanduser(), fname, use_hdf5)[0]

    def plot(
        self,
        val: object,
        key: str | None = None,
        warmup: int | float = 0.0,
        num_chains: int = 0,
        title: str | None = None,
        outdir: str | Path | None = None,
        subplots_kwargs: Mapping[str, Any] | None = None,
        plot_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[Figure, Any]:
        """Plot values by step with matplotlib; returns the figure and its axes, and writes it to `outdir` if given."""
        figure, axes = output.plots.plot(
            self.to_DataArray(val, warmup),
            key or "",
            num_chains=num_chains,
            title=title,
            subplots_kwargs=subplots_kwargs,
            plot_kwargs=plot_kwargs,
        )
        if outdir is not None:
            output.plots.save(figure, Path(outdir).expanduser(), key or "plot")
        return figure, axes

    def plot_all(
        self,
        num_chains: int = 128,
        warmup: int | float = 0.0,
        title: str | None = None,
        verbose: bool = False,  # noqa: ARG002
        outdir: str | Path | None = None,
        subplots_kwargs: Mapping[str, Any] | None = None,
        plot_kwargs: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """Plot every metric so far to `outdir`; returns what was plotted, as one dataset."""
        output.plots.plot_all(
            self.get_grouped_datasets(warmup),
            Path(outdir).expanduser() if outdir is not None else self._default_outdir() / "plots" / "mplot",
            num_chains=num_chains,
            title=title,
            subplots_kwargs=subplots_kwargs,
            plot_kwargs=plot_kwargs,
        )
        return self.get_dataset(warmup=warmup)

    @property
    def _stored(self) -> Stored:
        from chiplog.views.steps_across_epochs import ByCall  # which imports numpy

        return ByCall(self._run.dir)

    def _default_outdir(self, run_name: str | None = None) -> Path:
        if self._outdir is not None and not run_name:
            return self._outdir
        return Path.cwd() / "outputs" / (Path(run_name).name if run_name else self._run.id)
