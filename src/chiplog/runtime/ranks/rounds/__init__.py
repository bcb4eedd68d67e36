"""How ranks exchange rows: in rounds, in each of which every rank sends one chunk of bytes."""
