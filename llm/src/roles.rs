//! Roles of tensors in a model, with their shapes and their names in checkpoints.

use crate::config::{Config, Family, Naming};

/// A use of a tensor in a model. Those from [`Role::AttentionNorm`] on are in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Of the shape (vocabulary, hidden)
    Embedding,
    /// Of the shape (context, hidden)
    Positions,
    /// Of the shape (hidden)
    FinalNorm,
    /// Of the shape (hidden)
    FinalNormBias,
    /// Of the shape (vocabulary, hidden)
    Head,
    /// Of the shape (rotary dim / 2): divisors of the frequencies, in GGUF files of Llama 3
    FrequencyDivisors,
    /// Of the shape (hidden, bands, 3): an encoder's first convolution over time
    Convolution,
    /// Of the shape (hidden)
    ConvolutionBias,
    /// Of the shape (hidden, hidden, 3): its second one, which halves the rows
    Halving,
    /// Of the shape (hidden)
    HalvingBias,
    /// Of the shape (hidden)
    AttentionNorm,
    /// Of the shape (hidden)
    AttentionNormBias,
    /// Of the shape (heads * head dim, hidden)
    Query,
    /// Of the shape (heads * head dim)
    QueryBias,
    /// Of the shape (kv heads * head dim, hidden)
    Key,
    /// Of the shape (kv heads * head dim)
    KeyBias,
    /// Of the shape (kv heads * head dim, hidden)
    Value,
    /// Of the shape (kv heads * head dim)
    ValueBias,
    /// Of the shape ((heads + 2 * kv heads) * head dim, hidden)
    QueryKeyValue,
    /// Of the shape ((heads + 2 * kv heads) * head dim)
    QueryKeyValueBias,
    /// Of the shape (head dim)
    QueryNorm,
    /// Of the shape (head dim)
    KeyNorm,
    /// Of the shape (hidden, heads * head dim)
    Output,
    /// Of the shape (hidden)
    OutputBias,
    /// Of the shape (hidden), after attention
    PostAttentionNorm,
    /// Of the shape (hidden), before attention to what was encoded
    EncodedNorm,
    /// Of the shape (hidden)
    EncodedNormBias,
    /// Of the shape (heads * head dim, hidden), of attention to what was encoded
    EncodedQuery,
    /// Of the shape (heads * head dim)
    EncodedQueryBias,
    /// Of the shape (hidden, heads * head dim)
    EncodedOutput,
    /// Of the shape (hidden)
    EncodedOutputBias,
    /// Of the shape (hidden), before the feed-forward part
    FeedForwardNorm,
    /// Of the shape (hidden)
    FeedForwardNormBias,
    /// Of the shape (intermediate, hidden)
    Gate,
    /// Of the shape (intermediate)
    GateBias,
    /// Of the shape (intermediate, hidden)
    Up,
    /// Of the shape (intermediate)
    UpBias,
    /// Of the shape (2 * intermediate, hidden)
    GateUp,
    /// Of the shape (hidden, intermediate)
    Down,
    /// Of the shape (hidden)
    DownBias,
    /// Of the shape (hidden), after the feed-forward part
    PostFeedForwardNorm,
    /// Of the shape (kv heads * head dim, width of the encoder)
    EncodedKey,
    /// Of the shape (kv heads * head dim, width of the encoder)
    EncodedValue,
    /// Of the shape (kv heads * head dim)
    EncodedValueBias,
}

use Role::{
    AttentionNorm, AttentionNormBias, Convolution, ConvolutionBias, Down, DownBias, Embedding,
    EncodedKey, EncodedNorm, EncodedNormBias, EncodedOutput, EncodedOutputBias, EncodedQuery,
    EncodedQueryBias, EncodedValue, EncodedValueBias, FeedForwardNorm, FeedForwardNormBias,
    FinalNorm, FinalNormBias, FrequencyDivisors, Gate, GateBias, GateUp, Halving, HalvingBias,
    Head, Key, KeyBias, KeyNorm, Output, OutputBias, Positions, PostAttentionNorm,
    PostFeedForwardNorm, Query, QueryBias, QueryKeyValue, QueryKeyValueBias, QueryNorm, Up, UpBias,
    Value, ValueBias,
};

