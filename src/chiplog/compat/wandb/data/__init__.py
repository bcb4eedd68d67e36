"""What scripts log besides numbers: media, tables, artifacts and files."""
