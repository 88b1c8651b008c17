"""The architectures of transformers_zoo.py: configurations small enough to run in a second, and inputs at any shape."""

import dataclasses
from typing import Callable

import torch
import transformers
from torch.export import Dim

WORDS = 97
WIDTH = 32
HEADS = 4
# Sizes that most configurations call by these names.
PLAIN = dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=40,
             max_position_embeddings=64)
GROUPED = dict(PLAIN, num_key_value_heads=2)
VISION = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=40, patch_size=4,
              image_size=16)
SPEECH = dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=40,
              conv_dim=(16, 16), conv_stride=(4, 2), conv_kernel=(8, 3), num_feat_extract_layers=2,
              num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)

# Attention of matmul and softmax, where the exporter fails on what scaled_dot_product_attention becomes.
EAGER = dict(attn_implementation="eager")

BATCH, LENGTH, TARGET = Dim("batch"), Dim("length"), Dim("target")
HIGH, WIDE = Dim("high"), Dim("wide")
SHORT = {0: BATCH, 1: LENGTH}


def tokens(batch, length):
    return torch.randint(5, WORDS, (batch, length))


def mask(batch, length):
    """Padding at the end, a different amount for each sentence; the first token stays."""
    kept = length - torch.arange(batch)[:, None] % 3
    return (torch.arange(length)[None, :] < kept.clamp(min=1)).to(torch.int64)


def text(batch, length):
    return {"input_ids": tokens(batch, length), "attention_mask": mask(batch, length)}


def words(batch, length):
    return {"input_ids": tokens(batch, length)}


