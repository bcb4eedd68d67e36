"""A run for other programs: tables and datasets."""
