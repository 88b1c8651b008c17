"""Trains a program beside PyTorch: the loop that char_transformer.py and resnet.py share.

The shapes of the batch change every step; adjoint and optimizer are compiled once.

- In f64 each side runs on its own results. The loss of every step is within 1e-8 relative of PyTorch's.
- In f32 (`--dtype f32`) each step starts from PyTorch's state. Loss, gradients and new weights are within the tolerance that
  docs/LANGUAGE.md derives from observed rounding errors.
- With `--dtype f32 --free` each side runs on its own results in f32, PyTorch with one thread and with two.

Prints what was measured; the exit code is 1 where a bound does not hold. Needs the package `relaxc` (docs/PYTHON.md) and PyTorch.
"""

import argparse
import pathlib
import time

import numpy
import relaxc
import torch

OPTIMIZERS = pathlib.Path(__file__).resolve().parent.parent.parent / "train" / "optimizers.rx"
RATE, BETAS, EPSILON, DECAY, NORM = 3e-3, (0.9, 0.999), 1e-8, 0.01, 1.0
#: Relative, of the loss of every step in f64.
LIMIT = 1e-8
#: The factor of docs/LANGUAGE.md, of observed rounding errors.
FACTOR = 64
NUMPY = {"f32": "float32", "f64": "float64"}
#: Steps between lines.
REPORT = 50
#: Runs with operands that are off by a rounding error, of a step that is beyond its bound.
DISTURBED = 64


class Own:
    """The compiled program with its weights and moments."""

    def __init__(self, program, values, dtype, threads=1):
        text = relaxc.grad(program.read_text().replace("f64", dtype), wrt=list(values))
        self.module = relaxc.compile(text, threads=threads)
        optimizers = OPTIMIZERS.read_text()
        self.norm = relaxc.compile(optimizers, threads=threads)["clip_factor"]
        self.adamw = relaxc.compile(optimizers.replace("f64", dtype), threads=threads)["adamw"]
        self.dtype = NUMPY[dtype]
        self.values = {name: value.astype(self.dtype) for name, value in values.items()}
        self.moments = {name: (numpy.zeros_like(value),) * 2 for name, value in self.values.items()}

    def backward(self, batch):
        """The loss and the gradients before clipping."""
        loss, given = self.module["main_adjoint"](*batch, **self.values)
        # Copies: the module's memory is not kept.
        return loss.item(), {name: numpy.array(numpy.asarray(one)) for name, one in zip(self.values, given)}

    def update(self, step, gradients):
        """Clips them and takes the step."""
        factor = self.norm(sum(float((one.astype("f8") ** 2).sum()) for one in gradients.values()), NORM).item()
        numbers = [numpy.array(one, self.dtype) for one in (step, RATE, *BETAS, EPSILON, DECAY)]
        for name, gradient in gradients.items():
            state = (self.values[name], (gradient * factor).astype(self.dtype), *self.moments[name])
            made = self.adamw(*(numpy.ascontiguousarray(one).reshape(-1) for one in state), *numbers)
            self.values[name], *moments = (numpy.array(numpy.asarray(one)).reshape(gradient.shape) for one in made)
            self.moments[name] = tuple(moments)

    def step(self, step, batch):
        """The loss and the gradients before clipping."""
        loss, gradients = self.backward(batch)
        self.update(step, gradients)
        return loss, gradients


