"""Files of other trackers, written from a stored run: one module per tracker, of the name of its sink.

`OMITTED` has the kinds of records for which the tracker has no place, `WHOLE_STEPS` whether its steps are integers, and
`ALWAYS` what it never keeps. `options(stored, folder)` are those of the sink, and `how_to_open(folder)` is a command.
"""
