//! Calls of operators on constants are evaluated by the reference interpreter's own functions. What
//! traps there stays a call, and traps when the program runs.

use super::map_functions;
use crate::in_place::updated_in_place;
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::interp::constant_tensor;
use relax_semantics::ops::{Effect, Evaluate, Family, Limits, Operator, apply, lookup};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::graph::Literals;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Constant, Expr, Function, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The record.
pub static PASS: Pass = Pass {
    name: "fold_constant",
    doc: "Evaluates calls of operators on constants, where the result is small enough for the text.",
    from: Phase::P0,
    to: Phase::P1,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Elements of a result that is written into the text, and of operands that are looked at.
const MAX_RESULT: i64 = 1024;
const MAX_OPERAND: usize = 1 << 16;

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut folded = 0;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &context.checked.annotations[&function.name];
        let (updated, known) = (updated_in_place(module, function), BTreeMap::new());
        let mut walk = Walk { function, annotations, updated, known, folded: 0 };
        walk.body(rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped"));
        folded += walk.folded;
        rebuilt
    });
    context.count("folded", folded, "calls");
    Ok(result)
}

struct Walk<'a> {
    function: &'a Function,
    annotations: &'a [Annotation],
    updated: BTreeSet<VarId>,
    /// The values of variables that are constant.
    known: BTreeMap<VarId, Value>,
    folded: usize,
}

