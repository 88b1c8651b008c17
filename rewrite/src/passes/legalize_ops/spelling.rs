//! Dims of results in the words of the operands' dims: of a strided convolution of an image of `(h + 3) // 4` rows the result may
//! be declared to have `(h + 7) // 8`, and only as `((h + 3) // 4 - 1) // 2 + 1` the program can tell it from the rows that it gets.

use super::results::Results;
use super::{Call, Legalizer};
use relax_semantics::ops::programs::TensorSpec;
use relax_semantics::ops::traps::calls::inferred;
use relax_semantics::ops::{Kind, Operand, Operator};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Relation};
use std::collections::BTreeMap;

impl Legalizer<'_> {
    /// The results with dims as the operator deduces them from the dims of its operands, where those are expressions and
    /// both spellings are proved to be equal.
    pub(super) fn spelled_by_operands(
        &mut self,
        row: &'static Operator,
        call: &Call,
        mut outs: Vec<TensorSpec>,
    ) -> Vec<TensorSpec> {
        let is_expression = |dim: &Dim| matches!(dim, Dim::Op(..));
        let has_expressions = |spec: &TensorSpec| spec.dims.iter().any(is_expression);
        let is_asked = outs.iter().any(has_expressions)
            && call.inputs.iter().any(|input| has_expressions(&input.spec));
        let deduced = if is_asked { self.deduced(row, call) } else { None };
        for (own, other) in outs.iter_mut().zip(deduced.into_iter().flatten()) {
            for (dim, other) in own.dims.iter_mut().zip(other.dims) {
                if is_expression(dim) && self.facts.equal(dim, &other) == Answer::Proved {
                    *dim = other;
                }
            }
        }
        outs
    }

    /// What the operator gives, of operands whose dims that are expressions have names of their own.
    fn deduced(&mut self, row: &'static Operator, call: &Call) -> Option<Vec<TensorSpec>> {
        let mut named: BTreeMap<Dim, Name> = BTreeMap::new();
        let mut operands = Vec::new();
        for param in row.params {
            let mut tensors = call.inputs.iter().filter(|input| input.param == param.name);
            let operand = match (param.kind, call.attrs.get(param.name)) {
                (_, Some(known)) => Operand::of_known(known.clone()),
                (Kind::Tensor | Kind::OptionalTensor | Kind::Value, None) => {
                    let spec = &tensors.next()?.spec;
                    Operand { annotation: annotation(spec, &mut named), known: None }
                }
                (Kind::Tensors, None) => {
                    let each = tensors.map(|input| annotation(&input.spec, &mut named));
                    Operand { annotation: Annotation::Tuple(each.collect()), known: None }
                }
                _ => return None,
            };
            operands.push(operand);
        }
        self.facts.push();
        for name in named.values() {
            self.facts.assume(Claim::new(0, Relation::AtMost, Dim::Var(name.clone())));
        }
        let found = inferred(row, &operands, self.facts);
        self.facts.pop();
        let mut specs = Results::of(&found?.0)?.specs;
        let spelled = named.into_iter().map(|(dim, name)| (name, dim)).collect();
        for dim in specs.iter_mut().flat_map(|spec| &mut spec.dims) {
            *dim = dim.substitute(&spelled);
        }
        Some(specs)
    }
}

/// A tensor with a name, which no text can have, for each dim that is an expression.
fn annotation(spec: &TensorSpec, named: &mut BTreeMap<Dim, Name>) -> Annotation {
    let dims = spec.dims.iter().map(|dim| match dim {
        Dim::Op(..) => {
            let next = named.len();
            let name = named.entry(dim.clone());
            Dim::Var(name.or_insert_with(|| Name::new(format!("dim {next}"))).clone())
        }
        _ => dim.clone(),
    });
    Annotation::tensor(dims.collect(), spec.dtype)
}
