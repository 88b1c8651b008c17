//! Checkpoints in block formats: matrices are random blocks, decoded by the programs of `corpus/suite/quantized`, which are
//! compared with the package `gguf` elsewhere.

use ndarray::ArrayD;
use relax_llm::{BLOCKS, Block, Format, Stored};
use relax_program::frontend::{Program, RunOptions, run};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Function;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) type Tensors = BTreeMap<String, Tensor>;

/// Formats and shapes of a checkpoint, its tensors as fields of blocks, and decoded.
pub(crate) struct Checkpoint {
    pub(crate) stored: BTreeMap<String, Stored>,
    pub(crate) fields: Tensors,
    pub(crate) decoded: Tensors,
}

/// Makes random blocks of the matrices whose rows are of whole blocks; other tensors stay.
pub(crate) fn blocks(format: &str, tensors: Tensors) -> Checkpoint {
    let block = BLOCKS.iter().find(|block| block.name == format).expect("it is a format");
    let decoder = Decoder::of(format);
    let mut all =
        Checkpoint { stored: BTreeMap::new(), fields: Tensors::new(), decoded: Tensors::new() };
    let mut random = Random(7);
    for (name, tensor) in tensors {
        let shape = tensor.shape().to_vec();
        let (format, decoded) = match shape[..] {
            [rows, columns] if columns % block.elements == 0 => {
                let fields = fields(block, rows, columns / block.elements, &mut random);
                let decoded = decoder.decoded(&fields);
                let named = |(field, tensor)| (format!("{name}.{field}"), tensor);
                all.fields.extend(fields.into_iter().map(named));
                (Format::Block(block), decoded)
            }
            _ => {
                all.fields.insert(name.clone(), tensor.clone());
                (Format::named(&tensor.dtype().to_string()), tensor)
            }
        };
        all.stored.insert(name.clone(), Stored { format, shape });
        all.decoded.insert(name, decoded);
    }
    all
}

/// As in a checkpoint. Scales are such that weights are below 1.
fn fields(block: &Block, rows: usize, blocks: usize, random: &mut Random) -> Tensors {
    let mut fields = Tensors::new();
    for (name, dtype, columns) in block.fields.iter().map(relax_llm::BlockField::stored) {
        let shape = [rows, blocks * columns];
        let count = rows * blocks * columns;
        let scale = match (block.name, name) {
            ("q4_1" | "q5_1", "m") => -0.1,
            (_, "dmin") => 2e-3,
            ("q4_0" | "q4_1", _) => 1e-2,
            ("q5_0" | "q5_1", _) => 5e-3,
            ("q4_k", _) => 2e-4,
            ("q5_k", _) => 1e-4,
            ("q6_k", _) => 2e-5,
            _ => 1e-3,
        };
        let tensor = match dtype {
            "f16" => {
                let values = (0..count).map(|_| scale * (1.0 + random.below(16) as f64 / 16.0));
                Tensor::from_floats(DType::F16, array(&shape, values.collect()))
            }
            "i8" => {
                let values = (0..count).map(|_| i128::from(random.below(256)) - 128);
                Tensor::from_ints(DType::I8, array(&shape, values.collect()))
            }
            _ => {
                let values = (0..count).map(|_| i128::from(random.below(1 << 32)));
                Tensor::from_ints(DType::U32, array(&shape, values.collect()))
            }
        };
        fields.insert(name.to_owned(), tensor);
    }
    fields
}

fn array<T>(shape: &[usize], values: Vec<T>) -> ArrayD<T> {
    ArrayD::from_shape_vec(shape, values).expect("as many elements")
}

/// `corpus/suite/quantized/FORMAT.rx`
struct Decoder(Program);

impl Decoder {
    fn of(format: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let name = format!("corpus/suite/quantized/{format}.rx");
        let path = folder.ancestors().map(|folder| folder.join(&name)).find(|path| path.is_file());
        let text = std::fs::read_to_string(path.expect("it is there")).expect("it is a text");
        Self(Program::load(Source::new(name, text)))
    }

    fn decoded(&self, fields: &Tensors) -> Tensor {
        let is_entry = |function: &&Function| function.name == "dequantized";
        let entry = self.0.module.functions().find(is_entry).expect("there is an entry");
        let params = entry.lambda.params.iter().map(|&param| entry.var(param).name.as_str());
        let arguments = params.map(|name| Value::Tensor(fields[name].clone())).collect();
        let ran = run(&self.0.module, "dequantized", arguments, &RunOptions::default());
        match ran.result {
            Ok(Value::Tensor(tensor)) => tensor,
            other => panic!("{other:?}"),
        }
    }
}

/// Numbers by a linear congruence.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).wrapping_mul(most) >> 31
    }
}

/// `config.json` of a model whose rows are blocks of 256.
pub(crate) const WIDE: &str = r#"{
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 256, "head_dim": 64,
    "intermediate_size": 512, "max_position_embeddings": 128, "num_attention_heads": 4, "num_hidden_layers": 1,
    "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true, "vocab_size": 32
}"#;

/// Its tensors: matrices of zeros, and norms of ones.
pub(crate) fn wide() -> Tensors {
    let matrices = [
        ("model.embed_tokens", 32, 256),
        ("model.layers.0.self_attn.q_proj", 256, 256),
        ("model.layers.0.self_attn.k_proj", 64, 256),
        ("model.layers.0.self_attn.v_proj", 64, 256),
        ("model.layers.0.self_attn.o_proj", 256, 256),
        ("model.layers.0.mlp.gate_proj", 512, 256),
        ("model.layers.0.mlp.up_proj", 512, 256),
        ("model.layers.0.mlp.down_proj", 256, 512),
    ];
    let norms = ["layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"];
    let full = |shape: &[usize], value| {
        Tensor::from_floats(DType::F32, ArrayD::from_elem(shape.to_vec(), value))
    };
    let matrices = matrices
        .map(|(name, rows, columns)| (format!("{name}.weight"), full(&[rows, columns], 0.0)));
    let norms = norms.map(|name| (format!("model.{name}.weight"), full(&[256], 1.0)));
    matrices.into_iter().chain(norms).collect()
}
