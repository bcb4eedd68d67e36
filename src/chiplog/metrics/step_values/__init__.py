"""The values of a step: collected over several calls, and reduced to one number each."""
