"""Benchmarks: shmtensor beside what else there is. Run as ``python -m bench``; see README.md here."""
