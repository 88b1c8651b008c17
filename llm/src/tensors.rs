//! Tensors of a checkpoint: formats and shapes by name, compared with the configuration.

use crate::config::{Config, Family, Head, Naming};
use crate::error::Error;
use crate::quantize::Quantization;
use crate::roles::Role;
use relax_syntax::dtype::DType;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The table of contents of a checkpoint.
pub trait Tensors {
    /// The names of all tensors, in any order.
    fn names(&self) -> Vec<String>;
    /// Format and shape of a tensor; `None`: the checkpoint does not have it.
    fn stored(&self, name: &str) -> Option<Stored>;
}

/// Format and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How elements are stored.
    pub format: Format,
    /// Extents of the decoded tensor, rows first. A GGUF file lists them in the other order.
    pub shape: Vec<usize>,
}

/// How the elements of a tensor are stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// 32 bits each.
    F32,
    /// 16 bits each.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// Blocks of a row with scales: a format of GGUF files.
    Block(&'static Block),
    /// A format that no template reads.
    Other(String),
}

/// A block format. Tensors of a checkpoint hold its fields: `NAME.FIELD` of the shape (rows, blocks in a row * columns).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Block {
    /// In lower case, as in `linear_q4_0`.
    pub name: &'static str,
    /// Elements of a row in a block.
    pub elements: usize,
    /// In the order in which functions of the program take them.
    pub fields: &'static [BlockField],
}

/// A field as the program decodes it: that of the checkpoint, or what a function of the program makes of it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BlockField {
    /// In the program.
    pub name: &'static str,
    /// In the program.
    pub dtype: &'static str,
    /// In a block, in the program.
    pub columns: usize,
    /// What packs it; `None` where it is a field of the checkpoint.
    pub packed: Option<Packed>,
}

/// How a field is made of one of the checkpoint.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Packed {
    /// A function of the program, which takes the scales `d` of the blocks before.
    pub by: &'static str,
    /// Name, dtype and columns in a block of the field that it takes.
    pub of: (&'static str, &'static str, usize),
}

impl BlockField {
    /// Name, dtype and columns in a block of the field of the checkpoint.
    #[must_use]
    pub fn stored(&self) -> (&'static str, &'static str, usize) {
        self.packed.as_ref().map_or((self.name, self.dtype, self.columns), |packed| packed.of)
    }
}

const fn field(name: &'static str, dtype: &'static str, columns: usize) -> BlockField {
    BlockField { name, dtype, columns, packed: None }
}

const fn packed(
    (name, dtype, columns): (&'static str, &'static str, usize),
    by: &'static str,
    of: (&'static str, &'static str, usize),
) -> BlockField {
    BlockField { name, dtype, columns, packed: Some(Packed { by, of }) }
}

const D: BlockField = field("d", "f16", 1);
const M: BlockField = field("m", "f16", 1);
const DMIN: BlockField = field("dmin", "f16", 1);
const NIBBLES: BlockField = packed(("nibbles", "u32", 4), "nibbles_4", ("qs", "u32", 4));
const NIBBLES_K: BlockField = packed(("nibbles", "u32", 32), "nibbles_8", ("qs", "u32", 32));
const NIBBLES_6K: BlockField = packed(("nibbles", "u32", 32), "nibbles_16", ("ql", "u32", 32));
const SCALES: BlockField = packed(("scales", "u8", 8), "scales_k", ("scales", "u32", 3));
const MINS: BlockField = packed(("mins", "u8", 8), "mins_k", ("scales", "u32", 3));
const BITS: BlockField = packed(("bits", "u32", 8), "bits_k", ("qh", "u32", 8));
const PAIRS: BlockField = packed(("pairs", "u32", 16), "pairs_k", ("qh", "u32", 16));

/// The block formats that templates read.
pub const BLOCKS: &[Block] = &[
    Block { name: "q4_0", elements: 32, fields: &[D, NIBBLES] },
    Block { name: "q4_1", elements: 32, fields: &[D, M, NIBBLES] },
    Block { name: "q5_0", elements: 32, fields: &[D, field("qh", "u32", 1), NIBBLES] },
    Block { name: "q5_1", elements: 32, fields: &[D, M, field("qh", "u32", 1), NIBBLES] },
    Block { name: "q8_0", elements: 32, fields: &[D, field("qs", "i8", 32)] },
    Block { name: "q4_k", elements: 256, fields: &[D, DMIN, SCALES, MINS, NIBBLES_K] },
    Block { name: "q5_k", elements: 256, fields: &[D, DMIN, SCALES, MINS, BITS, NIBBLES_K] },
    Block {
        name: "q6_k",
        elements: 256,
        fields: &[D, field("scales", "i8", 16), PAIRS, NIBBLES_6K],
    },
];

