"""Programs that need a GPU."""
