"""Loads data in a process with few descriptors, or with little /dev/shm. Argument: the name of a function."""

import os
import resource
import sys

import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st


class Small(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return [torch.full((4,), index + 0.5) for _ in range(100)]


def first(batch):
    return batch[0]


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    loader = DataLoader(Small(), batch_size=1, num_workers=1, collate_fn=first)
    batches = list(loader)  # 100,000 tensors are alive
    assert len(batches) == 1000
    assert all(batch[99][3] == index + 0.5 for index, batch in enumerate(batches))
    assert len(os.listdir("/proc/self/fd")) < 64
    assert sum(len(batch) for batch in batches) == 100_000


class Large(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1 << 20,), float(index))


def small_dev_shm():
    assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_bsize == 64 << 20
    batches = list(DataLoader(Large(), batch_size=8, num_workers=2))  # 256 MiB
    assert [batch[3, 5].item() for batch in batches] == [3 + 8 * i for i in range(8)]
    model = torch.nn.Linear(4096, 8192).share_memory()  # 128 MiB
    assert model.weight.is_shared()


if __name__ == "__main__":
    st.install("torch")
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
