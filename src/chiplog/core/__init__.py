"""The vocabulary and the engine; imports nothing of ours from outside this folder."""
