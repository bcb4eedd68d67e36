"""A job's config from the command line."""
