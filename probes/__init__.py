"""Programs that ask, load and time a GPU."""
