"""The standard library's module, under a name of this package."""

import sys
from multiprocessing import shared_memory
from multiprocessing.shared_memory import *  # noqa: F403  # for type checkers

sys.modules[__name__] = shared_memory
