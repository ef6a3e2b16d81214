"""Queues in shared memory."""