impl Walk<'_> {
    fn body(&mut self, body: &mut Body) {
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            self.binding(binding);
        }
    }

    fn binding(&mut self, binding: &mut Binding) {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            self.body(then);
            self.body(otherwise);
            return;
        }
        if self.updated.contains(&binding.var) {
            return;
        }
        let Some((value, writes)) = self.value(&binding.expr, binding.var) else { return };
        let is_named = self.function.var(binding.var).name != "_";
        if let Some(atom) = atom_of(&value).filter(|_| is_named && writes == Writes::Result) {
            binding.expr = Expr::Atom(atom);
            self.folded += 1;
        }
        self.known.insert(binding.var, value);
    }

    /// The value of an expression of constants, and whether it is better written out.
    fn value(&self, expr: &Expr, var: VarId) -> Option<(Value, Writes)> {
        match expr {
            Expr::Atom(atom) => Some((self.atom(atom)?, Writes::Call)),
            Expr::Get(atom, index) => match self.atom(atom)? {
                Value::Tuple(items) => Some((items.get(*index)?.clone(), Writes::Call)),
                _ => None,
            },
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let row = lookup(name).filter(|row| is_folded(row))?;
                if !is_small(&self.annotations[var.0 as usize]) {
                    return None;
                }
                let operands = args.iter().map(|arg| self.atom(arg)).collect::<Option<Vec<_>>>()?;
                let attrs = attrs.iter().map(|(key, atom)| Some((key.clone(), self.atom(atom)?)));
                let attrs = attrs.collect::<Option<Vec<_>>>()?;
                let writes = writes(row, &operands, &attrs);
                let value = apply(row, operands, attrs, &Limits::default(), None).ok()?;
                // More than was deduced is not told: what followed from it has been checked.
                (value.annotation() == self.annotations[var.0 as usize]).then_some((value, writes))
            }
            _ => None,
        }
    }

    fn atom(&self, atom: &Atom) -> Option<Value> {
        let all = |items: &[Atom]| -> Option<Vec<Value>> {
            items.iter().map(|item| self.atom(item)).collect()
        };
        Some(match atom {
            Atom::Var(var) => self.known.get(var)?.clone(),
            Atom::Dim(Dim::Int(value)) => Value::int(*value),
            Atom::Float(value) => Value::Prim(DType::F64, Number::Float(*value)),
            Atom::Bool(value) => Value::Prim(DType::Bool, Number::Int((*value).into())),
            Atom::Str(text) => Value::Str(text.clone()),
            Atom::None => Value::None,
            Atom::Constant(constant) if constant.shape.iter().product::<usize>() <= MAX_OPERAND => {
                Value::Tensor(constant_tensor(constant))
            }
            Atom::Tuple(items) | Atom::List(items) => Value::Tuple(all(items)?),
            Atom::Shape(dims) => {
                let dims = dims.iter().map(|dim| dim.as_int().filter(|&value| value >= 0));
                Value::Shape(dims.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// What of a call and its value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// The call (or atom), which is shorter than its value.
    Call,
    /// The value.
    Result,
}

/// `zeros((4, 4), "f32")` says in a line what its value says in sixteen numbers.
fn writes(row: &Operator, operands: &[Value], attrs: &[(Name, Value)]) -> Writes {
    fn has_tensor(value: &Value) -> bool {
        match value {
            Value::Tensor(_) => true,
            Value::Tuple(items) => items.iter().any(has_tensor),
            _ => false,
        }
    }
    let given = operands.iter().chain(attrs.iter().map(|(_, value)| value));
    let made_of_tensors = given.into_iter().any(has_tensor);
    let compact = matches!(row.family, Family::Creation) || row.name == "broadcast_to";
    if made_of_tensors && !compact { Writes::Result } else { Writes::Call }
}

fn is_folded(row: &Operator) -> bool {
    row.effect == Effect::Pure
        && !matches!(row.eval, Evaluate::Machine(_))
        && !matches!(
            row.family,
            Family::Memory | Family::Builtins | Family::Calls | Family::Distributed
        )
}

/// Whether a value is known to have few elements.
fn is_small(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(tensor) => {
            let dims = tensor.extents.dims().map(|dims| dims.iter().map(Dim::as_int));
            let dims: Option<Vec<i64>> = dims.and_then(Iterator::collect);
            let product =
                dims.and_then(|dims| dims.iter().try_fold(1_i64, |n, &d| n.checked_mul(d)));
            product.is_some_and(|elements| elements <= MAX_RESULT)
        }
        Annotation::Tuple(items) => items.iter().all(is_small),
        Annotation::Shape(extents) => extents.dims().is_some(),
        Annotation::Prim(_) => true,
        Annotation::Object | Annotation::Callable(_) | Annotation::DTensor(_) => false,
    }
}

/// Whether nested lists tell the shape: of nothing, they tell no further dims.
pub(super) fn has_text(tensor: &Tensor) -> bool {
    tensor.shape().split_last().is_none_or(|(_, outer)| !outer.contains(&0))
}

/// The value as text can write it.
fn atom_of(value: &Value) -> Option<Atom> {
    Some(match value {
        Value::Tensor(tensor) if tensor.undefined_elements().is_none() && has_text(tensor) => {
            Atom::Constant(Arc::new(constant_of(tensor)))
        }
        Value::Shape(dims) => Atom::Shape(dims.iter().map(|&dim| Dim::Int(dim)).collect()),
        Value::Prim(DType::I64, Number::Int(value)) => {
            Atom::Dim(Dim::Int(i64::try_from(*value).ok()?))
        }
        Value::Prim(DType::F64, Number::Float(value)) if value.is_finite() => Atom::Float(*value),
        Value::Prim(DType::Bool, Number::Int(value)) => Atom::Bool(*value != 0),
        Value::Tuple(items) => Atom::Tuple(items.iter().map(atom_of).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// A tensor as text writes it.
pub(crate) fn constant_of(tensor: &Tensor) -> Constant {
    let data = match tensor.dtype().class() {
        // A text has one NaN.
        Class::Float => Literals::Float(
            tensor.to_floats().iter().map(|&x| if x.is_nan() { f64::NAN } else { x }).collect(),
        ),
        _ => Literals::Int(tensor.to_ints().iter().copied().collect()),
    };
    Constant { shape: tensor.shape().to_vec(), dtype: tensor.dtype(), data }
}
