"""Wheels for every supported Python and machine, built and checked on one machine."""
