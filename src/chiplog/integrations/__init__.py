"""chiplog inside training frameworks: one file per framework, imported only when it is used.

A file is named like the package of the framework, and its docstring begins with the framework's name, a colon and how
to switch chiplog on: `chiplog doctor` prints that for what is installed. docs/integrations.md has an example of each.
"""