impl Format {
    /// The format of a name such as `f32`, `BF16` or `Q4_0`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "f32" => Self::F32,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            other => match BLOCKS.iter().find(|block| block.name == other) {
                Some(block) => Self::Block(block),
                None => Self::Other(name.to_owned()),
            },
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Block(block) => block.name,
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor of the program: a field of a block format, or the whole weight.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Added to the identifier of the role; empty for the whole.
    pub(crate) suffix: String,
    /// `Tensor((4, 2), "f32")`
    pub(crate) annotation: String,
    /// `param("NAME", Tensor((4, 2), "f32"))`
    pub(crate) param: String,
    /// Of the elements in the program.
    pub(crate) bytes: u64,
}

impl Field {
    fn new(suffix: String, dtype: &str, shape: &[usize], param: String) -> Self {
        // A dtype that the language lacks is refused where the program is read.
        let element = DType::parse(dtype).map_or(0, DType::size);
        let bytes = shape.iter().fold(element, |bytes, extent| bytes.saturating_mul(*extent));
        Self { suffix, annotation: annotation(dtype, shape), param, bytes: bytes as u64 }
    }
}

/// A weight with the expressions that its fields have at its place in the text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Weight {
    /// `f32`, `q4_0`, …
    format: String,
    /// Whether `dequantize_FORMAT` decodes the fields.
    is_block: bool,
    fields: Vec<String>,
    /// Whether a matrix is stored as (in, out).
    in_by_out: bool,
    /// Added to a product with the matrix.
    pub(crate) bias: Option<Box<Weight>>,
}

impl Weight {
    pub(crate) fn new(found: &Found, fields: Vec<String>, in_by_out: bool) -> Self {
        Self {
            format: found.format.to_string(),
            is_block: matches!(found.format, Format::Block(_)),
            fields,
            in_by_out,
            bias: None,
        }
    }
}

/// A tensor that the checkpoint has as the configuration says.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) format: Format,
    pub(crate) fields: Vec<Field>,
}

impl Found {
    /// Of the elements in the program.
    pub(crate) fn bytes(&self) -> u64 {
        self.fields.iter().map(|field| field.bytes).sum()
    }
}

/// Looks tensors up, and records which ones the model uses.
pub(crate) struct Checkpoint<'c> {
    config: &'c Config,
    tensors: &'c dyn Tensors,
    /// What names lack in a checkpoint of a model without head, such as `model.`.
    lacks: &'static str,
    used: BTreeSet<String>,
    quantization: Option<Quantization>,
    /// The dtypes of matrices that are quantized.
    pub(crate) sources: BTreeSet<String>,
    pub(crate) quantized: BTreeSet<String>,
    pub(crate) kept: BTreeMap<String, String>,
}

/// Outer modules of models with a head, in Hugging Face's names.
const OUTER_MODULES: [&str; 2] = ["model.", "transformer."];

impl<'c> Checkpoint<'c> {
    pub(crate) fn new(
        config: &'c Config,
        tensors: &'c dyn Tensors,
        quantization: Option<Quantization>,
    ) -> Self {
        let embedding = config.name(Role::Embedding, 0);
        let is_missing = |module: &&str| {
            let short = embedding.strip_prefix(module);
            tensors.stored(&embedding).is_none()
                && short.is_some_and(|short| tensors.stored(short).is_some())
        };
        let lacks = OUTER_MODULES.into_iter().find(is_missing).unwrap_or("");
        Self {
            config,
            tensors,
            lacks,
            used: BTreeSet::new(),
            quantization,
            sources: BTreeSet::new(),
            quantized: BTreeSet::new(),
            kept: BTreeMap::new(),
        }
    }

    fn name(&self, config: &Config, role: Role, layer: usize) -> String {
        let name = config.name(role, layer);
        let name = name.strip_prefix(self.lacks).map_or(name.clone(), str::to_owned);
        let is_stored = |name: &String| self.tensors.stored(name).is_some();
        let other = Config::other_names(&name).find(|other| !is_stored(&name) && is_stored(other));
        other.unwrap_or(name)
    }

    /// Whether the checkpoint has the tensor of a role.
    pub(crate) fn has(&self, role: Role) -> bool {
        self.tensors.stored(&self.name(self.config, role, 0)).is_some()
    }

    /// Compares the tensor of a role with a configuration: that of the model, or of its encoder.
    pub(crate) fn find(
        &mut self,
        config: &Config,
        role: Role,
        layer: usize,
    ) -> Result<Found, Error> {
        let (name, expected) = (self.name(config, role, layer), config.shape(role));
        let Some(Stored { format, shape }) = self.tensors.stored(&name) else {
            return Err(Error::MissingTensor { name, expected });
        };
        if shape != expected {
            return Err(Error::TensorShape { name, found: shape, expected });
        }
        let found = match self.quantized_as(role, &name, (&format, &shape)) {
            Some(found) => found,
            None => Found { fields: self.fields(role, &name, (&format, &shape))?, format },
        };
        self.used.insert(name);
        Ok(found)
    }

