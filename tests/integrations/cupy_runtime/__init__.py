"""CuPy on the simulated driver: its module that contains the CUDA runtime, built over a smaller one."""
