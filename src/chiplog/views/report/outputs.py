"""What `chiplog report` can write, and in which formats."""

from __future__ import annotations

STAGES = ("data", "plots", "text", "report")
DATASETS = ("h5", "nc", "parquet", "csv")
PICTURES = ("png", "svg", "pdf")