    /// A matrix as it is after quantization; `None` where it stays.
    fn quantized_as(
        &mut self,
        role: Role,
        name: &str,
        (format, shape): (&Format, &[usize]),
    ) -> Option<Found> {
        let (quantization, &[rows, columns]) = (self.quantization?, shape) else { return None };
        let kind = (role, self.config.is_in_by_out());
        if let Some(why) = quantization.keeps(kind, format, columns) {
            self.kept.insert(name.to_owned(), why);
            return None;
        }
        self.quantized.insert(name.to_owned());
        self.sources.insert(format.name().to_owned());
        let whole = of_program(name, "", format.name(), shape).param;
        let to = quantization.format();
        let blocks = if let Format::Block(block) = to { columns / block.elements } else { columns };
        let field = |field: &BlockField| {
            let suffix =
                if field.name.is_empty() { String::new() } else { format!("_{}", field.name) };
            let param = format!("{}({whole})", quantization.function(field, format.name()));
            Field::new(suffix, field.dtype, &[rows, blocks * field.columns], param)
        };
        Some(Found { fields: quantization.fields().iter().map(field).collect(), format: to })
    }

    fn fields(
        &self,
        role: Role,
        name: &str,
        (format, shape): (&Format, &[usize]),
    ) -> Result<Vec<Field>, Error> {
        let refused = |expected: &str| Error::TensorFormat {
            name: name.to_owned(),
            found: format.to_string(),
            expected: expected.to_owned(),
        };
        match (format, shape) {
            (Format::Other(_), _) => {
                let blocks: Vec<&str> = BLOCKS.iter().map(|block| block.name).collect();
                Err(refused(&format!("f32, f16, bf16, {}", blocks.join(", "))))
            }
            (Format::Block(block), &[rows, columns]) => {
                if role == Role::Positions || self.config.is_in_by_out() {
                    return Err(refused("f32, f16 or bf16 here"));
                }
                if columns % block.elements != 0 {
                    let divisor = block.elements;
                    return Err(refused(&format!("rows of a multiple of {divisor} elements")));
                }
                let blocks = columns / block.elements;
                let field = |field: &BlockField| {
                    let (stored, dtype, columns) = field.stored();
                    let stored = format!("{name}.{stored}");
                    let whole = of_program(&stored, "", dtype, &[rows, blocks * columns]);
                    let scales = of_program(&format!("{name}.d"), "", "f16", &[rows, blocks]);
                    let param = match &field.packed {
                        Some(Packed { by, .. }) => {
                            format!("{by}({}, {})", scales.param, whole.param)
                        }
                        None => whole.param,
                    };
                    let shape = [rows, blocks * field.columns];
                    Field::new(format!("_{}", field.name), field.dtype, &shape, param)
                };
                Ok(block.fields.iter().map(field).collect())
            }
            (Format::Block(_), _) => Err(refused("f32, f16 or bf16, as it is no matrix")),
            _ => Ok(vec![of_program(name, "", format.name(), shape)]),
        }
    }

    /// Whether a tensor of a vision tower comes after the layer whose rows are the features.
    fn is_beyond_features(&self, name: &str) -> bool {
        let Some((_, rest)) = name.split_once("vision_tower.") else { return false };
        let rest = rest.strip_prefix("vision_model.").unwrap_or(rest);
        let layers = self.config.encoder.as_ref().map_or(0, |encoder| encoder.layers.len());
        let layer = rest.strip_prefix("encoder.layers.").and_then(|rest| rest.split('.').next());
        let layer = layer.and_then(|number| number.parse::<usize>().ok());
        rest.starts_with("post_layernorm.")
            || rest == "embeddings.position_ids"
            || layer.is_some_and(|layer| layer >= layers)
    }

    /// Refuses tensors that the model does not use.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let is_ignored = |name: &String| {
            let is_gpt2 =
                self.config.family == Family::Gpt2 && self.config.naming == Naming::HuggingFace;
            let is_tied_head = self.config.head == Head::Embedding;
            // Buffers that transformers computes anew: frequencies, GPT-2's causal masks.
            name.ends_with("rotary_emb.inv_freq")
                || self.config.takes_images() && self.is_beyond_features(name)
                || is_gpt2 && (name.ends_with(".attn.bias") || name.ends_with(".masked_bias"))
                || is_tied_head && *name == self.name(self.config, Role::Head, 0)
        };
        let mut names = self.tensors.names();
        names.retain(|name| !self.used.contains(name) && !is_ignored(name));
        names.sort();
        if names.is_empty() { Ok(()) } else { Err(Error::UnusedTensors { names }) }
    }
}

/// `Tensor((4, 2), "f32")`
fn annotation(dtype: &str, shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    format!("Tensor(({}{comma}), \"{dtype}\")", dims.join(", "))
}

fn of_program(name: &str, suffix: &str, dtype: &str, shape: &[usize]) -> Field {
    let param = format!("param(\"{name}\", {})", annotation(dtype, shape));
    Field::new(suffix.to_owned(), dtype, shape, param)
}