def pair(batch, length):
    return {**text(batch, length), "decoder_input_ids": tokens(batch, length // 2 + 1)}


def picture(batch, high, wide):
    return {"pixel_values": torch.randn(batch, 3, high, wide)}


def square(batch):
    return picture(batch, 16, 16)


def wave(batch, length):
    return {"input_values": torch.randn(batch, length)}


def mel(batch, length):
    return {"input_features": torch.randn(batch, 16, 32), "decoder_input_ids": tokens(batch, length)}


def captioned(batch, length):
    return {**text(batch, length), **square(batch)}


def boxed(batch, length):
    corners = torch.randint(0, 30, (batch, length, 2))
    return {**text(batch, length), "bbox": torch.cat([corners, corners + 20], dim=-1)}


# Shapes: the one of the export, then those that are compared.
TEXT_SHAPES = ((2, 6), [(1, 1), (2, 7), (3, 13), (2, 48)])
IMAGE_SHAPES = ((2, 16, 24), [(1, 8, 8), (2, 16, 24), (3, 28, 20), (2, 48, 64)])
PYRAMID_SHAPES = ((2, 64, 96), [(1, 32, 32), (2, 64, 96), (3, 47, 75), (2, 128, 96)])
SQUARE_SHAPES = ((2,), [(1,), (2,), (3,), (7,)])
WAVE_SHAPES = ((2, 160), [(1, 40), (2, 77), (3, 131), (2, 800)])


@dataclasses.dataclass(frozen=True)
class Kind:
    """Inputs at sizes, the dims that stay open, and the sizes."""

    inputs: Callable
    open_dims: dict
    shapes: tuple


TEXT = Kind(text, {"input_ids": SHORT, "attention_mask": SHORT}, TEXT_SHAPES)
TOKENS = Kind(words, {"input_ids": SHORT}, TEXT_SHAPES)
PAIR = Kind(pair, {**TEXT.open_dims, "decoder_input_ids": {0: BATCH, 1: TARGET}}, TEXT_SHAPES)
BOXES = Kind(boxed, {**TEXT.open_dims, "bbox": SHORT}, TEXT_SHAPES)
IMAGE = Kind(picture, {"pixel_values": {0: BATCH, 2: HIGH, 3: WIDE}}, IMAGE_SHAPES)
PYRAMID = Kind(picture, {"pixel_values": {0: BATCH, 2: HIGH, 3: WIDE}}, PYRAMID_SHAPES)
SQUARE = Kind(square, {"pixel_values": {0: BATCH}}, SQUARE_SHAPES)
CAPTIONED = Kind(captioned, {**TEXT.open_dims, "pixel_values": {0: BATCH}}, TEXT_SHAPES)
WAVE = Kind(wave, {"input_values": SHORT}, WAVE_SHAPES)
MEL = Kind(mel, {"input_features": {0: BATCH}, "decoder_input_ids": {0: BATCH, 1: TARGET}}, TEXT_SHAPES)

SEQ2SEQ = dict(vocab_size=WORDS, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=HEADS,
               decoder_attention_heads=HEADS, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=64,
               pad_token_id=1, decoder_start_token_id=2)
GPT = dict(vocab_size=WORDS, n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=64)

# Model type: the configuration that differs from the default, the kind of inputs, arguments of the call.
MODELS = {
    "bert": (PLAIN, TEXT, {}),
    "distilbert": (dict(vocab_size=WORDS, dim=WIDTH, n_layers=2, n_heads=HEADS, hidden_dim=40, max_position_embeddings=64),
                   TEXT, {}),
    "roberta": (dict(PLAIN, max_position_embeddings=66), TEXT, {}),
    "camembert": (dict(PLAIN, max_position_embeddings=66), TEXT, {}),
    "xlm-roberta": (dict(PLAIN, max_position_embeddings=66), TEXT, {}),
    "albert": (dict(PLAIN, embedding_size=16), TEXT, {}),
    "electra": (dict(PLAIN, embedding_size=16), TEXT, {}),
    "deberta": (dict(PLAIN, relative_attention=True, pos_att_type=["c2p", "p2c"]), TEXT, {}),
    "deberta-v2": (dict(PLAIN, relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"],
                        norm_rel_ebd="layer_norm", share_att_key=True), TEXT, {}),
    "mpnet": (dict(PLAIN, max_position_embeddings=66), TEXT, {}),
    "squeezebert": (dict(PLAIN, embedding_size=WIDTH, q_groups=2, k_groups=2, v_groups=2, post_attention_groups=1,
                         intermediate_groups=2, output_groups=2), TEXT, {}),
    "mobilebert": (dict(PLAIN, embedding_size=16, intra_bottleneck_size=WIDTH, true_hidden_size=WIDTH), TEXT, {}),
    "roformer": (dict(PLAIN, embedding_size=WIDTH), TEXT, {}),
    "ernie": (PLAIN, TEXT, {}),
    "layoutlm": (dict(PLAIN, max_2d_position_embeddings=64), BOXES, {}),
    "xlnet": (dict(vocab_size=WORDS, d_model=WIDTH, n_layer=2, n_head=HEADS, d_inner=40), TOKENS, {}),
    "gpt2": (GPT, TEXT, {"use_cache": False}),
    "gpt_neo": (dict(vocab_size=WORDS, hidden_size=WIDTH, num_layers=2, num_heads=HEADS, intermediate_size=40,
                     attention_types=[[["global", "local"], 1]], window_size=8, max_position_embeddings=64),
                TEXT, {"use_cache": False}),
    "gpt_neox": (PLAIN, TEXT, {"use_cache": False}),
    "opt": (dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, ffn_dim=40,
                 word_embed_proj_dim=WIDTH, max_position_embeddings=64), TEXT, {"use_cache": False}),
    "bloom": (dict(vocab_size=WORDS, hidden_size=WIDTH, n_layer=2, n_head=HEADS), TEXT, {"use_cache": False}),
    "llama": (GROUPED, TEXT, {"use_cache": False}),
    "mistral": (dict(GROUPED, sliding_window=8), TEXT, {"use_cache": False}),
    "qwen2": (GROUPED, TEXT, {"use_cache": False}),
    "qwen3": (dict(GROUPED, head_dim=8), TEXT, {"use_cache": False}),
    "gemma": (dict(GROUPED, head_dim=8), TEXT, {"use_cache": False}),
    "phi": (GROUPED, TEXT, {"use_cache": False}),
    "falcon": (PLAIN, TEXT, {"use_cache": False}),
    "mixtral": (dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm"),
                TEXT, {"use_cache": False}),
    "mamba": (dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, state_size=4, use_mambapy=False), TOKENS,
              {"use_cache": False}),
    "t5": (dict(vocab_size=WORDS, d_model=WIDTH, d_kv=8, d_ff=40, num_layers=2, num_heads=HEADS, **EAGER), PAIR,
           {"use_cache": False}),
    "bart": (SEQ2SEQ, PAIR, {"use_cache": False}),
    "mbart": (SEQ2SEQ, PAIR, {"use_cache": False}),
    "marian": (SEQ2SEQ, PAIR, {"use_cache": False}),
    "whisper": (dict(SEQ2SEQ, num_mel_bins=16, max_source_positions=16, max_target_positions=64, pad_token_id=0,
                     bos_token_id=1, eos_token_id=2), MEL, {"use_cache": False}),
    "clip_text_model": (PLAIN, TEXT, {}),
    "clip_vision_model": (VISION, SQUARE, {}),
    "vit": (VISION, IMAGE, {"interpolate_pos_encoding": True}),
    "deit": (VISION, IMAGE, {"interpolate_pos_encoding": True}),
    "dinov2": (VISION, IMAGE, {}),
    "swin": (dict(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, **EAGER), PYRAMID,
             {}),
    "convnext": (dict(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2), PYRAMID, {}),
    "resnet": (dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1]), PYRAMID, {}),
    "segformer": (dict(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3],
                       strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2]), PYRAMID, {}),
    "wav2vec2": (SPEECH, WAVE, {}),
    "hubert": (SPEECH, WAVE, {}),
}


class Flat(torch.nn.Module):
    """A model whose results are a tuple of tensors, without caches."""

    def __init__(self, model, arguments):
        super().__init__()
        self.model = model
        self.arguments = arguments

    # One parameter for each input by name: the guards of torch.export cannot name those of `**inputs`.
    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None, bbox=None, pixel_values=None,
                input_values=None, input_features=None):
        inputs = {name: value for name, value in locals().items() if isinstance(value, torch.Tensor)}
        results = self.model(**inputs, **self.arguments)
        return tuple(value for value in results.values() if isinstance(value, torch.Tensor))


def build(name):
    """The model of transformers with random weights."""
    changed, _, _ = MODELS[name]
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(name, **changed)
    if name == "clip_text_model":
        model = transformers.CLIPTextModel(config)
    elif name == "clip_vision_model":
        model = transformers.CLIPVisionModel(config)
    else:
        model = transformers.AutoModel.from_config(config)
    return randomized(model)


def randomized(model):
    """The model for inference, with other random weights. Norms have other weights than 1, so that what scales is seen."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0.0, parameter[0].numel() ** -0.5)
        else:
            parameter.data += torch.empty_like(parameter).uniform_(-0.2, 0.2)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.5)
            module.running_var.uniform_(0.5, 2.0)
    return model.eval()
