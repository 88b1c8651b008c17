"""Token ids and decoded texts of random Unicode strings, beside the package tokenizers and llama.cpp.

usage: python tokenization.py [--tokenize PROGRAM] [--strings N] [--seed N] [--show N] [NAME ...]

Needs tokenizers, llama-cpp-python and gguf, and PROGRAM of `cargo build -p relax-llm --example tokenize`. NAME is a tokenizer of
corpus/models/llm/tokenizers, or a vocabulary of GGUF such as `gpt2/qwen2`, which is written with the tokens of such a tokenizer. With `+pairs`
it has all pairs of bytes as tokens, so that ids change with each boundary between words, and with `+ties` scores that several tokens share.

Each string is encoded twice, with special tokens parsed and with them as plain text, and decoded from both. The text of llama.cpp is that
of `llama_token_to_piece` for each token. `NFC` is llama.cpp with texts that the script normalizes. Strings that differ are shrunk, and their
characters counted.
"""

import argparse
import collections
import ctypes
import json
import random
import re
import subprocess
import tempfile
import unicodedata
from importlib.metadata import version
from pathlib import Path

import gguf
import llama_cpp
import tokenizers

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "corpus" / "models" / "llm" / "tokenizers"
TRAINED = ["bytes", "bytes_llama", "bytes_qwen", "pieces", "unigram", "unigram_bytes"]
NAMES = [*TRAINED, "bytes+pairs", "bytes_llama+pairs", "bytes_qwen+pairs"]
# Vocabularies of GGUF: the tokenizer whose tokens they have.
SOURCES = {
    "llama": "pieces",
    "gpt2/gpt-2": "bytes",
    "gpt2/llama-bpe": "bytes_llama",
    "gpt2/qwen2": "bytes_qwen",
    "gpt2/default": "bytes",
}
GGUF = [*SOURCES, "llama+ties", *(f"{name}+pairs" for name in SOURCES if name != "llama")]
# Tokens of `+ties` that share a score.
TIED = 6
SPECIAL, USER = ["<unk>", "<s>", "</s>", "<|end|>"], "<think>"
LONGEST = 10
MOST_SHRUNK = 100

SPACES = [*"\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000", *map(chr, range(0x2000, 0x200B))]
FORMAT = [*"\u00ad\u061c\u180e\ufeff\ufffe\uffff\ufffd", *map(chr, range(0x200B, 0x2010)), *map(chr, range(0x202A, 0x202F))]
FORMAT += [*map(chr, range(0x2060, 0x2070)), *map(chr, range(0xFFF9, 0xFFFC)), "\U0001fffe", "\U0010ffff"]
MARKS = [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x65F), (0x93A, 0x94F), (0xE31, 0xE3A), (0x1AB0, 0x1ACE)]
MARKS += [(0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x3099, 0x309A), (0xFE20, 0xFE2F), (0x1D165, 0x1D169), (0x110B9, 0x110BA)]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x2FF), (0x370, 0x5FF), (0x600, 0x8FF), (0x900, 0xDFF), (0xE00, 0x109F), (0x1100, 0x11FF)]
BLOCKS += [(0x1200, 0x1CFF), (0x1E00, 0x1FFF), (0x2070, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x31FF), (0x3400, 0x4DFF), (0x4E00, 0x9FFF)]
BLOCKS += [(0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xF900, 0xFFEF), (0x10000, 0x12FFF), (0x16800, 0x18FFF), (0x1D000, 0x1DFFF), (0x1F000, 0x1FBFF)]
EMOJI = ["😀", "👩", "👨", "👧", "❤", "🏳", "🌈", "👍", "✊", "☺", "⚕", "🧑", "🚀", "#", "1", "\U0001f3f4"]
JOINED = ["\u200d", "\ufe0f", "\ufe0e", "\u20e3", "\U0001f3fb", "\U0001f3fd", "\U0001f3ff", "\U000e0067", "\U000e007f"]
FLAGS = [*map(chr, range(0x1F1E6, 0x1F200))]
DIGITS = "0123456789" * 3 + "٠٣९๙߉０９𝟘𝟗½¼Ⅷⅿ①㊿²₃一〇𐄇𒐀"
SUFFIXES = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "M", "lL", "D", "ſ", "l", "r", "x", "st", " s", "\u0301s"]
WORDS = ["don", "We", "it", "IT", "they", "ça", "Ich", "модель", "O", "rock", "\u0130", "\u01c5"]
FRAGMENTS = ["<", ">", "</", "<|", "|>", "<s", "s>", "<|end", "|end|>", "<think", "think>", "</think>", "<S>", "<s >", "< s>", "<unk", "[UNK]"]
BYTES = ["<0x0A>", "<0x41>", "<0x00>", "<0xFF>", "<0xC3><0xA9>", "<0xE2><0x82>", "<0x0a>", "<0xG1>", "<0x1>", "<0x", "0x41>", "<0x041>"]
BYTES += ["Ġ", "Ċ", "Ã©", "âĤ¬", "▁", "▁▁", "Ġthe", "▁the", "ĠĠ", "\\u00e9", "\\x80", "%C3%A9", "â\x82¬", "ï»¿", "##ing"]


