"""Locks and other synchronization primitives in shared memory."""
