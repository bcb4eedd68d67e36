"""What a history has recorded, read from its run: values by name and group, datasets and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog.core.run import Run
from chiplog.frontends.ezpz.output.rows import rows
from chiplog.frontends.ezpz.writer import Writer
from chiplog.store.reader import Stored
from chiplog.views.metric_families import ABOUT_RANKS, group_of, grouped

if TYPE_CHECKING:
    import xarray as xr


class StoredHistory:
    """The half of a history that only looks."""

    _run: Run
    _feed: Writer
    _outdir: Path | None

    @property
    def history(self) -> dict[str, list[Any]]:
        """All values so far by name, in the order they came; read from the run, on ranks other than 0 their own."""
        if (own := self._feed.own) is not None:
            return own.by_name()
        self._run.flush()
        stored = self._stored
        found: dict[str, list[Any]] = {}
        for row in rows(stored):
            for name, value in row.metrics.items():
                found.setdefault(name, []).append(value)
        beside = (name for name in stored.names() if name not in found and group_of(name) != ABOUT_RANKS)
        return found | {name: stored.series(name).exact for name in beside}  # stopwatches and other events

    @property
    def data(self) -> dict[str, list[Any]]:
        return self.history

    def history_to_dict(self) -> dict[str, list[Any]]:
        return self.history

    @property
    def groups(self) -> dict[str, dict[str, list[Any]]]:
        """The same by group: `groups["train"]["loss"]`; names without a group are under `""`."""
        flat = self.history
        return {
            group: {
                name.removeprefix(f"{group}/"): flat[name]
                for one in members
                for name in (one.name, *one.statistics.values())
            }
            for group, members in grouped(flat).items()
        }

    def get_dataset(self, data: Mapping[str, Sequence[Any]] | None = None, warmup: int | float = 0) -> xr.Dataset:
        """One dataset: of everything so far, `train/loss` as `train_loss`, or of the values that are given."""
        from chiplog.frontends.ezpz.output import datasets

        if data is not None:
            return datasets.from_data(data, warmup)
        groups = self.get_grouped_datasets(warmup)
        return next(iter(groups.values())) if len(groups) == 1 else datasets.joined(groups)

    def get_grouped_datasets(self, warmup: int | float = 0) -> dict[str, xr.Dataset]:
        """The datasets of all groups so far; names without a group are under `""`."""
        from chiplog.views.export.datasets import datasets

        if self._feed.own is not None:
            from chiplog.frontends.ezpz.output.datasets import from_data

            return {group: from_data(members, warmup) for group, members in self.groups.items()}
        self._run.flush()
        return datasets(self._stored, warmup=warmup)

    def to_DataArray(self, x: Any, warmup: int | float = 0) -> xr.DataArray:
        """Values by step as an array by draw; vectors have chains, matrices leapfrogs too."""
        from chiplog.frontends.ezpz.output import datasets

        return datasets.to_data_array(x, warmup)

    def save_dataset(
        self,
        outdir: str | Path,
        fname: str = "dataset",
        use_hdf5: bool = True,
        data: Mapping[str, Sequence[Any]] | None = None,
        dataset: xr.Dataset | None = None,
        warmup: int | float = 0,
    ) -> Path:
        """Write one dataset, by default of everything so far, and return its path."""
        from chiplog.frontends.ezpz.output import datasets

        found = dataset if dataset is not None else self.get_dataset(data, warmup)
        return datasets.save({"": found}, Path(outdir).expanduser(), fname, use_hdf5)[0]

    def plot(
        self,
        val: Any,
        key: str | None = None,
        warmup: int | float = 0.0,
        num_chains: int = 0,
        title: str | None = None,
        outdir: str | Path | None = None,
        subplots_kwargs: Mapping[str, Any] | None = None,
        plot_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Draw values by step with matplotlib: a figure and its axes, written to `outdir` where that is given."""
        from chiplog.frontends.ezpz.output import plots

        how = {"num_chains": num_chains, "title": title, "subplots_kwargs": subplots_kwargs, "plot_kwargs": plot_kwargs}
        figure, axes = plots.plot(self.to_DataArray(val, warmup), key or "", **how)  # type: ignore[arg-type]
        if outdir is not None:
            plots.save(figure, Path(outdir).expanduser(), key or "plot")
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
        """Draw every metric so far to `outdir`; returns what was drawn, as one dataset."""
        from chiplog.frontends.ezpz.output import plots

        plots.plot_all(
            self.get_grouped_datasets(warmup),
            Path(outdir).expanduser() if outdir is not None else self._place(None) / "plots" / "mplot",
            num_chains=num_chains,
            title=title,
            subplots_kwargs=subplots_kwargs,
            plot_kwargs=plot_kwargs,
        )
        return self.get_dataset(warmup=warmup)

    @property
    def _stored(self) -> Stored:
        from chiplog.views.update_order import ByCall  # which imports numpy

        return ByCall(self._run.dir)

    def _place(self, run_name: str | None) -> Path:
        if self._outdir is not None and not run_name:
            return self._outdir
        return Path.cwd() / "outputs" / (Path(run_name).name if run_name else self._run.id)
