#!/usr/bin/env python3
"""Records small programs of PyTorch as descriptions, and what PyTorch computes.

    scripts/torch_programs.py [NAME …]   # writes import/tests/aten/, of these programs or of all
    scripts/torch_programs.py --check    # compares relaxc with PyTorch instead; exit code 1 where they differ

It needs the package relaxc and torch. Sizes 0 and 1 are among the cases: PyTorch computes them eagerly, not by the export.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import warnings
from typing import Any, Callable

import torch
from torch.export import Dim, export

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "import" / "tests" / "aten"
SIZES = (0, 1, 2, 5)


class Program(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def floats(*shape: int) -> torch.Tensor:
    """Of both signs, with NaN and infinities where there are many."""
    count = math.prod(shape)
    values = torch.tensor([((at * 37 + 11) % 101) / 25.25 - 2.0 for at in range(count)])
    for place, value in enumerate((math.nan, math.inf, -math.inf, -0.0)):
        if count > 4 * place + 6:
            values[4 * place + 2] = value
    return values.reshape(shape)


def finite(*shape: int) -> torch.Tensor:
    count = math.prod(shape)
    return torch.tensor([((at * 37 + 11) % 101) / 25.25 - 2.0 for at in range(count)]).reshape(shape)


def ints(*shape: int) -> torch.Tensor:
    count = math.prod(shape)
    return torch.tensor([(at * 7 + 3) % 11 - 5 for at in range(count)], dtype=torch.int64).reshape(shape)


def bools(*shape: int) -> torch.Tensor:
    return ints(*shape) > 0


def unary(x, i, b):
    y = x.abs() + 0.25
    # PyTorch's vectorized gelu has NaN for infinity, its scalar one infinity.
    bounded = x.clamp(-4, 4)
    return (
        x.abs(), i.abs(), x.ceil(), x.floor(), x.trunc(), x.round(), -x, -i, x.sign(), i.sign(), x.relu(), i.relu(),
        x.isnan(), x.isinf(), i.isnan(), b.logical_not(), x.logical_not(), i.bitwise_not(), b.bitwise_not(), x.cos(), i.sin(),
        x.exp(), y.log(), y.log2(), y.log10(), x.log1p(), x.expm1(), i.expm1(), x.erf(), y.rsqrt(), y.sqrt(), x.sigmoid(), i.sigmoid(),
        x.tanh(), x.atan(), x.asinh(), x.reciprocal(), i.reciprocal(), torch.nn.functional.gelu(bounded),
        torch.nn.functional.gelu(bounded, approximate="tanh"), torch.nn.functional.leaky_relu(x, 0.2), torch.nn.functional.elu(x, 1.5),
        torch.nn.functional.hardtanh(x, -0.5, 0.75), x.clamp(-1, 0.5), i.clamp(-2, 3), x.clamp(min=1), i.clamp(max=0.5),
        x.clamp(1, -1), x.nan_to_num(), x.to(torch.float64), x.to(torch.bool), i.to(torch.float32), b.to(torch.int64),
    )  # fmt: skip


def binary(x, i, b):
    y, j = x.flip(0) + 0.5, i.flip(0)
    k = torch.where(j == 0, 3, j)
    return (
        x + y, x + i, i + b, b + b, x + 2, i + 2.5, b + 1, b + True, torch.add(x, y, alpha=3), x - y, 2 - x, i - 1, torch.sub(i, j, alpha=2),
        x * y, i * x, b * b, i * 3, x / y, i / k, i / 4, b / 2, torch.div(x, y, rounding_mode="floor"),
        torch.div(i, k, rounding_mode="floor"), torch.div(i, k, rounding_mode="trunc"), torch.div(x, y, rounding_mode="trunc"),
        i // 3, i % 3, i % -3, x % 0.75, torch.fmod(i, k), torch.fmod(x, 0.75), x**2, y.abs() ** 0.5, i**2, i**j, 2**x,
        x.atan2(y), x.maximum(y), i.minimum(j), b.maximum(i > 2), x == y, i == x, i != j, x < y, i <= 2, x > 0.5, i >= 1.5, b == True,
        x.logical_and(i), i.logical_or(b), b.logical_xor(x), i & 3, i | j, i ^ j, b & (i > 2), torch.where(b, x, i), torch.where(b, 1, i),
    )  # fmt: skip


def reductions(x, i, b):
    # PyTorch's mean beside a variance has NaN for infinity, its mean alone infinity.
    bounded = x.nan_to_num(0.5, 1.0, -1.0)
    return (
        x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), i.sum(-1), b.sum(), x.prod(1), i.prod(0), b.prod(), x.mean(), x.mean(0), x.mean(-1, True),
        x.amax(1), x.amin(-1, keepdim=True), *x.max(1), *i.min(-1, keepdim=True), x.any(), i.any(0), b.all(1), b.all(),
        x.argmax(1), i.argmin(1, keepdim=True), x.var(1), x.var((0, 1), correction=0), *torch.var_mean(bounded, 0, correction=0),
        x.cumsum(0), i.cumsum(1), b.cumsum(1), x.softmax(-1), x.log_softmax(0), x.logsumexp(1), x.norm(), x.std(1),
    )  # fmt: skip


def movement(x, i, b):
    n = x.shape[0]
    return (
        x.reshape(-1), x.reshape(n, 2, -1), x.view(n * 6), x.t(), x.permute(1, 0), x.transpose(0, -1), x.unsqueeze(0), x.unsqueeze(-1),
        x.unsqueeze(1).squeeze(1), x[:, :1].expand(-1, 4), x[:, 1], x[:, -2], x[1:], x[:-1], x[:, 1:5:2], x[::2], x[:, 7:], x[:, -3:],
        torch.cat((x, x), 0), torch.cat((x, i), 1), torch.stack((x, x), 1), *x.split([1, 5], 1), *x.chunk(3, 1), x.repeat(2, 3), x.flip(0, 1),
        x.narrow(1, 2, 3), x.diagonal(), x.diagonal(1), x.diagonal(-1, 1, 0), torch.nn.functional.pad(x, (1, 2)),
        torch.nn.functional.pad(i, (0, 0, 1, 2), value=7), torch.nn.functional.pad(x, (-1, 2)), x.tril(), i.triu(1), b.tril(-1),
        torch.nn.functional.pad(x.unsqueeze(0), (2, 1), mode="reflect"), torch.nn.functional.pad(x.unsqueeze(0), (2, 1), mode="replicate"),
        x.as_strided((2, 3), (2, 1), 1), x.roll(1, 1), x.new_zeros(n, 2), x.new_full((n,), 3.5), torch.arange(n),
        torch.arange(1, 2 * n + 1, 2), torch.full((n, 2), True), torch.ones_like(i), torch.zeros(n, dtype=torch.int32), torch.arange(0, 1, 0.25),
        torch.eye(4)[:2], x.contiguous(), x.clone().detach(),
    )  # fmt: skip


def indexing(x, i, b):
    places = i.abs() % 6
    rows = torch.tensor([5, 0, -1])
    cube = x.unsqueeze(1).expand(-1, 2, -1)
    return (
        x.gather(1, places), x.index_select(1, places[:, 0]), x[:, rows], x.T[rows], cube[:, torch.tensor([0, 1, 1]), rows],
        cube[:, :, rows], cube.permute(2, 0, 1)[rows, :, torch.tensor([0, 1, 1])], x[b], i[i > 2], b.nonzero(), x.masked_fill(b, 9.0),
        x.scatter(1, places, x * 2), x.scatter(1, places[:, :1], 1.5), x.scatter_add(1, places, x), x.scatter_reduce(1, places, x, "amax"),
        torch.nn.functional.embedding(places, torch.arange(12.0).reshape(6, 2)), x.index_put((torch.arange(x.shape[0]), places[:, 0]), x[:, 0]),
        x.slice_scatter(x[:, :2] + 1, 1, 1, 3), x.select_scatter(x[:, 0] * 3, 1, -1), i.masked_scatter(b, i.flip(0)), torch.arange(6.0).masked_scatter(b, x),
        *x.sort(dim=1, stable=True), *x.sort(dim=1, stable=True, descending=True), x.topk(2, 1)[0],
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    )  # fmt: skip


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.inner = torch.nn.Linear(6, 5)
        self.norm = torch.nn.LayerNorm(5)
        self.query = torch.nn.Parameter(torch.randn(5, 8))

    def forward(self, x, i, b):
        y = self.norm(self.inner(x))
        q = (y @ self.query).reshape(-1, 2, 4).transpose(0, 1)
        attended = torch.nn.functional.scaled_dot_product_attention(q[None], q[None], q[None], is_causal=True)
        return (
            y, q @ q.transpose(1, 2), torch.addmm(y, x, self.inner.weight.t(), beta=0.5, alpha=2.0),
            torch.einsum("ij,kj->ik", y, y), torch.baddbmm(q @ q.transpose(1, 2), q, q.transpose(1, 2), alpha=0.5), attended,
            torch.nn.functional.layer_norm(x, (6,)), torch.nn.functional.rms_norm(x, (6,), eps=1e-6), i @ i.t(),
        )  # fmt: skip


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = torch.nn.Conv2d(2, 4, 3, padding=1, stride=2)
        self.group = torch.nn.GroupNorm(2, 4)
        self.batch = torch.nn.BatchNorm2d(4)
        self.batch.running_mean.normal_()
        self.up = torch.nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1)
        self.line = torch.nn.Conv1d(7, 3, 2, dilation=2, groups=1)
        self.space = torch.nn.Conv3d(1, 2, 2)

    def forward(self, x):
        f = torch.nn.functional
        y = self.first(x)
        return (
            y, self.group(y), self.batch(y), self.up(y), f.max_pool2d(x, 3, 2, 1), f.max_pool2d(x, 2, ceil_mode=True), f.avg_pool2d(x, 2),
            f.avg_pool2d(x, 3, 2, 1, count_include_pad=False), f.avg_pool2d(x, 2, divisor_override=3), f.adaptive_avg_pool2d(x, (2, 3)),
            f.adaptive_avg_pool1d(x[:, 0], 3), f.adaptive_avg_pool2d(x, 1), f.interpolate(x, scale_factor=2.0, mode="nearest"),
            f.interpolate(x, size=(4, 9), mode="bilinear"), f.interpolate(x, size=(4, 9), mode="bilinear", align_corners=True),
            self.line(x[:, 0]), self.space(x[:, None]), f.avg_pool1d(x[:, 0], 2), f.pixel_shuffle(f.pad(x, (0, 0, 0, 0, 1, 1)), 2),
        )  # fmt: skip


def gradients(x):
    """Of images (n, 2, 7, 6). The gradients of results are sines of these."""
    a, both = torch.ops.aten, [True, True, True]
    wave = lambda *shape: torch.sin(torch.arange(float(math.prod(shape)))).reshape(shape)  # noqa: E731
    results: list[torch.Tensor] = []

    def convolution(x, w, stride, padding, dilation, transposed, added, groups):
        more = (stride, padding, dilation, transposed, added, groups)
        y = a.convolution(x, w, None, *more)
        results.extend(a.convolution_backward(y.sin(), x, w, [y.shape[1]], *more, both))

    convolution(x, wave(4, 2, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    convolution(x, wave(4, 1, 2, 3), [3, 1], [0, 2], [2, 1], False, [0, 0], 2)
    convolution(x, wave(2, 3, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1)
    convolution(x[:, :, 0], wave(3, 2, 2), [2], [0], [1], False, [0], 1)
    # Eight elements in two channels, of which some are equal.
    coarse = (x * 2).round()
    for kernel, stride, padding, dilation, ceil in (([3, 3], [2, 2], [1, 1], [1, 1], False), ([2, 3], [3, 2], [1, 0], [2, 1], True)):
        y, places = a.max_pool2d_with_indices(coarse, kernel, stride, padding, dilation, ceil)
        results += [places, a.max_pool2d_with_indices_backward(y.sin(), coarse, kernel, stride, padding, dilation, ceil, places)]
    for window in (([3, 2], [2, 2], [1, 1], False, False, None), ([3, 3], [2, 3], [1, 0], True, True, None), ([2, 2], [], [0, 0], False, True, 3)):
        results.append(a.avg_pool2d_backward(a.avg_pool2d(x, *window).sin(), x, *window))
    results.append(a._adaptive_avg_pool2d_backward(a._adaptive_avg_pool2d(x, [2, 4]).sin(), x))
    return tuple(results)


#: What `torch.compile` leaves as it is in training, and an export decomposes.
WHOLE = (
    "aten.native_batch_norm_backward.default",
    "aten.native_group_norm_backward.default",
    "aten.native_layer_norm_backward.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
)


def whole_gradients(x):
    """Of images (n, 2, 7, 6), which are heads too."""
    a, both = torch.ops.aten, [True, True, True]
    many = torch.cat((x, x.cos()), 1)
    weight, bias, mean, spread = (torch.sin(torch.arange(4.0) + at) + at for at in range(4))
    y, center, rstd = a.native_group_norm(many, weight, bias, x.shape[0], 4, 42, 2, 1e-5)
    results = [*a.native_group_norm_backward(y.sin(), many, center, rstd, weight, x.shape[0], 4, 42, 2, both)]
    y, center, rstd, *updated = a._native_batch_norm_legit_functional(many, weight, bias, mean, spread, True, 0.25, 1e-5)
    results += [y, center, rstd, *updated]
    for training in (True, False):
        results += a.native_batch_norm_backward(y.sin(), many, weight, mean, spread, center, rstd, training, 1e-5, both)
    y, center, rstd = a.native_layer_norm(x, [6], None, None, 1e-5)
    results.append(a.native_layer_norm_backward(y.sin(), x, [6], center, rstd, None, None, [True, False, False])[0])
    k, v = x[:, :, 1:5].cos(), x[:, :, 1:5].sin()
    mask = torch.sin(torch.arange(28.0)).reshape(7, 4)
    mask = mask.masked_fill(mask > 0.8, -math.inf)
    for keys, causal, more in ((x, True, {}), (k, False, {"attn_mask": mask, "scale": 0.75})):
        values = v if keys is k else x.sin()
        out, sums = a._scaled_dot_product_flash_attention_for_cpu(x, keys, values, 0.0, causal, **more)
        given = (out.sin(), x, keys, values, out, sums, 0.0, causal)
        results += [out, sums, *a._scaled_dot_product_flash_attention_for_cpu_backward(*given, **more)]
    return tuple(results)


def windows(x):
    """Averages of windows, in some of which there is an infinity and a NaN."""
    f = torch.nn.functional
    return f.adaptive_avg_pool1d(x[:, :, 0, 0], 3), f.adaptive_avg_pool3d(x, (4, 2, 3)), f.adaptive_avg_pool2d(x[:, :, 0], (1, 2))


def distances(x, i, b):
    f = torch.nn.functional
    places = i.abs().reshape(-1) % 5
    # Every second run is empty.
    begins = torch.arange(0, places.shape[0], 4).repeat_interleave(2)
    ends = torch.cat((begins, begins.new_full((1,), places.shape[0])))
    table = x.new_zeros(5, 3) + torch.arange(15.0).reshape(5, 3) - 7.5
    bag = lambda mode, offsets, **more: f.embedding_bag(places, table, offsets, mode=mode, **more)  # noqa: E731
    return (
        *(torch.cdist(x, x.flip(1)[1:] + 0.5, p) for p in (0.0, 1.0, 2.0, 3.0, math.inf)), torch.cdist(x.unsqueeze(0), x.unsqueeze(1), 1.0),
        *(f.pdist(x, p) for p in (0.0, 1.0, 2.0, 2.5, math.inf)), *(bag(mode, begins) for mode in ("sum", "mean", "max")),
        *(bag(mode, begins, padding_idx=2) for mode in ("sum", "mean", "max")), bag("mean", ends, include_last_offset=True),
        bag("sum", begins, per_sample_weights=x.reshape(-1)),
    )  # fmt: skip


def special(x, i, b):
    """Functions of the gamma family, at poles, at both zeros and at infinities too."""
    poles = torch.cat((x, torch.tensor([[-math.inf, -3.0, -0.0, 0.0, 1.0, 40.0]])))
    orders = (torch.polygamma(order, x.double() * 3.75) for order in range(1, 5))
    return (
        x.lgamma(), (x * 30).lgamma(), poles.lgamma(), (i - 2).lgamma(), x.digamma(), (x * 30).digamma(), poles.digamma(), b.digamma(), *orders,
        x.exp2(), i.exp2(), b.exp2(), b.clamp_max(i > 2), b.clamp_min(i > 2), (i * 1000).lgamma(),
    )  # fmt: skip


def reduced_writes(x, i, b):
    """Sums, products, means and extremes of what is written to one place, with and without what stood there."""
    places = i.abs() % 6
    few = places[:, :2]
    row = torch.tensor([4, 0, 4])
    ways = [(by, own) for by in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)]
    return (
        *(x.scatter_reduce(1, places, x * 2, by, include_self=own) for by, own in ways),
        *(i.scatter_reduce(1, few, i, by, include_self=own) for by, own in ways),
        *(b.scatter_reduce(1, few, b, by, include_self=own) for by, own in ways if by != "mean"),
        *(x.index_reduce(1, row, x[:, :3] + 1, by, include_self=own) for by, own in ways if by != "sum"),
        *(i.index_reduce(1, row, i[:, 1:4], by, include_self=own) for by, own in ways if by != "sum"),
        x.scatter(1, few, x, reduce="add"), i.scatter(1, few, i, reduce="multiply"), x.scatter(1, few, 1.5, reduce="multiply"),
    )  # fmt: skip


def spaces(x):
    """Of images in space (n, 2, 5, 4, 6): transposed convolutions, places of maxima, averages of integers."""
    f = torch.nn.functional
    wave = lambda *shape: torch.sin(torch.arange(float(math.prod(shape)))).reshape(shape)  # noqa: E731
    whole = (x * 40).to(torch.int64)
    plane, line = whole[:, :, 0], whole[:, 0, 0]
    return (
        f.conv_transpose3d(x, wave(2, 3, 3, 2, 2), wave(3), (2, 1, 2), (1, 0, 1), (1, 0, 0)),
        f.conv_transpose3d(x, wave(2, 2, 2, 3, 1), None, 1, (2, 1, 0), 0, 2, 2), f.conv_transpose3d(x[0], wave(2, 1, 1, 1, 1), None, 3),
        f.conv_transpose2d(x[:, :, 0], wave(2, 2, 2, 2), None, (2, 1), 0, (1, 2), 1, 3),
        *f.max_pool3d((x * 2).round(), (3, 2, 2), (2, 1, 3), (1, 0, 1), (1, 2, 1), True, True), *f.max_pool3d(whole, 2, return_indices=True),
        f.avg_pool3d(whole, (2, 3, 2), (1, 2, 2), (1, 1, 0)), f.avg_pool2d(plane, (3, 2), 2, (1, 1), True), f.avg_pool1d(line, 4, 3, 2, True, False),
        f.avg_pool2d(plane, 2, 3, 1, True), f.avg_pool2d(plane, 3, 2, 1, True, False), f.avg_pool2d(plane, 3, 2, 1, True, True, 5),
        f.avg_pool3d(whole, 2, divisor_override=-3), f.avg_pool3d(x, 2, 3, 1, True, False), f.avg_pool3d(x, (3, 2, 2), 2, (1, 1, 0), True),
        f.avg_pool3d(whole, 2, 3, 1, True),
        f.avg_pool2d(x[:, :, 0], 3, 2, 1, True, True, 5), f.avg_pool2d(x[:, :, 0], (2, 4), (2, 3), (0, 2), True, False, 3),
    )  # fmt: skip


def ranges(x, i, b):
    """Ranges of integers between floats: PyTorch counts with the floats and computes with their whole parts."""
    n = x.shape[0]
    bounds = [(0, 6, 0.5), (-0.9, 2.1, 2.0), (2.1, -2.9, -1.0), (0.1, -7.9, -4.0), (5, 0, -0.5), (2.7,), (-2.7, 2.7), (3.5, 0.2, -1.5), (5.0, 5.0, 2.0),
              (0, 1.0, 0.3), (False, True, True), (True, 4)]  # fmt: skip
    whole = [torch.arange(*bound, dtype=dtype) for bound in bounds for dtype in (torch.int64, torch.int32)]
    floats = [torch.arange(*bound, dtype=torch.float32) for bound in bounds]
    return (*whole, *floats, torch.arange(n), torch.arange(n + 1, dtype=torch.float32), torch.arange(True, n + 3, 2), torch.arange(n, -3, -2))


def scalars(x, i, b):
    """Tensors of rank 0 and of no elements, and sums of bools."""
    number, flag, empty = x.sum(), b.any(), i[:, :0]
    twice = torch.tensor([0, 1, 1])
    return (
        number.index_select(0, torch.tensor([0])), flag.index_select(0, torch.tensor([0])), number.unfold(0, 1, 1), flag.unfold(0, 0, 2), flag.nonzero(),
        (number * 0).nonzero(), x[0].gather(0, empty[0]), number.gather(0, torch.tensor([0, 0])), b.index_add(1, twice, b[:, :3]),
        b.index_put((torch.tensor([0]), twice[1:]), torch.tensor([False, True]), accumulate=True),
    )  # fmt: skip


def branch(x):
    return x * 2 if x.shape[0] > 3 else x - 1


def lost_rows(x):
    return x.reshape(x.shape[0] // 4, 4, -1).sum(1)


def checked(x):
    torch._check(x.shape[0] <= 8, lambda: "at most eight rows")
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    torch._check(count <= 1000)
    return torch.ones(count) * 2, x + 1


def inputs(n: int) -> tuple[torch.Tensor, ...]:
    return floats(n, 6), ints(n, 6), bools(n, 6)


def finite_inputs(n: int) -> tuple[torch.Tensor, ...]:
    return finite(n, 6), ints(n, 6), bools(n, 6)


def image(n: int) -> tuple[torch.Tensor, ...]:
    return (finite(n, 2, 7, 6),)


def volume(n: int) -> tuple[torch.Tensor, ...]:
    x = finite(n, 7, 3, 5, 4)
    x[:, 2, 0, 0, 0] = math.inf
    x[:, 3, 0, 0, 0] = math.nan
    return (x,)


def space(n: int) -> tuple[torch.Tensor, ...]:
    return (finite(n, 2, 5, 4, 6),)


def rows(n: int) -> tuple[torch.Tensor, ...]:
    return (finite(n, 3),)


#: Name, program, arguments of n, n of the export, sizes of the cases, dynamic dims.
ROWS = {0: Dim.DYNAMIC}
PROGRAMS: list[tuple[str, torch.nn.Module, Callable[[int], Any], int, tuple[int, ...], Any]] = [
    ("unary", Program(unary), inputs, 4, SIZES, (ROWS,) * 3),
    ("binary", Program(binary), inputs, 4, SIZES, (ROWS,) * 3),
    ("reductions", Program(reductions), inputs, 4, (1, 2, 5), (ROWS,) * 3),
    ("movement", Program(movement), inputs, 4, (2, 3, 5), (ROWS,) * 3),
    ("indexing", Program(indexing), finite_inputs, 4, (1, 2, 5), (ROWS,) * 3),
    ("linear", Linear().eval(), finite_inputs, 4, SIZES, (ROWS,) * 3),
    ("images", Images().eval(), image, 3, (1, 2, 5), (ROWS,)),
    ("windows", Program(windows), volume, 3, (1, 2), (ROWS,)),
    ("gradients", Program(gradients), image, 3, (1, 2, 5), (ROWS,)),
    ("whole_gradients", Program(whole_gradients), image, 3, (1, 2, 5), (ROWS,)),
    ("distances", Program(distances), finite_inputs, 4, (1, 2, 5), (ROWS,) * 3),
    ("special", Program(special), finite_inputs, 4, SIZES, (ROWS,) * 3),
    ("reduced_writes", Program(reduced_writes), finite_inputs, 4, SIZES, (ROWS,) * 3),
    ("spaces", Program(spaces), space, 3, (1, 2), (ROWS,)),
    ("ranges", Program(ranges), finite_inputs, 4, (0, 1, 2, 5), (ROWS,) * 3),
    ("scalars", Program(scalars), finite_inputs, 4, (1, 2, 5), (ROWS,) * 3),
    ("branch", Program(branch), rows, 5, (4, 9), (ROWS,)),
    ("lost_rows", Program(lost_rows), rows, 8, (4, 12), (ROWS,)),
    ("checked", Program(checked), rows, 5, (0, 1, 8), (ROWS,)),
]


def exported(program: torch.nn.Module, arguments: Any, dynamic: Any) -> Any:
    wrapped = (dynamic,) if isinstance(program, Program) else dynamic
    made = export(program, arguments, dynamic_shapes=wrapped)
    if isinstance(program, Program) and program.function is whole_gradients:
        table = torch.export.default_decompositions()
        for target in [target for target in table if str(target) in WHOLE]:
            table.pop(target)
        decomposed = made.run_decompositions
        made.run_decompositions = lambda: decomposed(table)
    return made


def flat(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if leaf is not None]


def written(tensor: torch.Tensor) -> dict[str, Any]:
    def element(value: Any) -> Any:
        return repr(value) if isinstance(value, float) and not math.isfinite(value) else value

    data = [element(value) for value in tensor.detach().contiguous().reshape(-1).tolist()]
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "data": data}


def record(names: list[str]) -> int:
    import relaxc.torch

    FOLDER.mkdir(exist_ok=True)
    for name, program, arguments, traced, sizes, dynamic in PROGRAMS:
        if names and name not in names:
            continue
        relaxc.torch.save(exported(program, arguments(traced), dynamic), FOLDER / f"{name}.aten.json")
        cases = []
        for size in sizes:
            given = arguments(size)
            results = flat(program(*(one.clone() for one in given)))
            cases.append({"inputs": [written(one) for one in given], "outputs": [written(one) for one in results]})
        (FOLDER / f"{name}.cases.json").write_text(json.dumps(cases) + "\n")
    return 0


def check() -> int:
    import relaxc

    bad = 0
    for name, program, arguments, traced, sizes, dynamic in PROGRAMS:
        module = relaxc.compile(exported(program, arguments(traced), dynamic))
        for size in sizes:
            given = arguments(size)
            expected = flat(program(*(one.clone() for one in given)))
            found = module(*given)
            found = found if isinstance(found, tuple) else (found,)
            assert len(found) == len(expected), f"{name}: {len(found)} results for {len(expected)}"
            for place, (ours, theirs) in enumerate(zip(found, expected)):
                try:
                    torch.testing.assert_close(
                        torch.from_dlpack(ours), theirs.detach().contiguous(), rtol=1e-5, atol=1e-5, equal_nan=True
                    )
                except AssertionError as error:
                    bad += 1
                    print(f"{name}, n = {size}, result {place}: {' '.join(str(error).split())}")
    print(f"{len(PROGRAMS)} programs, {bad} different results")
    compiled_once()
    fallbacks()
    refusals()
    return int(bad > 0)


def compiled_once() -> None:
    """One compilation of `torch.compile` for seven sizes."""
    from relaxc.torch import backend, compilations, dynamic

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Softmax(-1)).eval()
    before = len(compilations())
    fast = dynamic(torch.compile(model, backend=backend), {"input": 0})
    with torch.no_grad():
        for rows in (5, 7, 13, 64, 1, 0, 2):
            given = finite(rows, 4)
            torch.testing.assert_close(fast(given), model(given), rtol=1e-5, atol=1e-5)
        made = compilations()[before:]
        assert len(made) == 1 and made[0].fallback is None, made
        print("torch.compile: 7 sizes, 1 compilation")
        # PyTorch's guards distinguish layouts, so these are compiled apart.
        strided = finite(4, 6).t()
        torch.testing.assert_close(fast(strided), model(strided), rtol=1e-5, atol=1e-5)


def fallbacks() -> None:
    """A graph that relaxc lacks is run by PyTorch, with a warning that says why."""
    import relaxc
    from relaxc.torch import backend

    def spectrum(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).abs()

    given = finite(6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(torch.compile(spectrum, backend=backend)(given), spectrum(given))
    said = [str(one.message) for one in caught if one.category is relaxc.FallbackWarning]
    assert len(said) == 1 and "_fft_r2c" in said[0] and "torch_programs.py" in said[0], said


def refusals() -> None:
    """Bad input is an exception that says what is wrong."""
    import relaxc

    def refused(function: Callable[[], Any], kind: type[BaseException], part: str) -> None:
        try:
            function()
        except kind as error:
            assert part in str(error), error
            return
        raise AssertionError(f"no error that says {part!r}")

    double = Program(lambda x: x * 2)
    module = relaxc.compile(export(double, (finite(3, 2),)))
    refused(lambda: module(finite(3, 2).requires_grad_()), relaxc.ArgumentError, "grad")
    refused(lambda: module(finite(3, 2).to_sparse()), relaxc.ArgumentError, "")
    refused(lambda: module(finite(3, 2).to(torch.complex64)), relaxc.ArgumentError, "type code 5")
    refused(lambda: module(finite(2, 2)), relaxc.Trap, "3")
    refused(lambda: module(finite(3, 2).double()), relaxc.Trap, "f64")
    refused(lambda: relaxc.compile(export(double, (finite(3, 2).to(torch.complex64),))), relaxc.UnsupportedError, "complex64")
    refused(lambda: relaxc.compile(export(Program(torch.rand_like), (finite(3),))), relaxc.UnsupportedError, "aten.rand_like")
    counting = torch.nn.BatchNorm1d(2)
    refused(lambda: relaxc.compile(export(counting, (finite(3, 2),))), relaxc.UnsupportedError, "writes to")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the programs that are written; all of them without one")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    sys.exit(check() if chosen.check else record(chosen.names))
