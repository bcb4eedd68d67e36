"""How records reach a sink: from the journal, from its own position, on a thread or in the relay process."""
