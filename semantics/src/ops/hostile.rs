//! Whatever values rows get, they answer: a value or a stop, never a panic.

use super::{Evaluate, Family, Limits, all, apply};
use crate::tensor::{Number, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::sync::Arc;

/// Families whose rows this holds for.
const FAMILIES: [Family; 7] = [
    Family::Creation,
    Family::Movement,
    Family::Shapes,
    Family::LinearAlgebra,
    Family::Distributed,
    Family::Memory,
    Family::Builtins,
];

fn tensors() -> Vec<Value> {
    let shapes: [&[usize]; 9] =
        [&[], &[0], &[1], &[2], &[3, 2], &[2, 2], &[1, 0, 3], &[2, 1, 3], &[1, 2, 2, 2]];
    let mut tensors = Vec::new();
    for (index, shape) in shapes.into_iter().enumerate() {
        let count: usize = shape.iter().product();
        let ints = array(shape, (0..count as i128).map(|value| value - 1).collect());
        for dtype in [DType::F32, DType::I64, DType::ALL[index % DType::ALL.len()]] {
            tensors.push(Value::Tensor(Tensor::from_ints(dtype, ints.clone())));
        }
        tensors.push(Value::Tensor(Tensor::undefined(DType::F16, shape)));
        tensors.push(Value::Tensor(Tensor::full(DType::F64, shape, Number::Float(f64::NAN))));
    }
    tensors
}

fn others() -> Vec<Value> {
    let ints = [i64::MIN, i64::MIN + 1, -3, -2, -1, 0, 1, 2, 3, 1 << 40, i64::MAX - 1, i64::MAX];
    let floats = [f64::NAN, f64::INFINITY, -0.0, 0.5, 1e300, -1e-300, 2.0];
    let texts = [
        "",
        "f32",
        "i8",
        "bool",
        "float32",
        "sum",
        "prod",
        "avg",
        "mesh[0]",
        "R",
        "S[0], R",
        "S[9]",
        "S[99999999999999999999]",
        "ij->ji",
        "ii",
        "ij,jk->ik",
        "...i,i",
        "...->",
        "->",
        ",",
        "é",
    ];
    let mut values = vec![
        Value::None,
        Value::Shape(vec![]),
        Value::Shape(vec![2, 3]),
        Value::Shape(vec![i64::MAX, i64::MAX]),
        Value::Shape(vec![0, i64::MAX, 1 << 62]),
        Value::Prim(DType::Bool, Number::Int(1)),
        Value::Prim(DType::U64, Number::Int(u64::MAX.into())),
        Value::Global("f".into()),
        Value::Annotation(Arc::new(Annotation::tensor(vec![Dim::Int(-1)], DType::F32))),
    ];
    values.extend(ints.map(Value::int));
    values.extend(floats.map(|value| Value::Prim(DType::F64, Number::Float(value))));
    values.extend(texts.map(|text| Value::Str(text.into())));
    values
}

/// A pseudo-random choice, the same on every run.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    fn of(&mut self, tensors: &[Value], others: &[Value]) -> Value {
        match self.below(8) {
            0..=3 => tensors[self.below(tensors.len())].clone(),
            4..=6 => others[self.below(others.len())].clone(),
            _ => {
                let alike = self.below(2) == 0;
                let pool = if self.below(3) == 0 { others } else { tensors };
                let first = pool[self.below(pool.len())].clone();
                let item = |choices: &mut Self| {
                    if alike { first.clone() } else { pool[choices.below(pool.len())].clone() }
                };
                let count = self.below(4);
                Value::Tuple((0..count).map(|_| item(self)).collect())
            }
        }
    }
}

#[test]
fn no_values_make_a_row_panic() {
    let (tensors, others) = (tensors(), others());
    let limits = Limits { tensor_bytes: 1 << 16, ..Limits::default() };
    let mut choices = Choices(7);
    let mut answered = 0;
    for row in all().filter(|row| FAMILIES.contains(&row.family)) {
        if matches!(row.eval, Evaluate::Machine(_)) {
            continue;
        }
        for _ in 0..4000 {
            let count = choices.below(row.params.len() + 1);
            let args = (0..count).map(|_| choices.of(&tensors, &others)).collect();
            answered += usize::from(apply(row, args, Vec::new(), &limits, None).is_ok());
        }
    }
    assert!(answered > 5000, "too few of the calls are right to say anything: {answered}");
}
