"""Code that several sinks use: append files, clean values, joined rows, names."""
