"""`chiplog compact`: closed segments to Parquet."""
