"""The APIs of other trackers, kept by chiplog: a script changes its import, or nothing at all."""
