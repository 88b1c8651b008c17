"""Writes what transformers' decoding of long speech (greedy, no fallback) makes of sounds, with the tiny Whisper of the corpus.

    python3 scripts/models/whisper_windows.py corpus/models/llm/tiny/whisper

`generation.json` and `windows.npz` in that folder: for each sound its samples, the tokens of all windows, and times and lengths of segments.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

GENERATION = {
    "decoder_start_token_id": 1, "eos_token_id": 30, "pad_token_id": 30, "is_multilingual": True, "no_timestamps_token_id": 50,
    "lang_to_id": {"<|de|>": 31, "<|en|>": 32, "<|fr|>": 33}, "task_to_id": {"transcribe": 34, "translate": 35},
    "max_initial_timestamp_index": 5, "suppress_tokens": [31, 32, 33, 34, 35, 36, 37, 38, 39, 40], "begin_suppress_tokens": [3],
    "return_timestamps": False, "max_length": 128,
}


def sound(kind: str, count: int) -> np.ndarray:
    at = np.arange(count) / 16000
    noise = np.random.default_rng(len(kind) + count).normal(0, 0.02, count)
    tone = {"low": 220.0, "high": 1900.0, "sweep": 300.0}[kind]
    sweep = 4000 * at * at if kind == "sweep" else 0
    loudness = 0.3 * (1 + np.sin(2 * np.pi * 3 * at))
    return (loudness * np.sin(2 * np.pi * (tone * at + sweep)) + noise).astype(np.float32)


def main(folder: str) -> None:
    folder = pathlib.Path(folder)
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    model.generation_config = transformers.GenerationConfig(**GENERATION)
    bands, positions = model.config.num_mel_bins, model.config.max_source_positions
    # A window of the model: `chunk_length` counts seconds, and the model has less.
    window = 320 * positions
    extractor = transformers.WhisperFeatureExtractor(feature_size=bands)
    arrays = {}
    for name, (kind, count, language) in {
        "short": ("low", 3000, "de"), "long": ("sweep", 13000, "de"), "longer": ("high", 20123, "fr"), "detected": ("sweep", 9000, None),
    }.items():
        samples = sound(kind, count)
        padded = samples if count > window else np.pad(samples, (0, window - count))
        inputs = extractor(padded, return_tensors="pt", truncation=False, padding="longest", return_attention_mask=True, sampling_rate=16000)
        with torch.no_grad():
            result = model.generate(
                inputs.input_features, attention_mask=inputs.attention_mask, return_timestamps=True, return_segments=True, language=language,
                task="transcribe", condition_on_prev_tokens=False, temperature=0.0,
            )
        segments = result["segments"][0]
        tokens = [token for segment in segments for token in segment["tokens"].tolist()]
        print(name, inputs.input_features.shape, len(segments), tokens[:40])
        print([(round(float(segment["start"]), 2), round(float(segment["end"]), 2)) for segment in segments])
        arrays[f"{name}.samples"] = samples
        arrays[f"{name}.tokens"] = np.array(tokens, dtype=np.int64)
        arrays[f"{name}.lengths"] = np.array([len(segment["tokens"]) for segment in segments], dtype=np.int64)
        arrays[f"{name}.times"] = np.array([[float(segment["start"]), float(segment["end"])] for segment in segments])
    (folder / "generation.json").write_text(json.dumps(GENERATION, indent=2) + "\n")
    np.savez_compressed(folder / "windows.npz", **arrays)


main(*sys.argv[1:])
