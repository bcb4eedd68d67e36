"""`chiplog tail`: follow records, or printed lines."""
