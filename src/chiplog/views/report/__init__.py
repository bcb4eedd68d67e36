"""Documents: the report of a run, comparisons, and their renderers."""
