"""The verbs of the command line: one module each, or a folder with `verb.py`; `shared` is what several of them use.

The first line of a verb's docstring is its help. `EXAMPLE` shows how to call it, `arguments(parser)` declares its
arguments, and `run(args)` returns the exit code.
"""
