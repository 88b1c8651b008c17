"""Writes the models of import/tests/loops.rs into the folder that is given: loops that only the run ends, scans of any
length, values that grow, lists, names that mean two things, extents that are computed. Needs the package onnx."""

import sys
from pathlib import Path

from onnx import parser, save

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

MODELS = {
    # Sums along the middle axis, and their tanh in the reverse order, along the last axis.
    "scan": """g (float[b,t,4] x, float[b,4] s) => (float[b,4] final, float[b,4,t] all) {
  final, all = Scan <num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1], scan_output_directions=[1],
    body = body (float[b,4] h, float[b,4] e) => (float[b,4] h2, float[b,4] o) {
      h2 = Add(h, e)
      o = Tanh(h2)
  }> (s, x)
}""",
    # Doubles until an element is 100 or more, and at most so many times.
    "double": """g (float[n] x, int64 most) => (float[n] y, float[k,n] all) {
  yes = Constant <value = bool {1}>()
  y, all = Loop <body = body (int64 i, bool c, float[n] v) => (bool c2, float[n] v2, float[n] o) {
    two = Constant <value = float {2}>()
    limit = Constant <value = float {100}>()
    v2 = Mul(v, two)
    m = ReduceMax <keepdims=0>(v2)
    c2 = Less(m, limit)
    o = Identity(v)
  }> (most, yes, x)
}""",
    # Each iteration appends its number.
    "grow": """g (float[n] x, int64 most) => (float[k] y) {
  y = Loop <body = body (int64 i, bool c, float[a] v) => (bool c, float[q] v2) {
    one = Constant <value = int64[1] {1}>()
    f = Cast <to=1>(i)
    g = Reshape(f, one)
    v2 = Concat <axis=0>(v, g)
  }> (most, "", x)
}""",
    # A loop in a loop: i * j summed.
    "nested": """g (int64 a, int64 b) => (int64 y) {
  zero = Constant <value = int64 {0}>()
  y = Loop <body = outer (int64 i, bool c, int64 s) => (bool c, int64 s2) {
    s2 = Loop <body = inner (int64 j, bool d, int64 r) => (bool d, int64 r2) {
      p = Mul(i, j)
      r2 = Add(r, p)
    }> (b, "", s)
  }> (a, "", zero)
}""",
    # The parts of x, each doubled, as a list.
    "list": """g (seq(float[n]) xs) => (seq(float[n]) ys) {
  ys = SequenceMap <body = body (float[n] v) => (float[n] w) {
    w = Add(v, v)
  }> (xs)
}""",
    # A value of rank 1 that becomes one of rank 2.
    "rank": """g (float[n] x, int64 most) => (float[n] y) {
  y = Loop <body = body (int64 i, bool c, float[n] v) => (bool c, float[n] w) {
    first = Constant <value = int64[1] {0}>()
    w = Unsqueeze(v, first)
  }> (most, "", x)
}""",
    # An input, a result and two dims have one name each.
    "same": """g (float[n,x] n, float[x] x) => (float[n,x] y) {
  y = Add(n, x)
}""",
    # -1 beside dims of another tensor, which nobody proves to divide the number of elements.
    "left": """g (float[b,s,16] x, float[c,t] like) => (float[p,q,r,8] y) {
  dims = Shape(like)
  tail = Constant <value = int64[2] {-1, 8}>()
  shape = Concat <axis=0>(dims, tail)
  y = Reshape(x, shape)
}""",
    # Its graph takes a value more than it is given.
    "arity": """g (float[n] x, int64 most) => (float[n] y) {
  y = Loop <body = body (int64 i, bool c, float[n] v, float[n] u) => (bool c, float[n] w) {
    w = Add(v, u)
  }> (most, "", x)
}""",
}

for name, text in MODELS.items():
    save(parser.parse_model(HEAD + text), str(Path(sys.argv[1]) / f"{name}.onnx"))