/// Name in templates, and in checkpoints by naming: for Hugging Face that of Llama's relatives. `N` is the layer.
const NAMES: &[(Role, &str, &str, &str)] = &[
    (Embedding, "embedding", "model.embed_tokens.weight", "token_embd.weight"),
    (Positions, "positions", "", "position_embd.weight"),
    (FinalNorm, "final_norm", "model.norm.weight", "output_norm.weight"),
    (FinalNormBias, "final_norm_bias", "", "output_norm.bias"),
    (Head, "head", "lm_head.weight", "output.weight"),
    (FrequencyDivisors, "frequency_divisors", "", "rope_freqs.weight"),
    (
        AttentionNorm,
        "attention_norm",
        "model.layers.N.input_layernorm.weight",
        "blk.N.attn_norm.weight",
    ),
    (AttentionNormBias, "attention_norm_bias", "", "blk.N.attn_norm.bias"),
    (Query, "query", "model.layers.N.self_attn.q_proj.weight", "blk.N.attn_q.weight"),
    (QueryBias, "query_bias", "model.layers.N.self_attn.q_proj.bias", "blk.N.attn_q.bias"),
    (Key, "key", "model.layers.N.self_attn.k_proj.weight", "blk.N.attn_k.weight"),
    (KeyBias, "key_bias", "model.layers.N.self_attn.k_proj.bias", "blk.N.attn_k.bias"),
    (Value, "value", "model.layers.N.self_attn.v_proj.weight", "blk.N.attn_v.weight"),
    (ValueBias, "value_bias", "model.layers.N.self_attn.v_proj.bias", "blk.N.attn_v.bias"),
    (
        QueryKeyValue,
        "query_key_value",
        "model.layers.N.self_attn.qkv_proj.weight",
        "blk.N.attn_qkv.weight",
    ),
    (QueryKeyValueBias, "query_key_value_bias", "", "blk.N.attn_qkv.bias"),
    (QueryNorm, "query_norm", "model.layers.N.self_attn.q_norm.weight", "blk.N.attn_q_norm.weight"),
    (KeyNorm, "key_norm", "model.layers.N.self_attn.k_norm.weight", "blk.N.attn_k_norm.weight"),
    (Output, "output", "model.layers.N.self_attn.o_proj.weight", "blk.N.attn_output.weight"),
    (OutputBias, "output_bias", "model.layers.N.self_attn.o_proj.bias", "blk.N.attn_output.bias"),
    (
        PostAttentionNorm,
        "post_attention_norm",
        "model.layers.N.post_attention_layernorm.weight",
        "blk.N.post_attention_norm.weight",
    ),
    (
        FeedForwardNorm,
        "feed_forward_norm",
        "model.layers.N.post_attention_layernorm.weight",
        "blk.N.ffn_norm.weight",
    ),
    (FeedForwardNormBias, "feed_forward_norm_bias", "", "blk.N.ffn_norm.bias"),
    (Gate, "gate", "model.layers.N.mlp.gate_proj.weight", "blk.N.ffn_gate.weight"),
    (GateBias, "gate_bias", "model.layers.N.mlp.gate_proj.bias", "blk.N.ffn_gate.bias"),
    (Up, "up", "model.layers.N.mlp.up_proj.weight", "blk.N.ffn_up.weight"),
    (UpBias, "up_bias", "model.layers.N.mlp.up_proj.bias", "blk.N.ffn_up.bias"),
    // Phi 3 has both in the tensor that GGUF calls `ffn_up`.
    (GateUp, "gate_up", "model.layers.N.mlp.gate_up_proj.weight", "blk.N.ffn_up.weight"),
    (Down, "down", "model.layers.N.mlp.down_proj.weight", "blk.N.ffn_down.weight"),
    (DownBias, "down_bias", "model.layers.N.mlp.down_proj.bias", "blk.N.ffn_down.bias"),
    (
        PostFeedForwardNorm,
        "post_feed_forward_norm",
        "model.layers.N.post_feedforward_layernorm.weight",
        "blk.N.post_ffw_norm.weight",
    ),
];

