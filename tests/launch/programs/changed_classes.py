"""Classes that change between workers; `test_server_globals.py` runs it."""

import shmtensor.multiprocessing as mp

context = mp.get_context("server")
scale = 1


class Base:
    def of_base(self):
        return scale


class Settings(Base):
    rate = 1

    @property
    def of_property(self):
        return scale

    class Inner:
        rate = 1


def see(queue, settings):
    queue.put((settings.rate, settings.of_property, settings.of_base(), settings.Inner.rate))


queue = context.SimpleQueue()
for value in (1, 2, 3, 3):
    scale = Settings.rate = Settings.Inner.rate = value
    process = context.Process(target=see, args=(queue, Settings()))
    process.start()
    assert queue.get() == (value,) * 4
    process.join()
Settings.added = 4
process = context.Process(target=lambda settings: queue.put(settings.added), args=(Settings(),))
process.start()
assert queue.get() == 4
process.join()
