#!/usr/bin/env python3
"""Makes tiny language models and what transformers computes with them: python3 scripts/models/llm_reference.py [NAME ...]

Written to corpus/models/llm/tiny/NAME: config.json and model.safetensors (random weights from a fixed seed, f32), and reference.npz:

  tokens         (2, 7), i64
  logits         (2, 7, VOCABULARY), all rows in one call
  split          (2, 7, VOCABULARY), the first FIRST tokens, then the others with the cache
  prompt         (1, 5), i64
  greedy         (64,), the tokens of largest logit that follow the prompt
  samples        (2, SAMPLES), f32: of whisper only, what each row of `tokens` is said to hear; the prompt hears the first row
  images         (2, SIDE, SIDE, 3), u8: of llava only
  pixels         (2, 3, SIDE, SIDE), f32: the same as they are read, what each row of `tokens` sees; the prompt sees the first image. The tokens have
                 the token of images in the place of each row of features

Sizes make errors visible: the intermediate size is odd, heads of some families are wider than hidden / heads, and sliding
windows are shorter than the tokens. The packages are those of llm_requirements.txt.
"""

import sys
from pathlib import Path

import numpy
import torch
import transformers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSpeechSeq2Seq,
    CLIPImageProcessor,
    WhisperFeatureExtractor,
)

FOLDER = Path(__file__).resolve().parents[2] / "corpus" / "models" / "llm" / "tiny"
VOCABULARY, FIRST, GREEDY = 64, 5, 64
# Of speech, and what an encoder with POSITIONS hears at most.
SAMPLES, POSITIONS = 3000, 12
# Of images, their patches, and the token of their rows.
SIDE, PATCH, IMAGE = 10, 5, 63
# The logits of the two best tokens differ by at least this share of their standard deviation.
GAP = 2e-3

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 43,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
GEMMA = {
    **SIZES,
    "tie_word_embeddings": True,
    "head_dim": 12,
    "query_pre_attn_scalar": 9,
    "sliding_window": 3,
    "layer_types": ["sliding_attention", "full_attention"],
}
# Short lengths, so that frequencies are kept, blended and divided.
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "llama3": lambda: transformers.LlamaConfig(
        **{**SIZES, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}, rope_parameters=LLAMA3
    ),
    "llama_linear": lambda: transformers.LlamaConfig(
        **{**SIZES, "head_dim": 10},
        rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
    ),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=4),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, use_sliding_window=False),
    "qwen3": lambda: transformers.Qwen3Config(
        **SIZES, head_dim=10, use_sliding_window=True, sliding_window=3, max_window_layers=1
    ),
    "gemma2": lambda: transformers.Gemma2Config(**GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=1.5),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **GEMMA,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0},
        },
    ),
    "phi3": lambda: transformers.Phi3Config(
        **SIZES,
        sliding_window=4,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_inner=43,
        n_positions=128,
        bos_token_id=None,
        eos_token_id=None,
    ),
    "whisper": lambda: transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=37,
        decoder_layers=2,
        decoder_attention_heads=4,
        decoder_ffn_dim=43,
        max_source_positions=POSITIONS,
        max_target_positions=128,
        begin_suppress_tokens=None,
        decoder_start_token_id=1,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    ),
    "llava": lambda: transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=24,
            intermediate_size=37,
            num_hidden_layers=3,
            num_attention_heads=2,
            image_size=SIDE,
            patch_size=PATCH,
        ),
        text_config=transformers.LlamaConfig(**SIZES),
        image_token_index=IMAGE,
    ),
}
KINDS = {"whisper": AutoModelForSpeechSeq2Seq, "llava": AutoModelForImageTextToText}



def trained_looking(model):
    """Weights with which logits differ clearly: norms near their neutral value, matrices that keep the scale of rows."""
    is_gemma = "gemma" in model.config.model_type
    for name, weight in model.named_parameters():
        if (is_gemma and name == "model.norm.weight") or name == "model.decoder.layer_norm.weight":
            # Signs at random: with tied embeddings every token would be followed by itself.
            weight.data = 2 * torch.randn(weight.shape) - 1
        elif weight.dim() == 1:
            neutral = float(weight.detach().mean().round())
            weight.data = neutral + 0.3 * torch.randn(weight.shape)
        elif "embed" in name or "wte" in name or "wpe" in name:
            # Gemma multiplies embeddings by the square root of 32.
            weight.data = (0.1 if is_gemma else 0.5) * torch.randn(weight.shape)
        elif "conv" in name or "patch" in name:
            weight.data = torch.randn(weight.shape) / weight[0].numel() ** 0.5
        else:
            weight.data = 0.3 * torch.randn(weight.shape)
    model.tie_weights()
    return model.eval()


