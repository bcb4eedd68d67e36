"""The machine we run on; the only inner package that may touch torch, jax or mpi4py, and only where they are loaded."""
