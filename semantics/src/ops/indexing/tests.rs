//! What deduction says of symbolic slices, and that it agrees with what a slice of numbers takes.

use super::extent::{Slice, extent};
use crate::ops::{Infer, Limits, Operand, apply, lookup};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts};

/// Decides claims on `n` and `k` by trying the values -3 to 12 (n: from 0) that fit the assumptions.
#[derive(Default)]
struct Sampled {
    assumed: Vec<Claim>,
    scopes: Vec<usize>,
}

impl Facts for Sampled {
    fn assume(&mut self, claim: Claim) {
        self.assumed.push(claim);
    }

    fn push(&mut self) {
        self.scopes.push(self.assumed.len());
    }

    fn pop(&mut self) {
        self.assumed.truncate(self.scopes.pop().expect("invariant: a scope is open"));
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        let pairs = (0..=12).flat_map(|n| (-3..=12).map(move |k| (n, k)));
        for (n, k) in pairs {
            let values = Counterexample::from([("n".into(), n), ("k".into(), k)]);
            let fits = self.assumed.iter().all(|fact| fact.holds(&values) == Some(true));
            if fits && claim.holds(&values) != Some(true) {
                return Answer::Refuted(values);
            }
        }
        Answer::Proved
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        dim.clone()
    }
}

fn deduced(facts: &mut Sampled, begin: Dim, end: Dim, stride: i64) -> Dim {
    let row = lookup("strided_slice").expect("invariant: the row exists");
    let operands: [Operand; 0] = [];
    let mut infer =
        Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
    let slice = Slice { begin, end, stride: Dim::Int(stride) };
    extent(&mut infer, &Dim::var("n"), &slice).expect("invariant: the sign of the stride is known")
}

fn n_minus(amount: i64) -> Dim {
    Dim::op(DimOp::Sub, Dim::var("n"), Dim::Int(amount))
}

#[test]
fn neighbours_have_one_extent_for_every_n() {
    let facts = &mut Sampled::default();
    let right = deduced(facts, Dim::Int(1), Dim::var("n"), 1);
    let left = deduced(facts, Dim::Int(0), n_minus(1), 1);
    assert_eq!(right.to_string(), "max(n - 1, 0)");
    assert_eq!(left, right);
    assert_eq!(deduced(facts, Dim::Int(0), Dim::Int(-1), 1).to_string(), "max(-1 + n, 0)");
}

#[test]
fn known_bounds_leave_the_difference() {
    let facts = &mut Sampled::default();
    facts.assume(Claim::new(1, relax_syntax::facts::Relation::AtMost, Dim::var("n")));
    assert_eq!(deduced(facts, Dim::Int(1), Dim::var("n"), 1).to_string(), "n - 1");
    assert_eq!(deduced(facts, Dim::Int(0), n_minus(1), 1).to_string(), "n - 1");
    assert_eq!(deduced(facts, Dim::Int(0), Dim::Int(i64::MAX), 2).to_string(), "ceildiv(n, 2)");
    assert_eq!(deduced(facts, Dim::Int(0), Dim::Int(1), 1), Dim::Int(1));
    assert_eq!(deduced(facts, n_minus(1), Dim::Int(i64::MIN), -1).to_string(), "n - 1 - -1");
}

fn bounds() -> Vec<Dim> {
    let mut bounds = [-9, -2, -1, 0, 1, 4, 9, i64::MAX, i64::MIN].map(Dim::Int).to_vec();
    bounds.extend([-1, 1, 2, 3].map(n_minus));
    bounds.extend([Dim::var("n"), Dim::var("k")]);
    bounds.extend([0, 2].map(|o| Dim::op(DimOp::Sub, Dim::Int(o), Dim::var("n"))));
    bounds
}

