"""A data set that is decoded once, for all epochs, workers and loaders: cached_dataset.py [START_METHOD]."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st


class Photos(Dataset):
    """Photos and their labels; the cache is part of the data set, so each worker has it."""

    def __init__(self, cache: st.SharedCache) -> None:
        self.cache = cache

    def __len__(self) -> int:
        return 200

    def decode(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.005)  # as a photo of some megapixels takes
        return torch.full((3, 224, 224), index, dtype=torch.uint8), index % 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.cache.get(index, lambda: self.decode(index))


if __name__ == "__main__":
    st.install("torch")  # tensors of the cache are in shared memory
    cache, method = st.SharedCache(max_bytes=2**30), sys.argv[1] if sys.argv[1:] else "fork"
    first, other = (
        DataLoader(Photos(cache), 20, num_workers=2, persistent_workers=True, multiprocessing_context=method)
        for _ in range(2)
    )
    for turn, loader in (("first epoch", first), ("second epoch", first), ("another loader", other)):
        misses, start = cache.stats()["misses"], time.perf_counter()
        assert all((images[:, 0, 0, 0] % 10 == labels).all() for images, labels in loader)
        print(f"{turn}: {cache.stats()['misses'] - misses} decoded in {time.perf_counter() - start:.2f} s")
