"""A grid search of scikit-learn over one shared array: python examples/grid_search.py [MIB] [WORKERS].

It prints what the search finds, its time, and how much memory it takes in addition to that of the program and
its idle workers, first with joblib alone, then with the backend of shmtensor.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import joblib
import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit

import shmtensor as st

GRID = {"alpha": [1e-5, 1e-4, 1e-3], "penalty": ["l2", "l1"]}


def make_data(mib: int) -> tuple[Any, Any]:
    """Return samples of 100 features in shared memory, and their classes."""
    random = np.random.default_rng(0)
    samples = st.empty((mib * 2**20 // 800, 100)).numpy()
    random.standard_normal(out=samples)
    return samples, samples @ random.standard_normal(100) > 0


def search(samples: Any, classes: Any, workers: int) -> dict[str, Any]:
    """Return the best parameters of the grid."""
    model = SGDClassifier(max_iter=5, tol=None, random_state=0)
    folds = ShuffleSplit(2, train_size=0.05, test_size=0.05, random_state=0)
    found = GridSearchCV(model, GRID, cv=folds, refit=False, n_jobs=workers).fit(samples, classes)
    return found.best_params_


def measured(samples: Any, classes: Any, workers: int) -> tuple[dict[str, Any], float, float]:
    """Return what `search` returns, its seconds, and its MiB at the peak."""
    search(samples[:1000], classes[:1000], workers)  # workers start and import
    done = threading.Event()
    monitor = st.memory.MemoryMonitor()
    monitor.measure()

    def watch() -> None:
        while not done.wait(0.1):
            monitor.measure()

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        best = search(samples, classes, workers)
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    # PSS: a page that several processes have counts once.
    idle, *used = (sum(memory.pss for memory in sample.values()) for _, sample in monitor.history())
    return best, seconds, (max(used) - idle) / 2**20


def main(mib: int = 256, workers: int = 2) -> None:
    """Search twice."""
    samples, classes = make_data(mib)
    alone = measured(samples, classes, workers)
    get_reusable_executor().shutdown()
    st.install("joblib")
    with joblib.parallel_config(backend="shmtensor"):
        ours = measured(samples, classes, workers)
    assert ours[0] == alone[0]
    print(f"best: {ours[0]}; the array has {mib} MiB")
    for name, (_, seconds, more) in (("joblib", alone), ("shmtensor", ours)):
        print(f"{name}: {seconds:.1f} s, {more:.0f} MiB more")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
