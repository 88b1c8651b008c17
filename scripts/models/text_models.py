"""Models of text: BERT-like, GPT-2-like, T5-like, Llama-like, and a mixture of experts."""

import torch
from layers import Attention, Block, FeedForward, RMSNorm, attend, causal_bias, join_heads, rotary, split_heads
from torch import nn
from torch.nn import functional

WORDS, WIDTH, HEADS = 50, 16, 2


class Bert(nn.Module):
    """Encoder with learned positions, token types and a padding mask; norms last."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(64, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, functional.gelu, norm_first=False) for _ in range(2))
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens, types, mask):
        positions = torch.arange(tokens.shape[1])
        x = self.norm(self.words(tokens) + self.positions(positions) + self.types(types))
        bias = (1.0 - mask[:, None, None, :].to(torch.float32)) * -1e4
        for block in self.blocks:
            x = block(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2(nn.Module):
    """Decoder with learned positions; the last layer shares the embedding's weights."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(
            Block(WIDTH, HEADS, lambda x: functional.gelu(x, approximate="tanh")) for _ in range(2)
        )
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.words(tokens) + self.positions(torch.arange(length))
        bias = causal_bias(length, length, tokens.device)
        for block in self.blocks:
            x = block(x, bias)
        return self.norm(x) @ self.words.weight.T


class T5Layer(nn.Module):
    """Self-attention with relative positions, in decoders attention over the encoder, gated feed-forward."""

    def __init__(self, is_decoder):
        super().__init__()
        self.norms = nn.ModuleList(RMSNorm(WIDTH) for _ in range(3))
        self.own = Attention(WIDTH, HEADS)
        self.cross = Attention(WIDTH, HEADS) if is_decoder else None
        self.feed = FeedForward(WIDTH, 2 * WIDTH, torch.relu)

    def forward(self, x, bias, memory=None):
        x = x + self.own(self.norms[0](x), bias=bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory=memory)
        return x + self.feed(self.norms[2](x))


class T5(nn.Module):
    """Encoder and decoder with biases by relative position, clamped to eight buckets a side."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.relative = nn.Embedding(17, HEADS)
        self.encoder = nn.ModuleList(T5Layer(is_decoder=False) for _ in range(2))
        self.decoder = nn.ModuleList(T5Layer(is_decoder=True) for _ in range(2))
        self.norm = RMSNorm(WIDTH)

    def bias(self, length):
        positions = torch.arange(length)
        distance = torch.clamp(positions[None, :] - positions[:, None], -8, 8) + 8
        return self.relative(distance).permute(2, 0, 1)[None]

    def forward(self, source, target):
        memory = self.words(source)
        bias = self.bias(source.shape[1])
        for layer in self.encoder:
            memory = layer(memory, bias)
        x = self.words(target)
        length = target.shape[1]
        bias = self.bias(length) + causal_bias(length, length, target.device)
        for layer in self.decoder:
            x = layer(x, bias, memory)
        return self.norm(x) @ self.words.weight.T


class LlamaLayer(nn.Module):
    """RMSNorm, rotary positions, grouped queries over a cache, SwiGLU."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x, keys, values):
        """The keys and values so far (batch, heads, past, size), and those with this call's."""
        past, length = keys.shape[2], x.shape[1]
        positions = torch.arange(length) + past
        h = self.norm1(x)
        q = rotary(split_heads(self.query(h), 4), positions)
        k = rotary(split_heads(self.key(h), 2), positions)
        keys = torch.cat((keys, k), dim=2)
        values = torch.cat((values, split_heads(self.value(h), 2)), dim=2)
        bias = causal_bias(length, past + length, x.device)
        wide_keys = keys.repeat_interleave(2, dim=1)
        wide_values = values.repeat_interleave(2, dim=1)
        x = x + self.out(join_heads(attend(q, wide_keys, wide_values, bias)))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h)), keys, values


class Llama(nn.Module):
    """Decoder with a cache of two layers: with an empty cache it is `prefill`, with one token `decode`."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens, keys0, values0, keys1, values1):
        x = self.words(tokens)
        x, keys0, values0 = self.layers[0](x, keys0, values0)
        x, keys1, values1 = self.layers[1](x, keys1, values1)
        return self.head(self.norm(x)), keys0, values0, keys1, values1


class Experts(nn.Module):
    """A mixture of four experts: each token goes to the two that its router likes best, by `nonzero`."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(FeedForward(WIDTH, 2 * WIDTH, functional.silu) for _ in range(4))

    def forward(self, x):
        batch, length, width = x.shape
        flat = x.reshape(batch * length, width)
        weights, chosen = torch.topk(torch.softmax(self.router(flat), dim=-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, slots = torch.nonzero(chosen == index, as_tuple=True)
            part = expert(flat[rows]) * weights[rows, slots][:, None]
            result = result.index_add(0, rows, part)
        return result.reshape(batch, length, width)
