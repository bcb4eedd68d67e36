"""Parts: journal segments compacted to Parquet."""
