"""Benchmarks of shmtensor: ``python -m bench``."""
