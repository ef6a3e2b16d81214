"""The parts of `Pool`."""