def spoken():
    """Two rows of samples: tones that change, over noise. One is silent in the middle."""
    dice = numpy.random.default_rng(7)
    times = numpy.arange(SAMPLES) / 16000
    rows = [0.3 * numpy.sin(2 * numpy.pi * tone * times * (1 + 4 * times)) for tone in [440, 1234]]
    rows = numpy.stack(rows) + 0.01 * dice.standard_normal((2, SAMPLES))
    rows[1, 900:1700] = 0
    return rows.astype(numpy.float32)


def hearing(model, samples):
    """The model as one of text, which attends to what its encoder makes of samples."""
    extractor = WhisperFeatureExtractor(feature_size=model.config.num_mel_bins)
    padded = numpy.pad(samples, [(0, 0), (0, 320 * model.config.max_source_positions - samples.shape[1])])
    features = numpy.array(extractor._np_extract_fbank_features(padded, "cpu"), numpy.float32)
    with torch.no_grad():
        heard = model.model.encoder(torch.from_numpy(features)).last_hidden_state

    def call(tokens, **options):
        outputs = transformers.modeling_outputs.BaseModelOutput(heard[: len(tokens)])
        return model(encoder_outputs=outputs, decoder_input_ids=tokens, **options)

    return call


def seeing(model, pixels):
    """The model as one of text, whose first tokens are an image."""

    def call(tokens, **options):
        is_seen = bool((tokens == IMAGE).any())
        return model(input_ids=tokens, pixel_values=torch.from_numpy(pixels[: len(tokens)]) if is_seen else None, **options)

    return call


def greedy(model, prompt):
    """Tokens one by one with a cache, and the smallest gap between the two best ones."""
    tokens, cache, given, gap = [], None, prompt, float("inf")
    for _ in range(GREEDY):
        result = model(given, past_key_values=cache, use_cache=True)
        row, cache = result.logits[0, -1], result.past_key_values
        best = row.topk(2)
        gap = min(gap, float((best.values[0] - best.values[1]) / row.std()))
        given = best.indices[:1][None]
        tokens.append(int(given))
    return tokens, gap


def reference(model, images=0):
    """Tokens are drawn, but for those of an image behind the first one."""

    def drawn(*shape):
        tokens = torch.randint(0, VOCABULARY - (images > 0), shape)
        tokens[:, 1 : 1 + images] = IMAGE
        return tokens

    tokens = drawn(2, 7)
    first = model(tokens[:, :FIRST], use_cache=True)
    then = model(tokens[:, FIRST:], past_key_values=first.past_key_values, use_cache=True)
    # A prompt whose greedy tokens no rounding decides.
    for _ in range(100):
        prompt = drawn(1, FIRST)
        following, gap = greedy(model, prompt)
        if gap > GAP and len(set(following)) >= 12:
            break
    else:
        raise SystemExit("no prompt is followed by clear tokens")
    return {
        "tokens": tokens.numpy(),
        "logits": model(tokens).logits.numpy(),
        "split": torch.cat([first.logits, then.logits], dim=1).numpy(),
        "prompt": prompt.numpy(),
        "greedy": numpy.array(following, numpy.int64),
    }


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CONFIGS:
        torch.manual_seed(7)
        config = CONFIGS[name]()
        kind = KINDS.get(name, AutoModelForCausalLM)
        model = trained_looking(kind.from_config(config, attn_implementation="eager", dtype=torch.float32))
        folder = FOLDER / name
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        with torch.no_grad():
            if name == "whisper":
                samples = spoken()
                arrays = {**reference(hearing(model, samples)), "samples": samples}
            elif name == "llava":
                images = numpy.random.default_rng(7).integers(0, 256, (2, SIDE, SIDE, 3), numpy.uint8)
                processor = CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=SIDE)
                pixels = processor(list(images), return_tensors="np")["pixel_values"].astype(numpy.float32)
                arrays = {**reference(seeing(model, pixels), (SIDE // PATCH) ** 2), "pixels": pixels, "images": images}
            else:
                arrays = reference(model)
        numpy.savez_compressed(folder / "reference.npz", **arrays)
        logits, split = arrays["logits"], arrays["split"]
        spread = logits.std()
        print(f"{name}: std {spread:.3f}, split {numpy.abs(logits - split).max() / spread:.1e}", arrays["greedy"][:20])


if __name__ == "__main__":
    main()
