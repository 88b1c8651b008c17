//! Calls of operators in programs, as placements see them.

use super::{Argument, Call};
use relax_semantics::ops::{Known, Operator, passed};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Body, Expr, Function, VarId};

/// A call with the variables that are its operands; a constant is no variable.
#[derive(Clone)]
pub struct Site {
    /// The call, of operands by number.
    pub call: Call,
    /// The variable of each operand.
    pub vars: Vec<Option<VarId>>,
}

/// Dims and dtype of a tensor.
pub fn tensor(annotation: &Annotation) -> Option<(Vec<Dim>, DType)> {
    let tensor = annotation.as_tensor()?;
    Some((tensor.extents.dims()?.to_vec(), tensor.dtype?))
}

/// Those of a tensor, or of each field of a tuple of tensors.
pub fn tensors(annotation: &Annotation) -> Option<Vec<(Vec<Dim>, DType)>> {
    match annotation {
        Annotation::Tuple(fields) => fields.iter().map(tensor).collect(),
        single => tensor(single).map(|single| vec![single]),
    }
}

impl Site {
    /// A call of a row.
    ///
    /// # Errors
    /// What is not supported in it.
    pub fn of(
        row: &'static Operator,
        (args, attrs): (&[Atom], &[(Name, Atom)]),
        result: &Annotation,
        annotation: &dyn Fn(VarId) -> Option<Annotation>,
    ) -> Result<Self, String> {
        let bound = passed(row, args, attrs).map_err(|_| "its arguments do not fit".to_owned())?;
        let mut reader = Reader { annotation, operands: Vec::new(), vars: Vec::new() };
        let mut read = Vec::new();
        for (param, atom) in row.params.iter().zip(&bound) {
            read.push(match (atom, param.default) {
                (Some(atom), _) => reader.argument(atom)?,
                (None, Some(literal)) => Argument::Known(literal.known()),
                (None, None) => return Err("its arguments do not fit".to_owned()),
            });
        }
        if bound.len() > row.params.len() {
            return Err("it takes any number of arguments".to_owned());
        }
        let results = tensors(result)
            .filter(|each| !each.is_empty())
            .ok_or("the dims of its result are not known")?;
        let Reader { operands, vars, .. } = reader;
        Ok(Self { call: Call { row, args: read, operands, results }, vars })
    }
}

struct Reader<'a> {
    annotation: &'a dyn Fn(VarId) -> Option<Annotation>,
    operands: Vec<(Vec<Dim>, DType)>,
    vars: Vec<Option<VarId>>,
}

impl Reader<'_> {
    fn argument(&mut self, atom: &Atom) -> Result<Argument, String> {
        match atom {
            Atom::Tuple(items) | Atom::List(items) if items.iter().any(is_value) => {
                let numbers =
                    items.iter().map(|item| self.operand(item)).collect::<Result<_, _>>()?;
                Ok(Argument::Tensors(numbers))
            }
            value if is_value(value) => self.operand(value).map(Argument::Tensor),
            other => known(other)
                .map(Argument::Known)
                .ok_or_else(|| "an argument is not supported".to_owned()),
        }
    }

    fn operand(&mut self, atom: &Atom) -> Result<usize, String> {
        let (annotation, var) = match atom {
            Atom::Var(var) => {
                ((self.annotation)(*var).ok_or("an operand is not known")?, Some(*var))
            }
            Atom::Constant(constant) => {
                let dims = constant
                    .shape
                    .iter()
                    .map(|&dim| Dim::Int(i64::try_from(dim).unwrap_or(i64::MAX)));
                (Annotation::tensor(dims.collect(), constant.dtype), None)
            }
            Atom::External(external) => (external.annotation.clone(), None),
            _ => return Err("an operand is no tensor".to_owned()),
        };
        self.operands.push(tensor(&annotation).ok_or("the dims of an operand are not known")?);
        self.vars.push(var);
        Ok(self.operands.len() - 1)
    }
}

/// Whether an argument is a tensor, and not spelled.
#[must_use]
pub fn is_value(atom: &Atom) -> bool {
    matches!(atom, Atom::Var(_) | Atom::Constant(_) | Atom::External(_))
}

fn known(atom: &Atom) -> Option<Known> {
    Some(match atom {
        Atom::Dim(dim) => Known::Dim(dim.clone()),
        Atom::Float(value) => Known::Float(*value),
        Atom::Bool(value) => Known::Bool(*value),
        Atom::Str(text) => Known::Str(text.clone()),
        Atom::None => Known::None,
        Atom::Shape(dims) => Known::List(dims.iter().cloned().map(Known::Dim).collect()),
        Atom::Tuple(items) | Atom::List(items) => {
            Known::List(items.iter().map(known).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// The variables that a branch gives, one a field of a tuple; `None` where it gives anything else.
#[must_use]
pub fn given(body: &Body) -> Option<Vec<VarId>> {
    let tuple = body.bindings().find_map(|binding| match &binding.expr {
        Expr::Atom(tuple @ Atom::Tuple(_)) if body.result == Atom::Var(binding.var) => Some(tuple),
        _ => None,
    });
    let items = match tuple.unwrap_or(&body.result) {
        Atom::Tuple(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let var = |atom: &Atom| match atom {
        Atom::Var(var) => Some(*var),
        _ => None,
    };
    items.iter().map(var).collect()
}

/// The bounds of declared variables, and that no dim is negative.
pub fn assume_declared(function: &Function, facts: &mut dyn Facts) {
    for dim in &function.dims {
        let var = Dim::Var(dim.name.clone());
        facts.assume(Claim::new(dim.lower.unwrap_or(0).max(0), Relation::AtMost, var.clone()));
        if let Some(upper) = dim.upper {
            facts.assume(Claim::new(var.clone(), Relation::AtMost, upper));
        }
        if let Some(step) = dim.multiple_of {
            facts.assume(Claim::new(
                Dim::op(DimOp::FloorMod, var, Dim::Int(step)),
                Relation::Equal,
                0,
            ));
        }
    }
}
