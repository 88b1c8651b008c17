"""A GGUF file of a Llama with random weights, 1.1 billion of them by default.

usage: python make_model.py OUT.gguf [--format Q4_0|Q4_1|Q5_0|Q5_1|Q8_0|Q4_K|Q5_K|Q6_K|Q4_K_M] [--layers N]

Needs gguf and numpy from PyPI. 22 layers, 2,048 wide, 32 heads of queries and 4 of keys, 5,632 in the feed-forward part, a
vocabulary of 32,000: the shape of TinyLlama. Q4_K_M has the formats that llama.cpp gives such a model: Q4_K, and Q6_K for the head and
for half of the layers' attn_v and ffn_down.
"""

import argparse

import gguf
import numpy as np

WIDTH, HEADS, KEY_HEADS, INNER, VOCABULARY, CONTEXT = 2048, 32, 4, 5632, 32000, 4096
HEAD = WIDTH // HEADS
# Elements and bytes of a block, where its scales and minimums of f16 are, and what standard deviation elements have with scales of 1
# and random bytes.
FORMATS = {
    "Q4_0": (32, 18, [0], [], 4.6), "Q4_1": (32, 20, [0], [2], 4.6), "Q5_0": (32, 22, [0], [], 9.2), "Q5_1": (32, 24, [0], [2], 9.2),
    "Q8_0": (32, 34, [0], [], 74.0), "Q4_K": (256, 144, [0], [2], 170.0), "Q5_K": (256, 176, [0], [2], 340.0),
    "Q6_K": (256, 210, [208], [], 1360.0),
}
MATRICES = {
    "attn_q": (WIDTH, WIDTH), "attn_k": (KEY_HEADS * HEAD, WIDTH), "attn_v": (KEY_HEADS * HEAD, WIDTH), "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER),
}


def blocks(dice, name, rows, columns):
    """Random blocks, with scales by which products keep the magnitude of their input. Minimums put elements about zero."""
    elements, size, scales, minimums, deviation = FORMATS[name]
    count = columns // elements
    data = dice.integers(0, 256, (rows, count, size), dtype=np.uint8)
    scale = 1 / (deviation * np.sqrt(columns))
    minimum = {"Q4_1": -7.5, "Q5_1": -15.5, "Q4_K": 7.5, "Q5_K": 15.5}.get(name, 0) * scale
    for value, places in [(scale, scales), (minimum, minimums)]:
        for at in places:
            data[:, :, at : at + 2] = np.full((rows, count), value, np.float16).view(np.uint8).reshape(rows, count, 2)
    return data.reshape(rows, -1)


def format_of(name, file, layer, layers):
    """As llama.cpp mixes formats: more bits for the first and the last eighth of the layers, and for each third one between."""
    if file != "Q4_K_M":
        return file
    is_more = layer is not None and (layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2)
    return "Q6_K" if name == "output" or (is_more and name in ["attn_v", "ffn_down"]) else "Q4_K"


def vocabulary(writer):
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    rest = VOCABULARY - len(tokens)
    tokens += [f"\u2581t{number}".encode() for number in range(rest)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(number) for number in range(VOCABULARY)])
    writer.add_token_types(kinds + [1] * rest)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--format", choices=[*FORMATS, "Q4_K_M"], default="Q4_0")
    parser.add_argument("--layers", type=int, default=22)
    arguments = parser.parse_args()
    dice = np.random.default_rng(2026)
    writer = gguf.GGUFWriter(arguments.output, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(arguments.layers)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)
    vocabulary(writer)

    def matrix(name, rows, columns, layer=None):
        own = format_of(name, arguments.format, layer, arguments.layers)
        full = f"{name}.weight" if layer is None else f"blk.{layer}.{name}.weight"
        writer.add_tensor(full, blocks(dice, own, rows, columns), raw_dtype=gguf.GGMLQuantizationType[own])

    matrix("token_embd", VOCABULARY, WIDTH)
    matrix("output", VOCABULARY, WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(arguments.layers):
        for name, (rows, columns) in MATRICES.items():
            matrix(name, rows, columns, layer)
        for name in ["attn_norm", "ffn_norm"]:
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
