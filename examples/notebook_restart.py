"""Cells of a notebook whose kernel restarts: the table is kept, at most an hour without a kernel."""

# %%
import os

os.environ.setdefault("SHMTENSOR_SESSION", "my notebook")  # before the first use of shmtensor

import numpy as np

import shmtensor as st


# %%
def prepare() -> dict[str, np.ndarray]:
    """Stand in for a cell that takes minutes."""
    print("preparing")
    rng = np.random.default_rng(0)
    return {"price": rng.uniform(1, 100, 1_000_000), "sold": rng.integers(0, 10, 1_000_000)}


table = st.once("table", prepare, keep=3600)  # arrays are read-only; st.unpublish("table") to prepare again

# %%
print(f"revenue {(table['price'] * table['sold']).sum():.0f}")
