"""Performance tracing: where the time of a step goes, on hosts and devices, as metrics and as pictures."""
