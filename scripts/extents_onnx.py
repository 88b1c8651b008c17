"""Writes the models of import/tests/extents.rs into the folder that is given: operators over extents that only the run
knows. The test imports each with symbolic dims and with numbers. Needs the package onnx."""

import sys
from pathlib import Path

from onnx import parser, save

HEAD = '<ir_version: 10, opset_import: ["" : 24]>\n'

# By scales: one below 1, one above, neither a fraction that is short.
SCALES = """g (float[n,2,h,w] x) => (float[n,2,p,q] y) {{
  scales = Constant <value = float[4] {{1.0, 1.0, {high}, {wide}}}>()
  y = Resize <{attributes}> (x, , scales)
}}"""
# By the extents of another tensor.
SIZES = """g (float[n,2,h,w] x, float[a,b] like) => (float[n,2,p,q] y) {{
  axes = Constant <value = int64[2] {{2, 3}}>()
  region = Constant <value = float[4] {{0.25, -0.5, 0.75, 1.25}}>()
  sizes = Shape (like)
  y = Resize <axes = [2, 3], {attributes}> (x, region, , sizes)
}}"""
# By scales that the run computes.
COMPUTED = """g (float[n,2,h,w] x, float[a,b] like) => (float[n,2,p,q] y) {{
  ones = Constant <value = float[2] {{1.0, 1.0}}>()
  to = Shape (like)
  from = Shape <start = 2> (x)
  above = Cast <to = 1> (to)
  below = Cast <to = 1> (from)
  space = Div (above, below)
  scales = Concat <axis = 0> (ones, space)
  y = Resize <{attributes}> (x, , scales)
}}"""

# All modes; each coordinate transformation with one of them at least.
RESIZES = {
    "nearest_floor": (SIZES, 'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'),
    "nearest_ceil": (SIZES, 'mode = "nearest", coordinate_transformation_mode = "align_corners", nearest_mode = "ceil"'),
    "nearest_half": (SCALES, 'mode = "nearest", nearest_mode = "round_prefer_ceil"'),
    "nearest_round": (COMPUTED, 'mode = "nearest", coordinate_transformation_mode = "pytorch_half_pixel"'),
    "linear": (SIZES, 'mode = "linear"'),
    "linear_corners": (SIZES, 'mode = "linear", coordinate_transformation_mode = "align_corners"'),
    "linear_symmetric": (SCALES, 'mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric"'),
    "linear_crop": (SIZES, 'mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 7.0'),
    "linear_antialias": (SIZES, 'mode = "linear", antialias = 1'),
    "linear_larger": (SIZES, 'mode = "linear", keep_aspect_ratio_policy = "not_smaller"'),
    "cubic": (SIZES, 'mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel"'),
    "cubic_outside": (COMPUTED, 'mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5'),
    "cubic_antialias": (SCALES, 'mode = "cubic", antialias = 1'),
    "cubic_antialias_outside": (SIZES, 'mode = "cubic", antialias = 1, exclude_outside = 1'),
}

# Weights are inputs: the test chooses them.
RECURRENT = """g (float[{shape}] x, float[{d},{g},3] w, float[{d},{g},2] r, float[{d},{b}] bias{state}) => (float[p,q,u,v] y, {ends}) {{
  y, {names} = {operator} <hidden_size = 2, {attributes}> (x, w, r, bias{passed})
}}"""


def recurrent(operator, gates, directions, attributes, state=False, batch_first=False):
    states = "float[{0},{1},2] ".format(*(("n", directions) if batch_first else (directions, "n")))
    has_cell = operator == "LSTM"
    given = f", {states} h, {states} c" if has_cell else f", {states} h"
    return RECURRENT.format(
        operator=operator, attributes=attributes, d=directions, g=2 * gates, b=4 * gates,
        shape="n,t,3" if batch_first else "t,n,3", state=given if state else "",
        ends="float[i,j,k] hn" + (", float[i,j,k] cn" if has_cell else ""), names="hn, cn" if has_cell else "hn",
        passed=", , h" + (", c" if has_cell else "") if state else "")


