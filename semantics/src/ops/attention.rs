//! Scaled dot-product attention.

use super::nn::{require_one_or_equal, softmax};
use super::product::product;
use super::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Param, Traps,
};
use super::{Reject, constraint, optional, required};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, strided_positions};
use crate::value::Value;
use ndarray::{Array2, Array3, ArrayView2, Axis, Ix3, IxDyn, s};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

const DOC: &str = "For each head, `softmax(query @ key^T * scale + bias) @ value`; query is (b, s, \
    h, d), key (b, t, k, d), value (b, t, v, e), the result (b, s, h, e). `scale` is 1 / sqrt(d) \
    if None. With k < h, every h / k heads in a row share a key; values likewise. bias broadcasts \
    to (b, h, s, t). `causal_mask` \"TopLeft\" lets row i see columns up to i, \"BottomRight\" up \
    to i + |s - t| (as in TVM), and `window_size` the last window_size of them. What is masked has \
    the score minus infinity: a row that sees nothing is NaN, as softmax says, or 0 when t is 0. \
    All in f64, rounded once.";

static PARAMS: [Param; 7] = [
    required("query", Kind::Tensor),
    required("key", Kind::Tensor),
    required("value", Kind::Tensor),
    optional("bias", Kind::OptionalTensor, Literal::None),
    optional("scale", Kind::OptionalFloat, Literal::None),
    optional("causal_mask", Kind::OptionalStr, Literal::None),
    optional("window_size", Kind::OptionalDim, Literal::None),
];

static CONSTRAINTS: [Constraint; 9] = [
    constraint("C1", "all tensors have the same dtype, a float one"),
    constraint("C2", "all tensors have rank 4"),
    constraint("C3", "query, key and value have the same batch size"),
    constraint("C4", "key and value have the same sequence length"),
    constraint("C5", "query and key have the same head dim"),
    constraint("C6", "the heads of key, and those of value, divide those of query"),
    constraint(
        "C7",
        "the first three dims of bias are 1 or those of (b, h, s); the last one is the sequence \
         length of key",
    ),
    constraint("C8", "causal_mask is TopLeft, BottomRight or None"),
    constraint("C9", "window_size is at least 1, and comes with a causal mask"),
];

/// TVM prints a call with a bias as `attention_bias`; both names take the same operands.
const fn row(name: &'static str) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Attention,
        doc: DOC,
        params: &PARAMS,
        constraints: &CONSTRAINTS,
        effect: Effect::Pure,
        traps: Traps::Never,
        infer,
        program: Programs::Of(programs::attention::attention),
        eval: Evaluate::Values(eval),
    }
}

pub(super) static OPERATORS: &[Operator] = &[row("nn.attention"), row("nn.attention_bias")];

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let mut tensors = vec!["query", "key", "value"];
    if !infer.is_none("bias") {
        tensors.push("bias");
    }
    let dtype = infer.same_dtype("C1", &tensors)?;
    for param in &tensors {
        infer.require_dtype("C1", param, DType::is_float)?;
        if let Some(rank) = infer.tensor(param)?.extents.rank()
            && rank != 4
        {
            let message = format!("`{param}` must have rank 4, found rank {rank}");
            return Err(infer.reject("C2", message));
        }
    }
    check_attributes(infer)?;
    let extents = require_dims(infer)?;
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn check_attributes(infer: &Infer) -> Result<(), Reject> {
    if !infer.is_none("scale") {
        infer.float("scale")?;
    }
    let masked = !infer.is_none("causal_mask");
    if masked {
        let mask = infer.str("causal_mask")?;
        if Mask::parse(&mask).is_none() {
            let message = format!("`causal_mask` is TopLeft or BottomRight, not {mask}");
            return Err(infer.reject("C8", message));
        }
    }
    if infer.is_none("window_size") {
        return Ok(());
    }
    let window = infer.int("window_size")?;
    if window >= 1 && masked {
        return Ok(());
    }
    Err(infer.reject("C9", format!("`window_size` {window} needs a `causal_mask` and 1 or more")))
}

