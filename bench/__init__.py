"""What chiplog costs, measured against the floor it stands on. `make bench`, or `make bench ONLY=log,store`.

A benchmark, not a timed test: it has an exit code of its own for a missed bar, and `make test` never depends on it.
"""