/// The deduced extent, evaluated, is the number of elements that are taken.
#[test]
fn deduction_agrees_with_numbers() {
    for begin in bounds() {
        for end in bounds() {
            for stride in [i64::MIN + 1, -3, -1, 1, 2, i64::MAX] {
                let facts = &mut Sampled::default();
                let symbolic = deduced(facts, begin.clone(), end.clone(), stride);
                agrees(&symbolic, &begin, &end, stride);
            }
        }
    }
}

fn agrees(symbolic: &Dim, begin: &Dim, end: &Dim, stride: i64) {
    for (n, k) in (0..=9i64).flat_map(|n| (-3..=9).map(move |k| (n, k))) {
        let value_of = |name: &relax_syntax::Name| Some(if &**name == "n" { n } else { k });
        let number = |dim: &Dim| dim.eval(&value_of).map(i128::from).expect("small numbers");
        let numbers = Slice { begin: number(begin), end: number(end), stride: stride.into() };
        let (_, count) = numbers.resolve(n.into());
        assert_eq!(number(symbolic), count, "{symbolic} for n = {n}, k = {k}");
    }
}

fn call(name: &str, args: Vec<Value>) -> Result<Value, Stop> {
    let row = lookup(name).expect("invariant: the row exists");
    apply(row, args, Vec::new(), &Limits::default(), None)
}

fn zeros(dtype: DType, shape: &[usize]) -> Value {
    Value::Tensor(Tensor::full(dtype, shape, crate::tensor::Number::Int(0)))
}

fn trap_id(result: Result<Value, Stop>) -> String {
    match result {
        Err(Stop::Trap(trap)) => trap.id,
        other => panic!("expected a trap, found {other:?}"),
    }
}

#[test]
fn wild_attributes_are_refused() {
    let x = || zeros(DType::F32, &[2, 3]);
    let ints = |values: &[i64]| Value::Tuple(values.iter().map(|&v| Value::int(v)).collect());
    let index = || zeros(DType::I64, &[2, 3]);
    for wild in [i64::MIN, i64::MAX] {
        let one = ints(&[1]);
        let sliced = call("strided_slice", vec![x(), ints(&[wild]), one.clone(), one.clone()]);
        assert_eq!(trap_id(sliced), "strided_slice/C1");
        let sliced =
            call("strided_slice", vec![x(), ints(&[0]), ints(&[wild]), ints(&[wild]), one]);
        assert!(sliced.is_ok());
        let gathered = call("gather_elements", vec![x(), index(), Value::int(wild)]);
        assert_eq!(trap_id(gathered), "gather_elements/C2");
        assert_eq!(
            trap_id(call("gather_nd", vec![x(), index(), Value::int(wild)])),
            "gather_nd/C2"
        );
        assert_eq!(trap_id(call("take", vec![x(), index(), Value::int(wild)])), "take/C2");
    }
    let values = || vec![index(), Value::int(1), Value::int(0)];
    let huge = [values(), vec![Value::int(i64::MAX)]].concat();
    assert!(matches!(call("one_hot", huge), Err(Stop::Exhausted { .. })));
    let nowhere = [values(), vec![Value::int(2), Value::int(i64::MIN)]].concat();
    assert_eq!(trap_id(call("one_hot", nowhere)), "one_hot/C4");
}

#[test]
fn an_undefined_element_moves_and_is_overwritten() {
    let undefined = || Value::Tensor(Tensor::undefined(DType::F32, &[2]));
    let one = Value::int(1);
    let args = vec![undefined(), zeros(DType::F32, &[1]), Value::int(0), one.clone(), one];
    let Ok(Value::Tensor(result)) = call("slice_scatter", args) else {
        panic!("expected a tensor")
    };
    assert_eq!(result.undefined_elements(), Some(&[false, true][..]));
    let Ok(Value::Tensor(taken)) = call("take", vec![undefined(), zeros(DType::I64, &[3])]) else {
        panic!("expected a tensor")
    };
    assert_eq!(taken.undefined_elements(), Some(&[true; 3][..]));
}
