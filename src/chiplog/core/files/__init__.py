"""The files of a run, which someone else may have made: the one place that opens, creates and replaces them."""
