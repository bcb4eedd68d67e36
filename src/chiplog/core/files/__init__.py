"""The files of a run, which somebody else may have made: the one place that opens, creates and replaces them."""
