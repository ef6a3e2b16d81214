"""A data set that is decoded once, for all epochs, workers and loaders: cached_dataset.py [START_METHOD]."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st
import shmtensor.multiprocessing as mp


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
    cache = st.SharedCache(max_bytes=2**30)
    method = mp.get_context(sys.argv[1] if sys.argv[1:] else "fork")
    for turn in ("first epoch", "second epoch", "another loader"):
        if turn != "second epoch":
            loader = DataLoader(Photos(cache), 20, True, num_workers=2, multiprocessing_context=method)
        misses, start = cache.stats()["misses"], time.perf_counter()
        assert all((image == image[0, 0, 0]).all() for images, _ in loader for image in images)
        print(f"{turn}: {cache.stats()['misses'] - misses} decoded in {time.perf_counter() - start:.2f} s")
