"""The verbs of the command line, one per file; each is a function `run(args)` that returns the exit code."""
