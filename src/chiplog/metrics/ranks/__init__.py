"""The arithmetic across ranks: statistics, stragglers, routers."""
