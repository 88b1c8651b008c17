"""Training, as of the subcommand `train`."""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple

from . import _compilers, _native
from ._errors import ArgumentError


class Step(NamedTuple):
    """A step that was taken. The loss is that before the weights were changed, the norm that before clipping; `seconds` are of the whole step.
    In mixed precision there is the scale of the loss; `skipped` says why a step changed no weight, and its norm is infinite."""

    step: int
    epoch: int
    loss: float
    gradient_norm: float
    rate: float
    seconds: float
    dims: dict[str, int]
    loss_scale: float | None = None
    skipped: str | None = None


class Trained(NamedTuple):
    """What a run came to. `checkpoint` and the losses of this run's first and last step are None where there was nothing to do."""

    steps: int
    checkpoint: str | None
    first_loss: float | None
    last_loss: float | None


def train(
    config: str | os.PathLike[str],
    *,
    resume: bool | str | os.PathLike[str] = False,
    on_step: Callable[[Step], Any] | None = None,
    max_memory: int | None = None,
) -> Trained:
    """Trains the weights of a program as a configuration says, a TOML file.

    `resume` is a checkpoint to go on with, or True for the last one in the folder of the configuration. `on_step` is called after each step;
    what it raises ends the run, and the last checkpoint stays.
    """
    if max_memory is not None and max_memory < 0:
        raise ArgumentError(f"max_memory: expected bytes, found {max_memory}")
    found = _compilers.find()
    run = {
        "compiler": found and found[0],
        "resume": resume is not False,
        "checkpoint": None if isinstance(resume, bool) else os.fspath(resume),
        "max_memory": max_memory,
    }
    watch = None if on_step is None else lambda facts: on_step(Step(**facts))
    steps, checkpoint, losses, _ = _native.train(os.fspath(config), run, watch)
    first, last = losses or (None, None)
    return Trained(steps, None if checkpoint is None else os.fspath(checkpoint), first, last)