def vocabulary_words():
    """Tokens as text, of one and of several characters."""
    words = set()
    for name in TRAINED:
        vocabulary = json.loads((FOLDER / f"{name}.json").read_text())["model"]["vocab"]
        tokens = vocabulary if isinstance(vocabulary, dict) else [token for token, _ in vocabulary]
        words |= {token.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n") for token in tokens}
    return sorted(words)


def random_strings(count, seed):
    dice = random.Random(seed)
    words = vocabulary_words()
    reference = json.loads((FOLDER / "texts.json").read_text())["texts"]

    def in_ranges(ranges):
        return chr(dice.randint(*dice.choice(ranges)))

    def any_character():
        code = dice.randrange(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)

    def several(choice, most):
        return "".join(choice() for _ in range(dice.randint(1, most)))

    def emoji():
        return dice.choice(EMOJI) + several(lambda: dice.choice(JOINED) + dice.choice([*EMOJI, ""]), 3)

    def contraction():
        return dice.choice([*WORDS, ""]) + dice.choice(["'", "'", "'", "’", " '", "''"]) + dice.choice(SUFFIXES)

    kinds = [
        (any_character, 2),
        (lambda: several(lambda: in_ranges(BLOCKS), 3), 3),
        (lambda: chr(dice.randint(0x20, 0x7E)), 2),
        (lambda: in_ranges(BLOCKS) + several(lambda: in_ranges(MARKS), 3), 2),
        (lambda: several(lambda: in_ranges([(0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)]), 3), 1),
        (emoji, 1),
        (lambda: several(lambda: dice.choice(FLAGS), 3), 1),
        (lambda: several(lambda: dice.choice([*SPACES, " ", " ", "\n", "\r\n"]), 4), 3),
        (lambda: " " * dice.randint(1, 5), 2),
        (lambda: chr(dice.choice([*range(0x20), *range(0x7F, 0xA0)])), 1),
        (lambda: dice.choice(FORMAT), 1),
        (lambda: several(lambda: dice.choice(DIGITS), 7), 2),
        (contraction, 2),
        (lambda: dice.choice(BYTES), 1),
        (lambda: dice.choice([*SPECIAL, USER]), 1),
        (lambda: dice.choice(FRAGMENTS), 1),
        (lambda: several(lambda: dice.choice(words), 5), 5),
        (lambda: dice.choice(reference), 1),
    ]
    makers, weights = zip(*kinds, strict=True)
    # A dictionary keeps the order, and each string once.
    strings = dict.fromkeys(["", *(f"{special} a{special}{special}" for special in [*SPECIAL, USER])])
    while len(strings) < count:
        pieces = dice.choices(makers, weights, k=dice.randint(1, LONGEST))
        strings["".join(piece() for piece in pieces)] = None
    return list(strings)[:count]


def tokenized(program, path, strings):
    """By string: ids and text with special tokens parsed, then ids and text with them as plain text."""
    lines = "".join(json.dumps(string) + "\n" for string in strings)
    done = subprocess.run([program, path], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    rows = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    return [[(row[way]["ids"], row[way]["text"]) for way in ("parsed", "plain")] for row in rows]


def document(name):
    """A tokenizer.json, of the corpus or with all pairs of bytes as tokens."""
    base, _, change = name.partition("+")
    result = json.loads((FOLDER / f"{base}.json").read_text())
    if change == "pairs":
        vocabulary = result["model"]["vocab"]
        first = len(SPECIAL) + 1
        tokens = sorted(vocabulary, key=vocabulary.get)[: first + 256]
        merges = [[left, right] for left in tokens[first:] for right in tokens[first:]]
        random.Random(0).shuffle(merges)
        tokens += [left + right for left, right in merges]
        result["model"] |= {"vocab": {token: place for place, token in enumerate(tokens)}, "merges": merges}
    return result


def by_package(path, strings):
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    results = []
    for is_plain in (False, True):
        tokenizer.encode_special_tokens = is_plain
        ids = [tokenizer.encode(string).ids for string in strings]
        results.append([(ids, tokenizer.decode(ids, skip_special_tokens=True)) for ids in ids])
    return [list(pair) for pair in zip(*results, strict=True)]


def write_gguf(path, vocabulary):
    """A file with the vocabulary and no tensors, as the converter of llama.cpp would have it."""
    base, _, change = vocabulary.partition("+")
    model, _, pre = base.partition("/")
    source = document(f"{SOURCES[base]}+{change}")
    ids = source["model"]["vocab"]
    tokens = sorted(ids, key=ids.get)
    types = [gguf.TokenType.NORMAL] * len(tokens)
    for added in source["added_tokens"]:
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in [
        (writer.add_context_length, 4096),
        (writer.add_embedding_length, 32),
        (writer.add_feed_forward_length, 32),
        (writer.add_block_count, 1),
        (writer.add_head_count, 4),
        (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_rope_dimension_count, 8),
    ]:
        add(value)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    if pre:
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges([" ".join(merge) for merge in source["model"]["merges"]])
    else:
        types = [gguf.TokenType.BYTE if re.fullmatch("<0x..>", token) else kind for token, kind in zip(tokens, types, strict=True)]
        types[0] = gguf.TokenType.UNKNOWN
        writer.add_token_scores([-float(place // (TIED if change == "ties" else 1)) for place in range(len(tokens))])
    writer.add_token_types(types)
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_eos_token_id(tokens.index("</s>"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


@llama_cpp.llama_log_callback
def silent(_level, _text, _data):
    """It warns of each text that begins with the begin token."""


class LlamaCpp:
    def __init__(self, path):
        llama_cpp.llama_log_set(silent, None)
        self.model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        self.has_pieces = self.model.metadata["tokenizer.ggml.model"] == "llama"
        self.pieces = [self.piece(token) for token in range(self.model.n_vocab())]

    def piece(self, token):
        buffer = (ctypes.c_char * 256)()
        length = llama_cpp.llama_token_to_piece(self.model._model.vocab, token, buffer, 256, 0, False)
        return buffer[:length]

    def ids(self, string, way):
        return self.model.tokenize(string.encode(), add_bos=True, special=way == 0)

    def text(self, ids):
        text = b"".join(self.pieces[token] for token in ids).decode(errors="replace")
        # The space that encoding adds.
        return text.removeprefix(" ") if self.has_pieces else text

    def encoded(self, string, change=lambda string, way: string):
        results = []
        for way in range(2):
            ids = self.ids(change(string, way), way)
            results.append((ids, self.text(ids)))
        return results


def normalized(string, way):
    """NFC of the text between tokens that are found whole, which llama.cpp leaves to the caller."""
    whole = [USER] if way else [*SPECIAL, USER]
    parts = re.split("(" + "|".join(map(re.escape, whole)) + ")", string)
    return "".join(tokenizers.normalizers.NFC().normalize_str(part) for part in parts)


def shrunk(strings, differ):
    """Characters are left out while the string still differs; `differ` judges a list."""
    strings = list(strings)
    open_places = list(range(len(strings)))
    while open_places:
        candidates = [[strings[at][:cut] + strings[at][cut + 1 :] for cut in range(len(strings[at]))] for at in open_places]
        verdicts = iter(differ([candidate for several in candidates for candidate in several]))
        found = [[candidate for candidate in several if next(verdicts)] for several in candidates]
        for at, several in zip(open_places, found, strict=True):
            strings[at] = several[0] if several else strings[at]
        open_places = [at for at, several in zip(open_places, found, strict=True) if several]
    return strings


def report(title, strings, ours_of, others_of, show):
    """A row of the table, and the characters of strings that differ."""
    ours, others = ours_of(strings), others_of(strings)
    pairs = list(zip(ours, others, strict=True))
    equal = [sum(our[way][what] == other[way][what] for our, other in pairs) for what in (0, 1) for way in (0, 1)]
    print(f"| {title} | {len(strings):,} | " + " | ".join(f"{count:,}" for count in equal) + " |", flush=True)
    different = [string for string, (our, other) in zip(strings, pairs, strict=True) if our != other]
    if not different or not show:
        return
    # The shortest are the most telling.
    small = shrunk(
        sorted(different, key=len)[:MOST_SHRUNK], lambda texts: [our != other for our, other in zip(ours_of(texts), others_of(texts), strict=True)]
    )
    counts = collections.Counter(character for string in small for character in set(string) if not character.isascii())
    print(f"    {len(different)} differ; characters: " + ", ".join(f"U+{ord(c):04X} {unicodedata.category(c)} x{n}" for c, n in counts.most_common(40)))
    for string in list(dict.fromkeys(sorted(small, key=len)))[:show]:
        (our,), (other,) = ours_of([string]), others_of([string])
        way = int(our[0] == other[0])
        print(f"    {string!a}, {'plain' if way else 'parsed'}: {our[way]} and {other[way]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenize", default=ROOT / "target" / "debug" / "examples" / "tokenize")
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--show", type=int, default=0, help="how many of the strings that differ are printed")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    strings = random_strings(options.strings, options.seed)
    print(", ".join(f"{package} {version(package)}" for package in ("tokenizers", "llama-cpp-python", "gguf")))
    print("| beside | strings | ids, parsed | ids, plain | text, parsed | text, plain |\n|---|---|---|---|---|---|")
    for name in options.names or [*NAMES, *GGUF]:
        with tempfile.TemporaryDirectory() as folder:
            is_json = name in NAMES
            path = Path(folder) / ("tokenizer.json" if is_json else "vocabulary.gguf")
            if is_json:
                path.write_text(json.dumps(document(name)))
            else:
                write_gguf(path, name)

            def ours(texts):
                return tokenized(options.tokenize, path, texts)

            if is_json:
                report(f"tokenizers, `{name}`", strings, ours, lambda texts: by_package(path, texts), options.show)
                continue
            llama = LlamaCpp(path)
            report(f"llama.cpp, `{name}`", strings, ours, lambda texts: [llama.encoded(text) for text in texts], options.show)
            if "qwen2" in name:
                with_nfc = lambda texts: [llama.encoded(text, normalized) for text in texts]
                report(f"llama.cpp, `{name}`, NFC", strings, ours, with_nfc, options.show)


if __name__ == "__main__":
    main()
