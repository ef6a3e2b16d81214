"""Benchmarks: shmtensor compared with alternatives. Run as ``python -m bench``; see README.md here."""
