"""A GGUF file of a Llama with random weights, 1.1 billion of them by default.

usage: python make_model.py OUT.gguf [--format Q4_0|Q8_0] [--layers N]

Needs gguf and numpy from PyPI. 22 layers, 2,048 wide, 32 heads of queries and 4 of keys, 5,632 in the feed-forward part, a
vocabulary of 32,000: the shape of TinyLlama.
"""

import argparse

import gguf
import numpy as np

WIDTH, HEADS, KEY_HEADS, INNER, VOCABULARY, CONTEXT = 2048, 32, 4, 5632, 32000, 4096
HEAD = WIDTH // HEADS
BLOCK = 32
FORMATS = {"Q4_0": 16, "Q8_0": 32}  # bytes of a block beside its scale
MATRICES = {
    "attn_q": (WIDTH, WIDTH), "attn_k": (KEY_HEADS * HEAD, WIDTH), "attn_v": (KEY_HEADS * HEAD, WIDTH), "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER),
}


def blocks(dice, name, rows, columns):
    """Random blocks, with a scale by which products keep the magnitude of their input."""
    size, deviation = FORMATS[name], 4.6 if name == "Q4_0" else 74.0
    data = dice.integers(0, 256, (rows, columns // BLOCK, 2 + size), dtype=np.uint8)
    scale = np.full((rows, columns // BLOCK), 1 / (deviation * np.sqrt(columns)), np.float16)
    data[:, :, :2] = scale.view(np.uint8).reshape(rows, columns // BLOCK, 2)
    return data.reshape(rows, -1)


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
    parser.add_argument("--format", choices=FORMATS, default="Q4_0")
    parser.add_argument("--layers", type=int, default=22)
    arguments = parser.parse_args()
    dice, kind = np.random.default_rng(2026), gguf.GGMLQuantizationType[arguments.format]
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
    matrix = lambda name, rows, columns: writer.add_tensor(
        name, blocks(dice, arguments.format, rows, columns), raw_dtype=kind
    )
    matrix("token_embd.weight", VOCABULARY, WIDTH)
    matrix("output.weight", VOCABULARY, WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(arguments.layers):
        for name, (rows, columns) in MATRICES.items():
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
        for name in ["attn_norm", "ffn_norm"]:
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
