"""Dask: buffers between processes of one session, and how two processes agree on it."""
