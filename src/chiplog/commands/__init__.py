"""The verbs of the command line, one a file, each a function `run(args)` that returns the exit code."""
