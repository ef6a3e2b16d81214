"""The load of a data loader for any time: its costs must not grow."""