SAME = """g (float[n,2,h,w] x, float[3,2,3,2] k) => (float[n,3,p,q] y, float[n,2,r,s] m, float[n,2,t,u] a, float[n,2,i,j] t) {{
  y = Conv <auto_pad = "SAME_{side}", strides = [2, 1], dilations = [1, 2]> (x, k)
  t = ConvTranspose <auto_pad = "SAME_{side}", strides = [2, 3]> (y, k)
  m = MaxPool <auto_pad = "SAME_{side}", kernel_shape = [3, 2], strides = [2, 3]> (x)
  a = AveragePool <auto_pad = "SAME_{side}", kernel_shape = [2, 3], strides = [3, 1]> (x)
}}"""

# The first so many rows of a table, at most all, added to as many: positions of a text.
LIMITED = """g (float[b,n,2] x, float[5,2] table) => (float[b,n,2] y) {{
  zero = Constant <value = int64[1] {{0}}>()
  end = Shape <start = 1, end = 2> (x)
  rows = Slice (table, zero, end, zero)
  y = Add (x, rows)
}}"""
# How many strides fit behind the first element.
STRIDES = """g (float[n,3] x) => (float[p] y) {{
  one = Constant <value = int64 {{1}}>()
  zero = Constant <value = int64 {{0}}>()
  four = Constant <value = int64 {{4}}>()
  first = Constant <value = int64[1] {{0}}>()
  shape = Shape <start = 0, end = 1> (x)
  extent = Squeeze (shape, first)
  rest = Sub (extent, one)
  strides = Div (rest, four)
  count = Add (strides, one)
  numbers = Range (zero, count, one)
  y = Cast <to = 1> (numbers)
}}"""

# To a multiple of 4 on both sides of the second axis.
PAD = """g (float[n,h] x) => (float[p,q] y) {{
  four = Constant <value = int64 {{4}}>()
  zero = Constant <value = int64[1] {{0}}>()
  extent = Shape <start = 1> (x)
  over = Mod (extent, four)
  rest = Sub (four, over)
  width = Mod (rest, four)
  pads = Concat <axis = 0> (zero, width, zero, width)
  value = Constant <value = float {{2.5}}>()
  y = Pad <mode = "{mode}"> (x, pads, {value})
}}"""

# Lengths without padding, of operator set 24; the last query sees all keys of its batch.
LENGTHS = """g (float[b,1,q,2] x, float[b,1,k,2] keys, int64[b] lengths) => (float[b,1,q,2] y) {{
  y = Attention <is_causal = 1> (x, keys, keys, , , , lengths)
}}"""
# An operator that is not imported.
MISSING = """g (float[n,2,2] x) => (float[n] y) {{
  y = Det (x)
}}"""

MODELS = {
    "lengths": LENGTHS.format(),
    "missing": MISSING.format(),
    **{f"pad_{mode}": PAD.format(mode=mode, value="value" if mode == "constant" else "")
       for mode in ("constant", "edge", "reflect", "wrap")},
    "limited": LIMITED.format(),
    "strides": STRIDES.format(),
    **{f"resize_{name}": text.format(attributes=attributes, high=0.6, wide=1.7)
       for name, (text, attributes) in RESIZES.items()},
    "rnn": recurrent("RNN", 1, 1, 'direction = "reverse"'),
    "gru": recurrent("GRU", 3, 2, 'direction = "bidirectional", linear_before_reset = 1', state=True),
    "lstm": recurrent("LSTM", 4, 2, 'direction = "bidirectional", layout = 1', state=True, batch_first=True),
    "lstm_plain": recurrent("LSTM", 4, 1, 'direction = "forward"'),
    "same_upper": SAME.format(side="UPPER"),
    "same_lower": SAME.format(side="LOWER"),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, text in MODELS.items():
        # The newest set stands for all of them here: what these operators mean did not change.
        save(parser.parse_model(HEAD + text), folder / f"{name}.onnx")
