"""Models of speech and of images at real size, beside transformers: greedy tokens, and the time of encoder and decoder.

usage: python encoders.py FOLDER [--relax RELAX] [--threads N] [--tokens N] [whisper|llava ...]

Needs the packages of scripts/models/llm_requirements.txt. Writes to FOLDER a model of the size of Whisper small (242 million weights) and one of
the shape of LLaVA 1.5 with 8 of 24 layers of its tower and a text model of two layers with the width of TinyLlama (0.3 billion), all
random, a sound of 12.5 s and a photo of 700 x 500 pixels. Both sides use N threads. `same` says how many of the first greedy tokens
are the same: after one that rounding decides, all others may differ.
"""

import argparse
import json
import os
import struct
import subprocess
import time
from pathlib import Path

import numpy
import torch
import transformers

SAMPLES, RATE = 200_000, 16_000
SUPPRESSED, FIRST = [1, 2, 7, 50257], [220, 50257]
# Start, English, transcribe, no timestamps.
ASKED = [50258, 50259, 50359, 50363]
IMAGE, ROWS = 32000, 576


def random_weights(model):
    """Matrices that keep the magnitude of rows. A last norm with random signs, or a tied embedding would repeat each token."""
    for name, weight in model.named_parameters():
        if name == "model.decoder.layer_norm.weight":
            weight.data = 2 * torch.randn(weight.shape) - 1
        elif weight.dim() == 1:
            weight.data = weight.data.mean().round() + 0.1 * torch.randn(weight.shape)
        elif "embed" in name:
            weight.data = 0.3 * torch.randn(weight.shape)
        else:
            weight.data = torch.randn(weight.shape) / weight[0].numel() ** 0.5
    model.tie_weights()
    return model.eval()


def whisper(folder):
    wide = {"encoder": 12, "decoder": 12}
    config = transformers.WhisperConfig(
        d_model=768,
        **{f"{side}_layers": layers for side, layers in wide.items()},
        **{f"{side}_attention_heads": 12 for side in wide},
        **{f"{side}_ffn_dim": 3072 for side in wide},
    )
    model = random_weights(transformers.WhisperForConditionalGeneration(config))
    model.generation_config.suppress_tokens = SUPPRESSED
    model.generation_config.begin_suppress_tokens = FIRST
    model.save_pretrained(folder)
    dice, times = numpy.random.default_rng(0), numpy.arange(SAMPLES)
    sound = 0.05 * dice.standard_normal(SAMPLES) + 0.3 * numpy.sin(0.1 * times * (1 + times / 100_000))
    sound = sound.astype("<f4")
    path, body = folder / "sound.wav", sound.tobytes()
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVEfmt ", 16, 3, 1, RATE, 4 * RATE, 4, 32, b"data", len(body))
    path.write_bytes(head + body)
    extractor = transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    features = extractor(sound, sampling_rate=RATE, return_tensors="pt").input_features

    def encode():
        return model.model.encoder(features)

    def step(encoded, tokens, cache):
        result = model(encoder_outputs=encoded, decoder_input_ids=tokens, past_key_values=cache, use_cache=True)
        logits = result.logits[0, -1].clone()
        logits[SUPPRESSED + (FIRST if cache is None else [])] = -torch.inf
        return logits, result.past_key_values

    return ["--audio", path, "--tokens", ",".join(map(str, ASKED))], ASKED, encode, step


def llava(folder):
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=1024, intermediate_size=4096, num_hidden_layers=8, num_attention_heads=16, image_size=336, patch_size=14
        ),
        text_config=transformers.LlamaConfig(
            vocab_size=32064,
            hidden_size=2048,
            num_hidden_layers=2,
            num_attention_heads=32,
            num_key_value_heads=4,
            intermediate_size=5632,
            max_position_embeddings=4096,
        ),
        image_token_index=IMAGE,
    )
    model = random_weights(transformers.LlavaForConditionalGeneration(config))
    model.save_pretrained(folder)
    from PIL import Image

    photo = numpy.random.default_rng(1).standard_normal((500, 700, 3)).cumsum(0).cumsum(1)
    photo = (photo - photo.min()) / (photo.max() - photo.min()) * 255
    path = folder / "photo.png"
    Image.fromarray(photo.astype(numpy.uint8)).save(path)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 336}, crop_size=336)
    pixels = processor(Image.open(path), return_tensors="pt")["pixel_values"]
    before, after = [1, 5], [17, 99, 1234]

    def encode():
        return model.model.get_image_features(pixels)

    def step(_, tokens, cache):
        # The first call encodes once more.
        seen = pixels if cache is None else None
        result = model(input_ids=tokens, pixel_values=seen, past_key_values=cache, use_cache=True)
        return result.logits[0, -1], result.past_key_values

    short = ",".join(map(str, [*before, IMAGE, *after]))
    return ["--image", path, "--tokens", short], [*before, *[IMAGE] * ROWS, *after], encode, step


def theirs(prompt, encode, step, count):
    """Greedy tokens, seconds of the second call of the encoder, and tokens a second in the median."""
    with torch.no_grad():
        encode()
        start = time.perf_counter()
        encoded = encode()
        took = time.perf_counter() - start
        tokens, cache, given, times = [], None, torch.tensor([prompt]), []
        for _ in range(count):
            start = time.perf_counter()
            logits, cache = step(encoded, given, cache)
            times.append(time.perf_counter() - start)
            tokens.append(int(logits.argmax()))
            given = torch.tensor([tokens[-1:]])
    return tokens, took, 1 / sorted(times[1:])[len(times[1:]) // 2]


def ours(relax, folder, arguments, threads, count):
    command = [relax, "generate", folder, *arguments, "--max-tokens", str(count), "--threads", str(threads), "--bench", "--format", "json"]
    # The first call compiles.
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    speed = next(line for line in lines if line["type"] == "speed")
    tokens = [line["token"] for line in lines if line["type"] == "token"]
    return tokens, speed["encode_seconds"], speed["decode_tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=["whisper", "llava"])
    parser.add_argument("--relax", default="target/release/relax")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    print("| model | same tokens | encoder, s | transformers | decoder, tokens/s | transformers |")
    print("|---|---|---|---|---|---|")
    for name in options.models:
        torch.manual_seed(3)
        folder = options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        arguments, prompt, encode, step = {"whisper": whisper, "llava": llava}[name](folder)
        own, own_encode, own_decode = ours(options.relax, folder, arguments, options.threads, options.tokens)
        other, other_encode, other_decode = theirs(prompt, encode, step, options.tokens)
        same = next((at for at, (a, b) in enumerate(zip(own, other)) if a != b), min(len(own), len(other)))
        row = f"{own_encode:.2f} | {other_encode:.2f} | {own_decode:.1f} | {other_decode:.1f}"
        print(f"| {name} | {same} of {options.tokens} | {row} |", flush=True)


if __name__ == "__main__":
    main()