/// Roles of encoders, and of what attends to them: only Whisper's checkpoints have them.
const ENCODERS: &[(Role, &str)] = &[
    (Convolution, "convolution"),
    (ConvolutionBias, "convolution_bias"),
    (Halving, "halving"),
    (HalvingBias, "halving_bias"),
    (EncodedNorm, "encoded_norm"),
    (EncodedNormBias, "encoded_norm_bias"),
    (EncodedQuery, "encoded_query"),
    (EncodedQueryBias, "encoded_query_bias"),
    (EncodedOutput, "encoded_output"),
    (EncodedOutputBias, "encoded_output_bias"),
    (EncodedKey, "key"),
    (EncodedValue, "value"),
    (EncodedValueBias, "value_bias"),
];

/// Gemma's norm before the feed-forward part has another name than Llama's.
const GEMMA_FEED_FORWARD_NORM: &str = "model.layers.N.pre_feedforward_layernorm.weight";

/// Hugging Face's names of GPT-2.
const GPT2: &[(Role, &str)] = &[
    (Embedding, "transformer.wte.weight"),
    (Positions, "transformer.wpe.weight"),
    (FinalNorm, "transformer.ln_f.weight"),
    (FinalNormBias, "transformer.ln_f.bias"),
    (Head, "lm_head.weight"),
    (AttentionNorm, "transformer.h.N.ln_1.weight"),
    (AttentionNormBias, "transformer.h.N.ln_1.bias"),
    (QueryKeyValue, "transformer.h.N.attn.c_attn.weight"),
    (QueryKeyValueBias, "transformer.h.N.attn.c_attn.bias"),
    (Output, "transformer.h.N.attn.c_proj.weight"),
    (OutputBias, "transformer.h.N.attn.c_proj.bias"),
    (FeedForwardNorm, "transformer.h.N.ln_2.weight"),
    (FeedForwardNormBias, "transformer.h.N.ln_2.bias"),
    (Up, "transformer.h.N.mlp.c_fc.weight"),
    (UpBias, "transformer.h.N.mlp.c_fc.bias"),
    (Down, "transformer.h.N.mlp.c_proj.weight"),
    (DownBias, "transformer.h.N.mlp.c_proj.bias"),
];

/// Hugging Face's names of Whisper. `SIDE` is `encoder` or `decoder`. Keys and values of what was encoded are computed once, outside of
/// layers.
const WHISPER: &[(Role, &str)] = &[
    (Embedding, "model.SIDE.embed_tokens.weight"),
    (Positions, "model.SIDE.embed_positions.weight"),
    (FinalNorm, "model.SIDE.layer_norm.weight"),
    (FinalNormBias, "model.SIDE.layer_norm.bias"),
    (Head, "proj_out.weight"),
    (Convolution, "model.SIDE.conv1.weight"),
    (ConvolutionBias, "model.SIDE.conv1.bias"),
    (Halving, "model.SIDE.conv2.weight"),
    (HalvingBias, "model.SIDE.conv2.bias"),
    (AttentionNorm, "model.SIDE.layers.N.self_attn_layer_norm.weight"),
    (AttentionNormBias, "model.SIDE.layers.N.self_attn_layer_norm.bias"),
    (Query, "model.SIDE.layers.N.self_attn.q_proj.weight"),
    (QueryBias, "model.SIDE.layers.N.self_attn.q_proj.bias"),
    (Key, "model.SIDE.layers.N.self_attn.k_proj.weight"),
    (Value, "model.SIDE.layers.N.self_attn.v_proj.weight"),
    (ValueBias, "model.SIDE.layers.N.self_attn.v_proj.bias"),
    (Output, "model.SIDE.layers.N.self_attn.out_proj.weight"),
    (OutputBias, "model.SIDE.layers.N.self_attn.out_proj.bias"),
    (EncodedNorm, "model.SIDE.layers.N.encoder_attn_layer_norm.weight"),
    (EncodedNormBias, "model.SIDE.layers.N.encoder_attn_layer_norm.bias"),
    (EncodedQuery, "model.SIDE.layers.N.encoder_attn.q_proj.weight"),
    (EncodedQueryBias, "model.SIDE.layers.N.encoder_attn.q_proj.bias"),
    (EncodedKey, "model.SIDE.layers.N.encoder_attn.k_proj.weight"),
    (EncodedValue, "model.SIDE.layers.N.encoder_attn.v_proj.weight"),
    (EncodedValueBias, "model.SIDE.layers.N.encoder_attn.v_proj.bias"),
    (EncodedOutput, "model.SIDE.layers.N.encoder_attn.out_proj.weight"),
    (EncodedOutputBias, "model.SIDE.layers.N.encoder_attn.out_proj.bias"),
    (FeedForwardNorm, "model.SIDE.layers.N.final_layer_norm.weight"),
    (FeedForwardNormBias, "model.SIDE.layers.N.final_layer_norm.bias"),
    (Up, "model.SIDE.layers.N.fc1.weight"),
    (UpBias, "model.SIDE.layers.N.fc1.bias"),
    (Down, "model.SIDE.layers.N.fc2.weight"),
    (DownBias, "model.SIDE.layers.N.fc2.bias"),
];

