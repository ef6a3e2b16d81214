"""The standard library's module, under a name of this package."""

import sys
from multiprocessing import dummy
from multiprocessing.dummy import *  # noqa: F403  # for type checkers

sys.modules[__name__] = dummy
