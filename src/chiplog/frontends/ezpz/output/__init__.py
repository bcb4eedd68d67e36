"""What a history writes: lines, datasets, plots and the files of its end."""
