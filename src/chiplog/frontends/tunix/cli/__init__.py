"""The config of a job, from the command line."""