/// What a decoder computes of what was encoded for each layer, before any token is there.
pub(crate) const ENCODED: [Role; 3] = [EncodedKey, EncodedValue, EncodedValueBias];

/// What a layer of a decoder has that one of an encoder has not.
const ATTENDS: [Role; 6] = [
    EncodedNorm,
    EncodedNormBias,
    EncodedQuery,
    EncodedQueryBias,
    EncodedOutput,
    EncodedOutputBias,
];

impl Role {
    /// The identifier in templates and of parameters, such as `attention_norm`.
    #[must_use]
    pub fn identifier(self) -> &'static str {
        let own = NAMES.iter().map(|(role, identifier, ..)| (role, identifier));
        let encoders = ENCODERS.iter().map(|(role, identifier)| (role, identifier));
        let row = own.chain(encoders).find(|(role, _)| **role == self);
        row.expect("invariant: the tables have every role").1
    }

    /// The role of the bias that is added to a product with this matrix.
    pub(crate) fn bias(self) -> Option<Self> {
        Some(match self {
            Query => QueryBias,
            Key => KeyBias,
            Value => ValueBias,
            QueryKeyValue => QueryKeyValueBias,
            Output => OutputBias,
            EncodedQuery => EncodedQueryBias,
            EncodedValue => EncodedValueBias,
            EncodedOutput => EncodedOutputBias,
            Gate => GateBias,
            Up => UpBias,
            Down => DownBias,
            _ => return None,
        })
    }
}