/// Demands that the dims, where known, fit, and gives those of the result.
fn require_dims(infer: &mut Infer) -> Result<Extents, Reject> {
    let dims = |infer: &Infer, param: &str| -> Result<Option<Vec<Dim>>, Reject> {
        Ok(infer.tensor(param)?.extents.dims().map(<[Dim]>::to_vec))
    };
    let (query, key, value) = (dims(infer, "query")?, dims(infer, "key")?, dims(infer, "value")?);
    if let (Some(query), Some(key)) = (&query, &key) {
        require_same(infer, "C3", "the batch sizes of `query` and `key`", &query[0], &key[0])?;
        require_same(infer, "C5", "the head dims of `query` and `key`", &query[3], &key[3])?;
        require_shared_heads(infer, "key", &query[2], &key[2])?;
    }
    if let (Some(query), Some(value)) = (&query, &value) {
        require_same(infer, "C3", "the batch sizes of `query` and `value`", &query[0], &value[0])?;
        require_shared_heads(infer, "value", &query[2], &value[2])?;
    }
    if let (Some(key), Some(value)) = (&key, &value) {
        let what = "the sequence lengths of `key` and `value`";
        require_same(infer, "C4", what, &key[1], &value[1])?;
    }
    let bias = if infer.is_none("bias") { None } else { dims(infer, "bias")? };
    if let (Some(query), Some(bias)) = (&query, &bias) {
        for (at, expected) in [&query[0], &query[2], &query[1]].into_iter().enumerate() {
            require_one_or_equal(infer, "C7", &bias[at], expected, &format!("dim {at} of `bias`"))?;
        }
    }
    if let (Some(key), Some(bias)) = (&key, &bias) {
        let what = "the sequence lengths of `key` and `bias`";
        require_same(infer, "C7", what, &key[1], &bias[3])?;
    }
    Ok(match (query, value) {
        (Some(query), Some(value)) => Extents::Known([&query[..3], &value[3..]].concat()),
        _ => Extents::Rank(4),
    })
}

fn require_same(
    infer: &mut Infer,
    constraint: &'static str,
    what: &str,
    a: &Dim,
    b: &Dim,
) -> Result<(), Reject> {
    infer.require_equal(constraint, a, b, || format!("{what} must be equal, found {a} and {b}"))
}

/// Demands that `heads` of `param` can be shared by those of query.
fn require_shared_heads(
    infer: &mut Infer,
    param: &str,
    query: &Dim,
    heads: &Dim,
) -> Result<(), Reject> {
    // Also right without any head, where nothing divides.
    if infer.proves_equal(query, heads) {
        return Ok(());
    }
    let claim = Claim::new(heads.clone(), Relation::Divides, query.clone());
    infer.require("C6", claim, || {
        format!("the {query} heads of `query` can't share {heads} heads of `{param}` evenly")
    })
}

/// Which columns of the scores a row sees.
#[derive(Clone, Copy)]
enum Mask {
    TopLeft,
    BottomRight,
}

impl Mask {
    fn parse(text: &str) -> Option<Mask> {
        match text {
            "TopLeft" => Some(Mask::TopLeft),
            "BottomRight" => Some(Mask::BottomRight),
            _ => None,
        }
    }
}

/// What of the scores is masked.
struct Seen {
    /// Row i sees columns up to i + offset.
    offset: usize,
    /// How many of them it sees, the last ones.
    window: usize,
}

impl Seen {
    /// Masks the scores of rows from `first` on, in place.
    fn mask(&self, first: usize, scores: &mut Array2<f64>) {
        for ((row, column), score) in scores.indexed_iter_mut() {
            let last = first + row + self.offset;
            if column > last || last - column >= self.window {
                *score = f64::NEG_INFINITY;
            }
        }
    }

