"""Rules: each checks the rows of a run and reports what is wrong with them."""
