"""What a call from Python costs beside the work: python bench/python/overhead.py

Prints the median and the least microseconds of a call with 1 and with 8 arguments of one element, and what each argument adds: by the buffer
protocol (NumPy), by `__dlpack__` (a wrapper that has nothing else, of NumPy's and of PyTorch's) and by DLPack's C exchange
interface (PyTorch's tensors, where it is installed). The kinds take turns, so that other work on the machine meets all of them.
"""

import statistics
import time

import numpy as np
import relaxc

# Rounds are shorter than slices of time, so that the least of them had a core of its own.
CALLS, ROUNDS = 200, 200


class Capsule:
    """Speaks DLPack alone."""

    def __init__(self, inner):
        self.__dlpack__, self.__dlpack_device__ = inner.__dlpack__, inner.__dlpack_device__


def program(count):
    parameters = ", ".join(f'x{at}: Tensor((1,), "f32")' for at in range(count))
    return f"def main({parameters}):\n    return x0\n"


def microseconds(module, arguments):
    begin = time.perf_counter()
    for _ in range(CALLS):
        module(*arguments)
    return (time.perf_counter() - begin) / CALLS * 1e6


def main():
    one, eight = (relaxc.compile(program(count), threads=1) for count in (1, 8))
    makers = {"buffer (numpy)": lambda: np.ones(1, "float32"), "dlpack (numpy)": lambda: Capsule(np.ones(1, "float32"))}
    try:
        import torch

        makers["dlpack (torch)"] = lambda: Capsule(torch.ones(1))
        makers["exchange (torch)"] = lambda: torch.ones(1)
    except ImportError:
        pass
    kinds = {name: ([], [], [make()], [make() for _ in range(8)]) for name, make in makers.items()}
    for _ in range(ROUNDS):
        for first, last, single, several in kinds.values():
            first.append(microseconds(one, single))
            last.append(microseconds(eight, several))
    for name, (first, last, *_) in kinds.items():
        shown = []
        for what, of in (("median", statistics.median), ("least", min)):
            single, several = of(first), of(last)
            shown.append(f"{what} 1 argument {single:5.2f} us, 8 arguments {several:5.2f} us, each {(several - single) / 7:5.2f} us")
        print(f"{name:16} {'; '.join(shown)}")


if __name__ == "__main__":
    main()
