"""Changes that reach a running worker; `test_server_globals.py` runs it."""

import shmtensor.multiprocessing as mp

context = mp.get_context("server")


def with_option(function):
    option = 1

    def call(x):
        return function(x) * option

    def choose(value):
        nonlocal option
        option = value

    call.choose = choose
    return call


@with_option
def work(x):
    return x * scale


class Settings:
    rate = step = 1


class Changed(Settings):
    rate = 2


functions, scale = {"work": work}, 1


def see(x):
    return functions["work"](x), Changed.rate, Changed.step, Settings.step


def use():
    return defined_later()


with context.Pool(1) as pool:
    assert [pool.apply(see, (5,)) for _ in range(2)] == [(5, 2, 1, 1)] * 2
    work.choose(2)
    assert pool.apply(see, (5,)) == (10, 2, 1, 1)
    Changed.rate, Settings.step = 1, 3  # now as in the base
    assert pool.apply(see, (5,)) == (10, 1, 3, 3)
    scale = 3
    assert pool.apply(see, (5,)) == (30, 1, 3, 3)
    try:
        pool.apply(use)
    except NameError:

        def defined_later():
            return 4

    assert pool.apply(use) == 4
