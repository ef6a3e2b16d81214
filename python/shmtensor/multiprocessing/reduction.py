"""The standard library's module, under a name of this package."""

import sys
from multiprocessing import reduction
from multiprocessing.reduction import *  # noqa: F403  # for type checkers

sys.modules[__name__] = reduction
