"""Benchmarks: programs that measure, and nothing that the package needs."""
