"""An object keeps a pool, maps its own methods with it, and is pickled without it."""

import multiprocessing as mp
import sys


class Simulation:
    def __init__(self, workers, scale):
        self.scale, self.history = scale, []
        self.pool = mp.Pool(workers)

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["pool"]
        return state

    def step(self, number):
        self.history.append(number)  # in the worker only
        return number * self.scale, len(self.history)

    def run(self, count):
        return [value for value, _ in self.pool.map(self.step, range(count))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.close()
        self.pool.join()


def main():
    with Simulation(2, 10) as simulation:
        print(simulation.run(5), simulation.history)
        simulation.scale = 3
        print(simulation.run(3))
    try:
        Simulation.run(simulation, 1)
    except ValueError as error:
        print(error)
    with mp.Pool(1) as pool:
        try:
            pool.apply(len, (pool,))
        except NotImplementedError as error:
            print(error)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    main()
