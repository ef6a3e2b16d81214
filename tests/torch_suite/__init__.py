"""Torch's own tests of `torch.multiprocessing`, run with and without the integration."""
