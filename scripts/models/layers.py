"""What the models of the corpus are made of: attention in its variants, norms, feed-forward layers.

Written out with plain operators, as authors of models write them: what an exporter makes of them is the import's to read.
"""

import math

import torch
from torch import nn


def split_heads(x, heads):
    """(batch, length, heads * size) to (batch, heads, length, size)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def join_heads(x):
    """The way back of `split_heads`."""
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * size)


def attend(q, k, v, bias=None):
    """Softmax attention; `bias` is added to the scores."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, dim=-1) @ v


def causal_bias(queries, keys, device):
    """0 where a query may look, -1e9 where it may not: the last query is at the last key."""
    rows = torch.arange(queries, device=device)[:, None] + (keys - queries)
    columns = torch.arange(keys, device=device)[None, :]
    return torch.where(columns <= rows, 0.0, -1e9)


class Attention(nn.Module):
    """Multi-head attention over `memory`, or over itself."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(memory), self.heads)
        v = split_heads(self.value(memory), self.heads)
        return self.out(join_heads(attend(q, k, v, bias)))


class FeedForward(nn.Module):
    """Two linear layers with an activation between."""

    def __init__(self, width, inner, activation):
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.activation = activation

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    """A transformer layer; the norms come first or, as in BERT, last."""

    def __init__(self, width, heads, activation, norm_first=True):
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed = FeedForward(width, 2 * width, activation)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.norm_first = norm_first

    def forward(self, x, bias=None):
        if self.norm_first:
            x = x + self.attention(self.norm1(x), bias=bias)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attention(x, bias=bias))
        return self.norm2(x + self.feed(x))


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight"""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotary(x, positions):
    """Rotary embedding of (batch, heads, length, size) at the positions (length,)."""
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions[:, None].to(torch.float32) * frequencies[None, :]
    cos, sin = torch.cos(angles), torch.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
