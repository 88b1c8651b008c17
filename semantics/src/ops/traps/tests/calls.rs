//! Generated calls of any row, with hostile elements: most are refused by `infer`, some are accepted.

use crate::ops::{Kind, Operator, Param};
use crate::tensor::{Number, Tensor, array};
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::sync::Arc;

const FLOATS: [f64; 10] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    -1.0,
    0.5,
    2.0,
    f64::MAX,
    -f64::MIN_POSITIVE,
];

const INTS: [i128; 12] = [
    i64::MIN as i128,
    i64::MIN as i128 + 1,
    i32::MIN as i128,
    -2,
    -1,
    0,
    1,
    2,
    63,
    64,
    i64::MAX as i128,
    u64::MAX as i128,
];

const TEXTS: [&str; 22] = [
    "f32",
    "i64",
    "i8",
    "bool",
    "u64",
    "sum",
    "prod",
    "max",
    "mean",
    "none",
    "update",
    "add",
    "clip",
    "wrap",
    "nan",
    "ij,jk->ik",
    "ij,ij->",
    "R",
    "S[0]",
    "replicate",
    "circular",
    "TopLeft",
];

/// A pseudo-random choice, the same on every run.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// The calls of one row: the tensors of a call have one extent, most of them one shape and one dtype,
/// so that constraints between operands often hold.
pub(super) struct Calls {
    choices: Choices,
    extent: usize,
    rank: usize,
    dtype: DType,
    mixed: bool,
}

/// Positional arguments, and those by keyword.
pub(super) type Arguments = (Vec<Value>, Vec<(Name, Value)>);

impl Calls {
    pub(super) fn new(seed: u64) -> Self {
        Self { choices: Choices(seed), extent: 1, rank: 1, dtype: DType::F32, mixed: false }
    }

    /// The arguments of a further call; those that have a default are often left out.
    pub(super) fn arguments(&mut self, row: &Operator) -> Arguments {
        self.extent = self.choices.of(&[0, 1, 2, 2, 2, 3, 4]);
        self.rank = self.choices.of(&[0, 1, 2, 2, 3, 4, 4]);
        self.dtype = self.choices.of(&DType::ALL);
        self.mixed = self.choices.one_in(3);
        let (mut positional, mut keywords) = (Vec::new(), Vec::new());
        for param in row.params {
            match (param.kind, param.default) {
                (Kind::Rest, _) => {
                    for _ in 0..self.choices.below(3) {
                        positional.push(self.any());
                    }
                }
                (_, None) => positional.push(self.argument(param)),
                (_, Some(_)) if self.choices.one_in(4) => {
                    keywords.push((param.name.into(), self.argument(param)));
                }
                _ => {}
            }
        }
        (positional, keywords)
    }

    fn argument(&mut self, param: &Param) -> Value {
        match param.kind {
            Kind::Tensor | Kind::OptionalTensor => self.tensor(),
            Kind::Tensors => {
                let count = self.choices.of(&[1, 1, 2, 2, 3]);
                Value::Tuple((0..count).map(|_| self.tensor()).collect())
            }
            Kind::Shape | Kind::InferredShape | Kind::OptionalShape => self.shape(),
            Kind::Dim | Kind::OptionalDim => self.int(),
            Kind::Dims | Kind::OptionalDims => {
                let count = self.choices.of(&[1, 1, 2, self.rank, 2 * self.rank]);
                Value::Tuple((0..count).map(|_| self.int()).collect())
            }
            Kind::Float | Kind::OptionalFloat => self.scalar(),
            Kind::Bool => Value::Prim(DType::Bool, Number::Int(self.choices.below(2) as i128)),
            Kind::Str | Kind::OptionalStr => Value::Str(self.choices.of(&TEXTS).into()),
            Kind::DType | Kind::OptionalDType => {
                Value::Str(self.choices.of(&DType::ALL).name().into())
            }
            Kind::Function => Value::Global("f".into()),
            Kind::Annotation => {
                let annotation = Annotation::tensor(vec![Dim::Int(2)], self.dtype);
                Value::Annotation(Arc::new(annotation))
            }
            Kind::Value | Kind::Rest => self.any(),
        }
    }

    fn any(&mut self) -> Value {
        match self.choices.below(4) {
            0 => self.tensor(),
            1 => Value::Tuple(vec![self.tensor()]),
            _ => self.scalar(),
        }
    }

    fn scalar(&mut self) -> Value {
        if self.choices.one_in(2) {
            return self.int();
        }
        Value::Prim(DType::F64, Number::Float(self.choices.of(&FLOATS)))
    }

    /// An attribute: an axis, a count or a bound.
    fn int(&mut self) -> Value {
        let extent = i64::try_from(self.extent).expect("it is small");
        Value::int(self.choices.of(&[-2, -1, 0, 0, 0, 1, 1, 1, 2, 3, extent, i64::MAX, i64::MIN]))
    }

    fn shape(&mut self) -> Value {
        let extent = i64::try_from(self.extent).expect("it is small");
        let elements = (0..self.rank).map(|_| extent).product();
        Value::Shape(match self.choices.below(4) {
            0 => vec![elements],
            1 => vec![1, elements],
            _ => vec![extent; self.rank],
        })
    }

    fn tensor(&mut self) -> Value {
        let shape = match self.choices.below(12) {
            0 => Vec::new(),
            1..=3 => vec![self.extent],
            4 => vec![self.extent; self.rank.saturating_sub(1)],
            5 => vec![1; self.rank],
            6 => vec![self.choices.of(&[1, 2, 3, 4]); self.rank],
            _ => vec![self.extent; self.rank],
        };
        let dtype = if self.mixed { self.choices.of(&DType::ALL) } else { self.dtype };
        let count: usize = shape.iter().product();
        Value::Tensor(if dtype.is_float() {
            let values = (0..count).map(|_| self.choices.of(&FLOATS)).collect();
            Tensor::from_floats(dtype, array(&shape, values))
        } else {
            let values = (0..count).map(|_| self.choices.of(&INTS)).collect();
            Tensor::from_ints(dtype, array(&shape, values))
        })
    }
}
