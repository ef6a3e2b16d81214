"""CPython's own tests of `multiprocessing`, run on `shmtensor.multiprocessing`: `make test-cpython`."""
