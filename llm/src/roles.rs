//! Roles of tensors in a model, with their shapes and their names in checkpoints.

mod names;

use crate::config::{Config, Family, Naming};
use names::{CLIP, ENCODERS, GEMMA_FEED_FORWARD_NORM, GPT2, NAMES, OTHER_NAMES, WHISPER};

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
    /// Of the shape (hidden, 3, patch, patch): a vision tower's convolution
    PatchEmbedding,
    /// Of the shape (hidden): the row before those of patches
    ClassEmbedding,
    /// Of the shape (hidden), before the first layer
    PreNorm,
    /// Of the shape (hidden)
    PreNormBias,
    /// Of the shape (width of the text, hidden)
    Projector,
    /// Of the shape (width of the text)
    ProjectorBias,
    /// Of the shape (width of the text, width of the text)
    Projector2,
    /// Of the shape (width of the text)
    Projector2Bias,
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
    CrossNorm,
    /// Of the shape (hidden)
    CrossNormBias,
    /// Of the shape (heads * head dim, hidden), of attention to what was encoded
    CrossQuery,
    /// Of the shape (heads * head dim)
    CrossQueryBias,
    /// Of the shape (hidden, heads * head dim)
    CrossOutput,
    /// Of the shape (hidden)
    CrossOutputBias,
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
    CrossKey,
    /// Of the shape (kv heads * head dim, width of the encoder)
    CrossValue,
    /// Of the shape (kv heads * head dim)
    CrossValueBias,
}

use Role::{
    AttentionNorm, AttentionNormBias, ClassEmbedding, Convolution, ConvolutionBias, CrossKey,
    CrossNorm, CrossNormBias, CrossOutput, CrossOutputBias, CrossQuery, CrossQueryBias, CrossValue,
    CrossValueBias, Down, DownBias, Embedding, FeedForwardNorm, FeedForwardNormBias, FinalNorm,
    FinalNormBias, FrequencyDivisors, Gate, GateBias, GateUp, Halving, HalvingBias, Head, Key,
    KeyBias, KeyNorm, Output, OutputBias, PatchEmbedding, Positions, PostAttentionNorm,
    PostFeedForwardNorm, PreNorm, PreNormBias, Projector, Projector2, Projector2Bias,
    ProjectorBias, Query, QueryBias, QueryKeyValue, QueryKeyValueBias, QueryNorm, Up, UpBias,
    Value, ValueBias,
};

/// What a decoder computes of what was encoded for each layer, before any token is there.
pub(crate) const CROSS_INPUTS: [Role; 3] = [CrossKey, CrossValue, CrossValueBias];

/// What an encoder of speech has outside of layers that its decoder has not.
const ENCODER_ALONE: [Role; 4] = [Convolution, ConvolutionBias, Halving, HalvingBias];

/// What a layer of a decoder has that one of an encoder has not.
const CROSS_ATTENTION: [Role; 6] =
    [CrossNorm, CrossNormBias, CrossQuery, CrossQueryBias, CrossOutput, CrossOutputBias];

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
            CrossQuery => CrossQueryBias,
            CrossValue => CrossValueBias,
            CrossOutput => CrossOutputBias,
            Projector => ProjectorBias,
            Projector2 => Projector2Bias,
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
        let is_encoder = self.input.is_some();
        let side = if is_encoder { "encoder" } else { "decoder" };
        let prefix = if self.takes_images() { "language_model." } else { "" };
        let name = match (self.naming, self.own_names()) {
            (Naming::Gguf, _) => gguf,
            (_, Some(names)) => {
                names.iter().find(|(named, _)| *named == role).map_or("", |(_, name)| *name)
            }
            _ if self.family.is_gemma() && role == FeedForwardNorm => GEMMA_FEED_FORWARD_NORM,
            _ => llama,
        };
        let name = name.replacen("SIDE", side, 1).replacen('N', &layer.to_string(), 1);
        format!("{prefix}{name}")
    }

    /// What the tensor may be called instead.
    pub(crate) fn other_names(name: &str) -> impl Iterator<Item = String> {
        OTHER_NAMES.iter().filter_map(move |(prefix, other)| {
            Some(format!("{other}{}", name.strip_prefix(prefix)?))
        })
    }

    /// The tensors of a family whose names are not those of Llama.
    fn own_names(&self) -> Option<&'static [(Role, &'static str)]> {
        match self.family {
            Family::Gpt2 => Some(GPT2),
            Family::Whisper | Family::WhisperEncoder => Some(WHISPER),
            Family::Clip => Some(CLIP),
            _ => None,
        }
    }

    /// Whether a model of the family has a tensor on this side.
    fn has_on_its_side(&self, role: Role) -> bool {
        match self.family {
            Family::Whisper => !CROSS_INPUTS.contains(&role) && !ENCODER_ALONE.contains(&role),
            Family::WhisperEncoder => {
                !CROSS_INPUTS.contains(&role)
                    && !CROSS_ATTENTION.contains(&role)
                    && role != Embedding
            }
            _ => true,
        }
    }

    /// The tensors of each layer, in the order of the parameters of `layer`.
    pub(crate) fn layer_roles(&self) -> Vec<Role> {
        if let Some(names) = self.own_names() {
            let roles = names.iter().map(|(role, _)| *role).filter(|role| *role >= AttentionNorm);
            return roles.filter(|role| self.has_on_its_side(*role)).collect();
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
        let Some(names) = self.own_names() else { return vec![Embedding, FinalNorm] };
        let roles = names.iter().map(|(role, _)| *role);
        let roles = roles.filter(|role| *role < AttentionNorm && *role != Head);
        roles.filter(|role| self.has_on_its_side(*role)).collect()
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
            PatchEmbedding => return vec![hidden, 3, self.image().patch, self.image().patch],
            Projector => return vec![self.image().width, hidden],
            Projector2 => return vec![self.image().width; 2],
            ProjectorBias | Projector2Bias => return vec![self.image().width],
            FrequencyDivisors => vec![self.rotaries.first().map_or(0, |rotary| rotary.dim / 2)],
            FinalNorm | FinalNormBias | AttentionNorm | AttentionNormBias | OutputBias
            | PostAttentionNorm | FeedForwardNorm | FeedForwardNormBias | DownBias
            | PostFeedForwardNorm | ConvolutionBias | HalvingBias | CrossNorm | CrossNormBias
            | CrossOutputBias | ClassEmbedding | PreNorm | PreNormBias => {
                vec![hidden]
            }
            Query | CrossQuery => vec![query, hidden],
            QueryBias | CrossQueryBias => vec![query],
            Key | Value => vec![key, hidden],
            CrossKey | CrossValue => {
                vec![key, self.encoder.as_ref().map_or(hidden, |encoder| encoder.hidden)]
            }
            KeyBias | ValueBias | CrossValueBias => vec![key],
            QueryKeyValue => vec![query + 2 * key, hidden],
            QueryKeyValueBias => vec![query + 2 * key],
            QueryNorm | KeyNorm => vec![self.head_dim],
            Output | CrossOutput => vec![hidden, query],
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
