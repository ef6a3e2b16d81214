"""Base classes of `Tensor`: views, and the protocols of NumPy, DLPack and Python's numbers."""
