"""Ten short programs in which dims meet, for PyTorch and for JAX. Imports of both are the workers' own."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    #: What is asked of dims, in a line.
    about: str
    #: The function for PyTorch, and for JAX; each takes its own arrays.
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    #: NumPy arrays at a size.
    inputs: Callable[[Any], list[np.ndarray]]
    #: The size of the export, then those that are run.
    traced: Any
    sizes: tuple[Any, ...]
    #: For each input the names of its dims by axis; the same name is the same dim.
    dims: tuple[dict[int, str], ...]
    #: Sizes at which the text for JAX means something else.
    not_for_jax: tuple[Any, ...] = ()


def floats(*shape: int) -> np.ndarray:
    count = int(np.prod(shape))
    values = (np.arange(count) * 37 + 11) % 101 / 25.25 - 2.0
    return values.astype("float32").reshape(shape)


def lost_rows(x):
    return x.reshape(x.shape[0] // 4, 4, -1).sum(1)


def added(x, y):
    return x + y


def empty_torch(x):
    return x.softmax(-1), x.sum(0), x.amax(1)


def empty_jax(x):
    import jax

    return jax.nn.softmax(x, -1), x.sum(0), x.max(1)


def every_other(x):
    return x[::2] + x[1::2]


def cache_torch(past, new, query):
    import torch

    keys = torch.cat((past, new))
    length = keys.shape[0]
    scores = query @ keys.T
    seen = torch.arange(length)[None, :] <= torch.arange(query.shape[0])[:, None] + past.shape[0]
    return torch.where(seen, scores, -torch.inf).softmax(-1) @ keys


def cache_jax(past, new, query):
    import jax
    import jax.numpy as jnp

    keys = jnp.concatenate((past, new))
    scores = query @ keys.T
    seen = jnp.arange(keys.shape[0])[None, :] <= jnp.arange(query.shape[0])[:, None] + past.shape[0]
    return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1) @ keys


def padded_torch(x):
    import torch

    more = (-x.shape[0]) % 4
    return torch.nn.functional.pad(x, (0, 0, 0, more)).reshape(-1, 4, 3).sum(1)


def padded_jax(x):
    import jax.numpy as jnp

    more = (-x.shape[0]) % 4
    return jnp.pad(x, ((0, more), (0, 0))).reshape(-1, 4, 3).sum(1)


def mask(x):
    return x[x[:, 0] > 0] * 2


def two_views(x):
    return x @ x.reshape(x.shape[1], x.shape[0])


def windows_torch(x):
    return x.unfold(0, 4, 2).mean(-1)


def windows_jax(x):
    import jax.numpy as jnp

    starts = jnp.arange((x.shape[0] - 4) // 2 + 1) * 2
    return x[starts[:, None] + jnp.arange(4)[None, :]].mean(1)


def loop_torch(x, w):
    state = x.new_zeros(3)
    for at in range(x.shape[0]):
        state = (x[at] + state @ w).tanh()
    return state


def loop_jax(x, w):
    import jax
    import jax.numpy as jnp

    step = lambda at, state: jnp.tanh(x[at] + state @ w)  # noqa: E731
    return jax.lax.fori_loop(0, x.shape[0], step, jnp.zeros(3, "float32"))


PROGRAMS = [
    Program(
        "lost rows", "`x.reshape(n // 4, 4, -1).sum(1)`; of 13 rows PyTorch makes an error",
        lost_rows, lost_rows, lambda n: [floats(n, 8)], 8, (4, 8, 12, 13, 1), ({0: "n"},),
    ),
    Program(
        "alike by accident", "`x + y` of n and m rows, traced with n = m; 1 is broadcast",
        added, added, lambda size: [floats(size[0], 3), floats(size[1], 3)], (3, 3),
        ((3, 3), (5, 5), (5, 1), (1, 5), (0, 1), (0, 0), (2, 3)), ({0: "n"}, {0: "m"}),
    ),
    Program(
        "empty", "softmax, a sum over rows and maxima of rows, of no rows too",
        empty_torch, empty_jax, lambda n: [floats(n, 5)], 4, (4, 7, 1, 0), ({0: "n"},),
    ),
    Program(
        "every other row", "`x[::2] + x[1::2]`; of 5 rows an error, of 3 rows a broadcast",
        every_other, every_other, lambda n: [floats(n, 3)], 8, (8, 4, 2, 0, 3, 1, 5), ({0: "n"},),
    ),
    Program(
        "cache", "attention of t rows behind a cache of p rows, empty at first",
        cache_torch, cache_jax, lambda size: [floats(size[0], 3), floats(size[1], 3) + 0.5, floats(size[1], 3) - 0.5], (6, 4),
        ((6, 4), (0, 5), (5, 1), (7, 3), (0, 1), (3, 0)), ({0: "p"}, {0: "t"}, {0: "t"}),
    ),
    Program(
        "padded", "rows padded to a multiple of 4, summed by fours",
        padded_torch, padded_jax, lambda n: [floats(n, 3)], 6, (6, 4, 8, 5, 3, 1), ({0: "n"},),
    ),
    Program(
        "mask", "`x[x[:, 0] > 0] * 2`: how many rows there are only the run knows",
        mask, mask, lambda n: [floats(n, 3)], 6, (6, 9, 2, 1, 0), ({0: "n"},),
    ),
    Program(
        "two views", "`x @ x.reshape(m, n)`, both dims open",
        two_views, two_views, lambda size: [floats(*size)], (3, 4), ((3, 4), (4, 3), (2, 2), (1, 1), (1, 5), (5, 1), (0, 4)),
        ({0: "n", 1: "m"},),
    ),
    Program(
        "windows", "means of windows of 4 elements at every second place; fewer than 4 are an error",
        windows_torch, windows_jax, lambda n: [floats(n)], 10, (10, 4, 5, 6, 13, 64, 3), ({0: "n"},), (3,),
    ),
    Program(
        "loop", "a recurrence over n rows, written as a loop",
        loop_torch, loop_jax, lambda n: [floats(n, 3), floats(3, 3)], 5, (5, 7, 2, 1, 0), ({0: "n"}, {}),
    ),
]