impl Config {
    /// The name of a tensor in the checkpoint. `layer` counts for roles of layers only.
    #[must_use]
    pub fn name(&self, role: Role, layer: usize) -> String {
        let row = NAMES.iter().find(|(named, ..)| *named == role);
        let (llama, gguf) = row.map_or(("", ""), |(_, _, llama, gguf)| (*llama, *gguf));
        let of = |names: &[(Role, &'static str)]| {
            names.iter().find(|(named, _)| *named == role).map_or("", |(_, name)| *name)
        };
        let side = match self.family {
            Family::WhisperEncoder => "encoder",
            _ => "decoder",
        };
        let name = match (self.naming, self.family) {
            (Naming::Gguf, _) => gguf,
            (_, Family::Gpt2) => of(GPT2),
            (_, Family::Whisper | Family::WhisperEncoder) => of(WHISPER),
            (_, family) if family.is_gemma() && role == FeedForwardNorm => GEMMA_FEED_FORWARD_NORM,
            _ => llama,
        };
        name.replacen("SIDE", side, 1).replacen('N', &layer.to_string(), 1)
    }

    /// The tensors of each layer, in the order of the parameters of `layer`.
    pub(crate) fn layer_roles(&self) -> Vec<Role> {
        let in_layers = |names: &[(Role, &str)]| -> Vec<Role> {
            names.iter().map(|(role, _)| *role).filter(|role| *role >= AttentionNorm).collect()
        };
        match self.family {
            Family::Gpt2 => return in_layers(GPT2),
            Family::Whisper | Family::WhisperEncoder => {
                let is_decoder = self.family == Family::Whisper;
                let mut roles = in_layers(WHISPER);
                roles.retain(|role| !ENCODED.contains(role));
                roles.retain(|role| is_decoder || !ATTENDS.contains(role));
                return roles;
            }
            _ => {}
        }
        let mut roles = vec![AttentionNorm];
        let with_bias = |roles: &mut Vec<Role>, matrices: &[Role], has_bias: bool| {
            for &matrix in matrices {
                roles.push(matrix);
                roles.extend(matrix.bias().filter(|_| has_bias));
            }
        };
        let is_fused = self.family == Family::Phi3;
        let projections: &[Role] = if is_fused { &[QueryKeyValue] } else { &[Query, Key, Value] };
        with_bias(&mut roles, projections, self.qkv_bias);
        if self.has_query_key_norms() {
            roles.extend([QueryNorm, KeyNorm]);
        }
        with_bias(&mut roles, &[Output], self.output_bias);
        if self.family.is_gemma() {
            roles.push(PostAttentionNorm);
        }
        roles.push(FeedForwardNorm);
        let feed_forward: &[Role] = if is_fused { &[GateUp, Down] } else { &[Gate, Up, Down] };
        with_bias(&mut roles, feed_forward, self.feed_forward_bias);
        if self.family.is_gemma() {
            roles.push(PostFeedForwardNorm);
        }
        roles
    }

    /// Tensors outside of layers, but for the head.
    pub(crate) fn outer_roles(&self) -> Vec<Role> {
        match self.family {
            Family::Gpt2 | Family::Whisper => {
                vec![Embedding, Positions, FinalNorm, FinalNormBias]
            }
            Family::WhisperEncoder => vec![
                Convolution,
                ConvolutionBias,
                Halving,
                HalvingBias,
                Positions,
                FinalNorm,
                FinalNormBias,
            ],
            _ => vec![Embedding, FinalNorm],
        }
    }

    /// The shape of a tensor, rows first, as the checkpoint must have it.
    #[must_use]
    pub fn shape(&self, role: Role) -> Vec<usize> {
        let (hidden, wide) = (self.hidden, self.intermediate);
        let query = self.heads * self.head_dim;
        let key = self.kv_heads * self.head_dim;
        let mut shape = match role {
            Embedding | Head => return vec![self.vocabulary, hidden],
            Positions => return vec![self.context, hidden],
            Convolution => return vec![hidden, self.bands(), 3],
            Halving => return vec![hidden, hidden, 3],
            FrequencyDivisors => vec![self.rotaries.first().map_or(0, |rotary| rotary.dim / 2)],
            FinalNorm | FinalNormBias | AttentionNorm | AttentionNormBias | OutputBias
            | PostAttentionNorm | FeedForwardNorm | FeedForwardNormBias | DownBias
            | PostFeedForwardNorm | ConvolutionBias | HalvingBias | EncodedNorm
            | EncodedNormBias | EncodedOutputBias => vec![hidden],
            Query | EncodedQuery => vec![query, hidden],
            QueryBias | EncodedQueryBias => vec![query],
            Key | Value => vec![key, hidden],
            EncodedKey | EncodedValue => {
                vec![key, self.encoder.as_ref().map_or(hidden, |encoder| encoder.hidden)]
            }
            KeyBias | ValueBias | EncodedValueBias => vec![key],
            QueryKeyValue => vec![query + 2 * key, hidden],
            QueryKeyValueBias => vec![query + 2 * key],
            QueryNorm | KeyNorm => vec![self.head_dim],
            Output | EncodedOutput => vec![hidden, query],
            Gate | Up => vec![wide, hidden],
            GateBias | UpBias => vec![wide],
            GateUp => vec![2 * wide, hidden],
            Down => vec![hidden, wide],
        };
        if self.is_in_by_out() {
            shape.reverse();
        }
        shape
    }
}
