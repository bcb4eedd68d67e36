"""`chiplog show`: the page of a run, as text and as data."""
