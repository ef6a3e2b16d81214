"""A search over parameters: results as they come, the best one, failures kept apart, progress printed."""
# methods: fork server

import itertools
import multiprocessing as mp
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Parameters:
    rate: float
    depth: int
    options: dict = field(default_factory=dict, hash=False)


@dataclass
class Result:
    parameters: Parameters
    score: float = float("-inf")
    error: Exception | None = None
    curve: list = field(default_factory=list)


class Diverged(Exception):
    def __init__(self, parameters, step):
        super().__init__(parameters, step)
        self.parameters, self.step = parameters, step


def train(parameters):
    result = Result(parameters)
    for step in range(5):
        if parameters.rate > 0.5:
            raise Diverged(parameters, step)
        result.curve.append(parameters.rate * parameters.depth * step)
    result.score = sum(result.curve)
    return result


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    grid = [Parameters(*values) for values in itertools.product((0.1, 0.2, 0.9), (1, 2))]
    results, failed = [], []
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        futures = {executor.submit(train, parameters): parameters for parameters in grid}
        for future in as_completed(futures):
            try:
                results.append(future.result())
            except Diverged as error:
                failed.append((error.step, error.parameters == futures[future], error.parameters.depth))
    best = max(results, key=lambda result: result.score)
    print(len(results), sorted(failed))
    print(best.score, asdict(best.parameters), best.parameters in grid, best.curve)