class Torch:
    """PyTorch's model with its optimizer."""

    def __init__(self, loss, values, dtype, threads=1):
        self.loss, self.threads = loss, threads
        self.dtype = {"f32": torch.float32, "f64": torch.float64}[dtype]
        self.values = {name: torch.tensor(value, dtype=self.dtype, requires_grad=True) for name, value in values.items()}
        self.optimizer = torch.optim.AdamW(self.values.values(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY)

    def backward(self, batch):
        """The loss and the gradients before clipping."""
        torch.set_num_threads(self.threads)
        self.optimizer.zero_grad()
        tensors = (torch.from_numpy(one) for one in batch)
        loss = self.loss(self.values, *(one.to(self.dtype) if one.is_floating_point() else one for one in tensors))
        loss.backward()
        return loss.item(), {name: value.grad.numpy() for name, value in self.values.items()}

    def update(self):
        """Clips them and takes the step."""
        torch.nn.utils.clip_grad_norm_(self.values.values(), NORM)
        self.optimizer.step()

    def step(self, batch):
        loss, gradients = self.backward(batch)
        gradients = {name: one.copy() for name, one in gradients.items()}
        self.update()
        return loss, gradients

    def arrays(self):
        return {name: value.detach().numpy().copy() for name, value in self.values.items()}

    def moments(self):
        """Copies of both moments of each weight."""
        made = {}
        for name, value in self.values.items():
            state = self.optimizer.state.get(value) or {"exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
            made[name] = tuple(state[key].detach().numpy().copy() for key in ("exp_avg", "exp_avg_sq"))
        return made

    def go_to(self, step, values, moments):
        """Takes over the state before a step."""
        with torch.no_grad():
            for name, value in self.values.items():
                value.copy_(torch.from_numpy(values[name]))
                first, second = (torch.from_numpy(one.copy()).to(self.dtype) for one in moments[name])
                self.optimizer.state[value] = {"step": torch.tensor(step - 1.0), "exp_avg": first, "exp_avg_sq": second}


def apart(one, other):
    """The greatest distance of two tensors. NaN is no agreement."""
    distance = numpy.abs(numpy.asarray(one, "f8") - numpy.asarray(other, "f8")).max(initial=0.0)
    return float(distance) if distance == distance else float("inf")


def report(step, steps):
    return step == 1 or step % REPORT == 0 or step == steps


def run_free_in_f64(model, args):
    values = model.weights(numpy.random.default_rng(args.seed))
    own, other = Own(model.program, values, "f64"), Torch(model.loss, values, "f64")
    random = numpy.random.default_rng(args.seed + 1)
    worst, own_time, torch_time, losses, seen = 0.0, 0.0, 0.0, [], set()
    for step in range(1, args.steps + 1):
        batch = model.batch(random, step, "f64")
        shape = batch[0].shape
        seen.add(shape)
        begin = time.perf_counter()
        loss, _ = own.step(step, batch)
        middle = time.perf_counter()
        expected, _ = other.step(batch)
        own_time, torch_time = own_time + middle - begin, torch_time + time.perf_counter() - middle
        losses.append(loss)
        distance = apart(loss, expected) / abs(expected)
        worst = max(worst, distance)
        if report(step, args.steps):
            print(f"step {step}: {shape} relax {loss:.12f} torch {expected:.12f} apart {distance:.2e}")
    mean = sum(losses[-REPORT:]) / len(losses[-REPORT:])
    print(f"{len(seen)} shapes in {args.steps} steps; greatest relative difference of the loss: {worst:.2e}")
    print(f"loss: {losses[0]:.4f} in the first step, {mean:.4f} in the mean of the last {len(losses[-REPORT:])}")
    print(f"time: relax {own_time:.2f} s, torch {torch_time:.2f} s, one thread each")
    return worst <= LIMIT


def tolerances(exact, rounded, inputs):
    """Of tensors by name: FACTOR times PyTorch's rounding error, which is at least half a unit in the last place of the greatest element.

    A small loss is a difference of greater numbers. Half a unit of the greatest input is assumed of it, as docs/LANGUAGE.md says.
    """
    least = {name: 2.0**-25 * apart(one, 0.0) for name, one in exact.items()}
    least["the loss"] = max(least["the loss"], *(2.0**-25 * apart(one, 0.0) for one in inputs))
    return {name: FACTOR * max(apart(rounded[name], one), least[name]) for name, one in exact.items()}


def named(loss, gradients, values):
    """What a step gives, by name."""
    made = {"the loss": loss}
    made |= {f"the gradient of {name}": one for name, one in gradients.items()}
    return made | {f"the new {name}": one for name, one in values.items()}


def disturbed(model, step, batch, state, exact, random):
    """How far results move where weights and data are off by a rounding error of f32: a kink may lie between."""
    moved = dict.fromkeys(exact, 0.0)
    near = Torch(model.loss, state[0], "f64")

    def off(one):
        return one * (1 + random.choice((-1.0, 1.0), one.shape) * 2.0**-24) if one.dtype.kind == "f" else one

    for _ in range(DISTURBED):
        near.go_to(step, {name: off(one.astype("f8")) for name, one in state[0].items()}, state[1])
        loss, gradients = near.step([off(one.astype("f8")) if one.dtype.kind == "f" else one for one in batch])
        for name, one in named(loss, gradients, near.arrays()).items():
            moved[name] = max(moved[name], apart(one, exact[name]))
    return moved


def compare_steps_in_f32(model, args):
    values = model.weights(numpy.random.default_rng(args.seed))
    own, other = Own(model.program, values, "f32"), Torch(model.loss, values, "f32")
    exact = Torch(model.loss, values, "f64")
    random, noise = numpy.random.default_rng(args.seed + 1), numpy.random.default_rng(args.seed + 2)
    kinds, kinks, beyond = {}, 0, []
    for step in range(1, args.steps + 1):
        batch = model.batch(random, step, "f32")
        state = other.arrays(), other.moments()
        own.values, own.moments = dict(state[0]), dict(state[1])
        exact.go_to(step, *state)
        found = named(*own.step(step, batch), own.values)
        rounded = named(*other.step(batch), other.arrays())
        wanted = named(*exact.step(batch), exact.arrays())
        allowed = tolerances(wanted, rounded, [*state[0].values(), *(one for one in batch if one.dtype.kind == "f")])
        distances = {name: apart(one, wanted[name]) for name, one in found.items()}
        if any(distance > allowed[name] for name, distance in distances.items()):
            kinks += 1
            moved = disturbed(model, step, batch, state, wanted, noise)
            allowed = {name: one + moved[name] for name, one in allowed.items()}
            beyond += [f"step {step}: {name}: {distance:.2e}, the bound is {allowed[name]:.2e}" for name, distance in distances.items() if not distance <= allowed[name]]
        for name, distance in distances.items():
            kind = " ".join(name.split()[:2])
            share, where = distance / allowed[name] if distance else 0.0, f"{name} in step {step}"
            kinds.setdefault(kind, []).append((share, where))
    for kind, shares in kinds.items():
        share, where = max(shares)
        print(f"{kind}: {len(shares)} compared, at most {share:.2f} of the bound: {where}; median {sorted(shares)[len(shares) // 2][0]:.3f}")
    print(f"{kinks} of {args.steps} steps beyond the rounding error of PyTorch by {FACTOR}, and {len(beyond)} tensors beyond that of disturbed runs")
    print("\n".join(beyond[:20]))
    return not beyond


def run_free_in_f32(model, args):
    """Whether the final loss is as far from that of a run in f64 as PyTorch's is, at most, in the median of the seeds.

    All runs in f32 leave that in f64 by chance. Those of PyTorch share most of their roundings, so their distance to each other says
    how much its sums depend on threads, and not how far a run in f32 may be off.
    """
    names = ("relax", "PyTorch, 1 thread", "PyTorch, 2 threads")
    to_exact, to_one, between = {name: [] for name in names}, {name: [] for name in names}, 0
    for seed in range(args.seed, args.seed + args.seeds):
        values = model.weights(numpy.random.default_rng(seed))
        own, exact = Own(model.program, values, "f32"), Torch(model.loss, values, "f64")
        others = [Torch(model.loss, values, "f32", threads) for threads in (1, 2)]
        random = numpy.random.default_rng(seed + 1)
        for step in range(1, args.steps + 1):
            batch = model.batch(random, step, "f32")
            losses = (own.step(step, batch)[0], *(other.step(batch)[0] for other in others))
            wanted = exact.step(batch)[0]
        between += min(losses[1:]) <= losses[0] <= max(losses[1:])
        for name, loss in zip(names, losses):
            to_exact[name].append(apart(loss, wanted) / abs(wanted))
            to_one[name].append(apart(loss, losses[1]) / abs(losses[1]))
        print(f"seed {seed}: final loss {losses[0]:.8f}, PyTorch's {losses[1]:.8f} with 1 thread, {losses[2]:.8f} with 2, {wanted:.8f} in f64")
    print(f"between PyTorch's two: {between} of {args.seeds}; a third of them if all three differ by chance alone")
    for what, columns in (("PyTorch, 1 thread", to_one), ("the run in f64", to_exact)):
        for name, column in columns.items():
            print(f"relative distance to {what}: {name}: median {numpy.median(column):.1e}, greatest {max(column):.1e}")
    median = {name: numpy.median(column) for name, column in to_exact.items()}
    return median["relax"] <= max(median[name] for name in names[1:])


def main(model):
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=NUMPY, default="f64")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the weights; the next one is that of the data")
    parser.add_argument("--free", action="store_true", help="in f32 each side on its own results, instead of from PyTorch's state")
    parser.add_argument("--seeds", type=int, default=8, help="how many runs, with --free")
    args = parser.parse_args()
    torch.set_num_threads(1)
    run = run_free_in_f64 if args.dtype == "f64" else run_free_in_f32 if args.free else compare_steps_in_f32
    return 0 if run(model, args) else 1