    fn of(eval: &Eval, rows: usize, columns: usize) -> Option<Seen> {
        let mask = (!eval.is_none("causal_mask")).then(|| eval.str("causal_mask"))?;
        let offset = match Mask::parse(&mask).expect("invariant: infer checked C8") {
            Mask::TopLeft => 0,
            Mask::BottomRight => rows.abs_diff(columns),
        };
        let window = if eval.is_none("window_size") { i64::MAX } else { eval.int("window_size") };
        Some(Seen { offset, window: usize::try_from(window).unwrap_or(usize::MAX) })
    }
}

/// A tensor (b, s, h, d) as (b * h, s, d).
fn by_head(tensor: &Tensor) -> Array3<f64> {
    let &[batch, length, heads, dim] = tensor.shape() else {
        panic!("invariant: infer checked C2")
    };
    let positions = strided_positions(
        &[batch, heads, length, dim],
        &[length * heads * dim, dim, heads * dim, 1],
    );
    let rows = tensor.select(&[batch * heads, length, dim], &positions);
    rows.to_floats().into_dimensionality::<Ix3>().expect("invariant: it has three dims")
}

/// How many scores are computed at a time: all of them may be far more than the operands.
const BLOCK: usize = 1 << 20;

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let tensors = [eval.tensor("query")?, eval.tensor("key")?, eval.tensor("value")?];
    let (heads, rows, columns) = (shape[2], shape[1], tensors[1].shape()[1]);
    let scale = if eval.is_none("scale") {
        1.0 / (tensors[0].shape()[3] as f64).sqrt()
    } else {
        eval.float("scale")
    };
    let [query, key, value] = tensors.map(by_head);
    let bias = eval.optional_tensor("bias")?.map(Tensor::to_floats);
    let seen = Seen::of(eval, rows, columns);
    let mut result = Array3::zeros((shape[0] * heads, rows, shape[3]));
    if result.is_empty() {
        return Ok(Value::Tensor(Tensor::full(dtype, &shape, Number::Int(0))));
    }
    let bias = bias.as_ref().map(|bias| {
        let scores = IxDyn(&[shape[0], heads, rows, columns]);
        bias.broadcast(scores).expect("invariant: infer checked C7")
    });
    // Which head of key or value serves a head of query, both counted over the batch.
    let shared = |param: usize, head: usize| {
        let own = tensors[param].shape()[2];
        head / heads * own + head % heads / (heads / own)
    };
    for head in 0..shape[0] * heads {
        let keys = key.slice(s![shared(1, head), .., ..]);
        let values = value.slice(s![shared(2, head), .., ..]);
        let block = (BLOCK / columns.max(1)).max(1);
        for first in (0..rows).step_by(block) {
            let block = first..rows.min(first + block);
            let queries = query.slice(s![head, block.clone(), ..]);
            let mut scores = product(dtype, queries, keys.t()) * scale;
            if let Some(bias) = &bias {
                scores += &bias.slice(s![head / heads, head % heads, block.clone(), ..]);
            }
            if let Some(seen) = &seen {
                seen.mask(first, &mut scores);
            }
            result.slice_mut(s![head, block, ..]).assign(&attend(dtype, scores, values));
        }
    }
    // From (b, h, s, e) to (b, s, h, e).
    let result = Tensor::from_floats(dtype, result.into_dyn());
    let steps = [heads * rows * shape[3], shape[3], rows * shape[3], 1];
    Ok(Value::Tensor(result.select(&shape, &strided_positions(&shape, &steps))))
}

/// Scores through softmax, times the values.
fn attend(dtype: DType, mut scores: Array2<f64>, values: ArrayView2<f64>) -> Array2<f64> {
    if !scores.is_empty() {
        scores.lanes_mut(Axis(1)).into_iter().for_each(softmax);
    }
    product(dtype, scores.view(), values)
}
