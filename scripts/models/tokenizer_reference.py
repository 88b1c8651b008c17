#!/usr/bin/env python3
"""Makes tiny tokenizers and what the package tokenizers computes with them: python3 scripts/models/tokenizer_reference.py

Written to corpus/models/llm/tokenizers:

  bytes.json           byte-level BPE of SIZE tokens, split as GPT-2 does
  bytes_llama.json     its vocabulary, split as Llama 3 does, with a begin token and whole words before merges
  bytes_qwen.json      its vocabulary, split as Qwen 2 does, with NFC
  pieces.json          BPE of SIZE tokens in the manner of SentencePiece: scores, byte fallback, a space before the text
  unigram.json         Unigram of SIZE tokens as T5 has it: a space before the text, an unknown token
  unigram_bytes.json   its vocabulary with byte fallback
  texts.json           TEXTS random texts, and by tokenizer: ids with special tokens parsed, ids with them as plain text
                       (both with the begin token), and the decoded text of the first, without special tokens. A null
                       stands for the same ids, or the same text

Merges of pieces.json come from scores by transformers' generate_merges, as for vocabularies that store none. The packages are
those of tokenizer_requirements.txt.
"""

import copy
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.tokenization_utils_base import generate_merges

FOLDER = Path(__file__).resolve().parents[2] / "corpus" / "models" / "llm" / "tokenizers"
SIZE, TEXTS, LONGEST = 400, 500, 4

TEXT = """
The compiler reads a model, and the model reads text. It doesn't know words: it knows tokens, such as "the", "ing" and " of".
We've trained this vocabulary on a few sentences; they're enough for 400 tokens. I'll count: 1, 22, 333, 4444 and 55555.
A tensor has a shape, a shape has dims, and dims may be symbolic. Kernels run in parallel; results don't depend on threads.
def main(x: Tensor(("n", 4), "f32")):
    return relu(add(matmul(x, w), b))

Übersetzer lesen Texte. Où est la bibliothèque? ¿Dónde está la biblioteca? Компилятор читает модель. Модель читает текст.
コンパイラはモデルを読む。編譯器讀模型。컴파일러는 모델을 읽는다. המהדר קורא את המודל. المترجم يقرأ النموذج.
""" * 4

SPECIAL = ["<unk>", "<s>", "</s>", "<|end|>"]
# An added token that is ordinary text: found whole, and kept when decoded.
USER = "<think>"

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")

PIECES = [
    "the", " the", "model", " reads", "Compiler", "text", "ing", "don't", "WE'VE", "it'ſ", "12345", " 7", "x=1;", "(f32)",
    " ", "  ", "    ", "\n", "\n\n", " \n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\ufeff",
    "über", "e\u0301", "é", "\u0301", "n\u0303", "Å", "\u212b", "ﬁ", "ß", "İ", "ǆ", "модель", "コンパイラ", "模型", "모델",
    "\u1112\u1161\u11ab", "המודל", "النموذج", "हिन्दी", "ไทย", "𝒳", "𐍈", "😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "\ufffd", "\U0010ffff",
    "\0", "\x01", "\x1b[0m", "\x7f", "▁", "▁▁", "Ġ", "Ċ", "<0x0A>", "<0x41>", "<", ">", "<|", "|>", "½", "٣", "Ⅷ", "一二三",
    "<unk>", "<s>", "</s>", "<|end|>", "<think>", "<|end", "think>", "<s", "...", "!?", "—", "''", "'", "\"", "\\", "a", "Z",
]


def random_texts():
    chance = random.Random(7)
    blocks = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x900, 0xDFF), (0x2000, 0x2BFF)]
    blocks += [(0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (0, 0x1F), (0x80, 0x9F)]

    def piece():
        if chance.random() < 0.75:
            return chance.choice(PIECES)
        return chr(chance.randint(*chance.choice(blocks)))

    texts = ["", " ", "\n", "a", " a", "  a ", "<s>", "<s> a", "a</s>b", "hello world", "Hello\n\n\n  world   "]
    while len(texts) < TEXTS:
        texts.append("".join(piece() for _ in range(chance.randint(1, LONGEST))))
    return texts


def special(tokenizer):
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(USER, normalized=False)])
    return tokenizer


def with_begin(tokenizer):
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    return tokenizer


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=[*SPECIAL, USER],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    # The trainer makes every token of its list special.
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = []
    return special(Tokenizer.from_str(json.dumps(document)))


def split(tokenizer, regex, whole_words):
    document = json.loads(tokenizer.to_str())
    document["model"]["ignore_merges"] = whole_words
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(regex), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def pieces():
    reserved = [*SPECIAL[:3], *(f"<0x{byte:02X}>" for byte in range(256)), SPECIAL[3], USER]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    alphabet = sorted({char for char in TEXT if char.isascii() and char.isprintable()} | set("▁éмодель"))
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=reserved, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False
    )
    trained.train_from_iterator([TEXT], trainer)
    vocabulary = trained.get_vocab()
    letters = [token for token in vocabulary if len(token) == 1]
    # As SentencePiece has it: merged pieces first, by falling score, then single characters.
    merged = sorted((token for token in vocabulary if token not in reserved and len(token) > 1), key=vocabulary.get)
    tokens = [*reserved, *merged, *sorted(letters)]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    scores = {token: -float(place) for token, place in vocabulary.items() if token not in reserved}
    merges = generate_merges({token: vocabulary[token] for token in scores}, scores)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return with_begin(special(tokenizer))


def unigram(has_bytes):
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=SIZE, special_tokens=[*SPECIAL, USER], unk_token="<unk>", show_progress=False
    )
    trained.train_from_iterator([TEXT], trainer)
    vocabulary = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["vocab"]]
    if has_bytes:
        vocabulary += [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
    unknown = [token for token, _ in vocabulary].index("<unk>")
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=has_bytes))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = trained.pre_tokenizer
    if has_bytes:
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return with_begin(special(tokenizer))


def encoded(tokenizer, texts):
    parsed = [tokenizer.encode(text).ids for text in texts]
    plain = copy.deepcopy(tokenizer)
    plain.encode_special_tokens = True
    decoded = [tokenizer.decode(ids, skip_special_tokens=True) for ids in parsed]
    return {
        "parsed": parsed,
        "plain": unless_same((plain.encode(text).ids for text in texts), parsed),
        "decoded": unless_same(decoded, texts),
    }


def unless_same(values, others):
    return [None if value == other else value for value, other in zip(values, others, strict=True)]


def main():
    base = byte_level()
    qwen = split(base, QWEN, False)
    qwen.normalizer = normalizers.NFC()
    tokenizers = {
        "bytes": base,
        "bytes_llama": with_begin(split(base, LLAMA, True)),
        "bytes_qwen": qwen,
        "pieces": pieces(),
        "unigram": unigram(False),
        "unigram_bytes": unigram(True),
    }
    texts = random_texts()
    results = {"texts": texts}
    for name, tokenizer in tokenizers.items():
        (FOLDER / f"{name}.json").write_text(tokenizer.to_str() + "\n")
        results[name] = encoded(tokenizer, texts)
        print(name, tokenizer.get_vocab_size(), len(results[name]["parsed"][9]))
    (FOLDER / "texts.json").write_text(json.dumps(results, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
