//! The operator table: one row an operator, and everything that asks about operators reads it.
//!
//! A row has two functions. `infer` goes forward from what is known of the operands to what is known
//! of the result, and states the row's constraints. `eval` computes; where an element of the result is a
//! scalar formula of the operands' elements, the formula stands in its place. At run time `infer` runs first,
//! on annotations in which every dim is a number: there it decides every constraint, so `eval` may
//! rely on them, and checks by itself only what depends on elements (an index out of range, …).

mod apply;
mod dims;
mod elementwise;
mod eval;
mod infer;
mod operand;
mod product;
pub mod programs;
mod sum;

pub mod broadcast;
pub mod reference;

mod attention;
mod binary;
mod builtins;
mod calls;
mod conditions;
mod convolution;
mod creation;
mod distributed;
mod dtype;
mod indexing;
mod linalg;
mod matmul;
mod memory;
mod movement;
mod nn;
mod order;
mod quantization;
mod random;
mod reduction;
mod shapes;
mod ternary;
pub mod traps;
mod unary;

pub use apply::{apply, check_constraints, described_call};
pub use builtins::{HeapBuiltin, heap_builtin};
pub use calls::{called_by_name, computes_by_name, is_deduced_by_name, only_checks};
pub use conditions::{OfDims, of_dims};
pub use distributed::{
    ASYNC, Combined, Described, Movement, Passed, Placed, collective_of_ranks, is_of_ranks,
    own_rows, placed, says_layout, without_rows,
};
pub use elementwise::{Defined, Element, Elementwise, Formula, Layout, Partial};
pub use eval::{Eval, Limits, Machine, undefined_read};
pub use infer::{Infer, Obligation, Reject, normalize_axis};
pub use linalg::subscripts as einsum;
pub use movement::reshaped;
pub use operand::{BindError, Known, Operand, bind, by_position, passed};
pub use programs::Programs;
pub use traps::Traps;

use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::hash::WordMap;
use std::sync::OnceLock;

/// One operator of the graph level.
pub struct Operator {
    /// The full name, prefix included: `nn.relu`.
    pub name: &'static str,
    /// Other names it is known by; for `nn.x` and `image.x` the short name need not be listed.
    pub aliases: &'static [&'static str],
    /// The chapter of the operator reference.
    pub family: Family,
    /// What it computes, as a sentence; where TVM and NumPy differ, which one is followed.
    pub doc: &'static str,
    /// Its parameters, in positional order.
    pub params: &'static [Param],
    /// Its constraints, each with an id that traps and diagnostics name (`matmul/C2`).
    pub constraints: &'static [Constraint],
    /// Whether it may stand in a dataflow block.
    pub effect: Effect,
    /// When a call may trap on run-time values.
    pub traps: Traps,
    /// Deduction, and the constraints on annotations.
    pub infer: fn(&mut Infer) -> Result<Annotation, Reject>,
    /// The tensor programs of its calls.
    pub program: Programs,
    /// Reference evaluation.
    pub eval: Evaluate,
}

/// How an operator is evaluated.
#[derive(Clone, Copy)]
pub enum Evaluate {
    /// Each element by one scalar formula.
    Elementwise(Elementwise),
    /// From the values of its operands alone.
    Values(fn(&Eval) -> Result<Value, Stop>),
    /// With the interpreter's help: it calls functions, or has an effect.
    Machine(fn(&Eval, &mut dyn Machine) -> Result<Value, Stop>),
}

/// A parameter of an operator: an operand or an attribute.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name by which it may be passed.
    pub name: &'static str,
    /// Another name by which it may be passed.
    pub alias: Option<&'static str>,
    /// What may be passed.
    pub kind: Kind,
    /// What stands for it when it is left out; `None`: it must be there.
    pub default: Option<Literal>,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A tensor or `None`.
    OptionalTensor,
    /// A tuple or list of tensors.
    Tensors,
    /// A shape: `shape(n, 4)`, a tuple or list of dims, or a shape value.
    Shape,
    /// A shape in which the literal -1 stands for what is left over. A computed dim never does: a
    /// negative one breaks the row's constraint C1.
    InferredShape,
    /// A shape or `None`.
    OptionalShape,
    /// An integer, possibly symbolic.
    Dim,
    /// An integer, possibly symbolic, or `None`.
    OptionalDim,
    /// A list of integers, possibly symbolic; one integer stands for a list of it.
    Dims,
    /// A list as above, or `None`.
    OptionalDims,
    /// A float; an integer is taken for one.
    Float,
    /// A float or `None`.
    OptionalFloat,
    /// `True` or `False`.
    Bool,
    /// A string.
    Str,
    /// A string or `None`.
    OptionalStr,
    /// A dtype's name.
    DType,
    /// A dtype's name or `None`.
    OptionalDType,
    /// A function or tensor program.
    Function,
    /// An annotation, or a list of them.
    Annotation,
    /// Any value.
    Value,
    /// Any number of further positional values; only as the last parameter.
    Rest,
}

/// A default.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // each variant is its own name
pub enum Literal {
    None,
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(&'static str),
    Ints(&'static [i64]),
}

/// A numbered constraint of a row.
#[derive(Clone, Copy, Debug)]
pub struct Constraint {
    /// `C1`, `C2`, …
    pub id: &'static str,
    /// What must hold, as a sentence.
    pub text: &'static str,
}

/// Whether a call does more than give its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does not.
    Pure,
    /// It may: not allowed in a dataflow block.
    Impure,
}

/// The chapters of the operator reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // as their names say
pub enum Family {
    Unary,
    Binary,
    Ternary,
    Creation,
    DType,
    Movement,
    Indexing,
    LinearAlgebra,
    Reduction,
    Order,
    Nn,
    Convolution,
    Attention,
    Shapes,
    Calls,
    Quantization,
    Memory,
    Builtins,
    Distributed,
}

impl Operator {
    /// The name as the formatter writes it: without `nn.` and `image.`.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        let name = self.name;
        name.strip_prefix("nn.").or_else(|| name.strip_prefix("image.")).unwrap_or(name)
    }

    /// Whether it sees the elements of its operands. Other rows pass tensors on as they are: those
    /// in storages stay there.
    #[must_use]
    pub fn reads_elements(&self) -> bool {
        let passes_on = ["make_closure", "invoke_closure", "invoke_pure_closure"];
        !matches!(self.family, Family::Memory | Family::Builtins) && !passes_on.contains(&self.name)
    }

    /// The position of a parameter.
    ///
    /// # Panics
    /// When the row has no such parameter: a mistake in the row.
    #[must_use]
    pub fn param(&self, name: &str) -> usize {
        self.params.iter().position(|param| param.name == name).unwrap_or_else(|| {
            panic!("invariant: `{}` asks only for parameters it has, not `{name}`", self.name)
        })
    }
}

impl Param {
    /// The same parameter, which may also be passed as `alias=`.
    #[must_use]
    pub const fn also(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    /// True for its name and its alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }
}

/// `required("x", Kind::Tensor)`
#[must_use]
pub const fn required(name: &'static str, kind: Kind) -> Param {
    Param { name, alias: None, kind, default: None }
}

/// `optional("axis", Kind::Dim, Literal::Int(-1))`
#[must_use]
pub const fn optional(name: &'static str, kind: Kind, default: Literal) -> Param {
    Param { name, alias: None, kind, default: Some(default) }
}

/// `constraint("C1", "…")`
#[must_use]
pub const fn constraint(id: &'static str, text: &'static str) -> Constraint {
    Constraint { id, text }
}

/// The rows of every family, in the order of the reference.
static FAMILIES: &[&[Operator]] = &[
    unary::OPERATORS,
    binary::OPERATORS,
    ternary::OPERATORS,
    creation::OPERATORS,
    random::OPERATORS,
    dtype::OPERATORS,
    movement::OPERATORS,
    indexing::OPERATORS,
    matmul::OPERATORS,
    linalg::OPERATORS,
    reduction::OPERATORS,
    order::OPERATORS,
    nn::OPERATORS,
    convolution::OPERATORS,
    attention::OPERATORS,
    shapes::OPERATORS,
    calls::OPERATORS,
    quantization::OPERATORS,
    memory::OPERATORS,
    builtins::OPERATORS,
    distributed::OPERATORS,
];

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Operator> {
    FAMILIES.iter().flat_map(|rows| rows.iter())
}

/// The row that a name means: full name, short name or alias.
#[must_use]
pub fn lookup(name: &str) -> Option<&'static Operator> {
    static INDEX: OnceLock<WordMap<&'static str, &'static Operator>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let names = |row: &'static Operator| {
            [row.name, row.short_name()].into_iter().chain(row.aliases.iter().copied())
        };
        all().flat_map(|row| names(row).map(move |name| (name, row))).collect()
    });
    index.get(name).copied()
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn names_are_unique() {
        let mut seen = BTreeMap::new();
        for row in all() {
            let mut names = vec![row.name];
            names.extend(row.aliases);
            if row.short_name() != row.name {
                names.push(row.short_name());
            }
            for name in names {
                assert!(seen.insert(name, row.name).is_none(), "`{name}` names two rows");
            }
        }
    }

    #[test]
    fn rows_are_complete() {
        for row in all() {
            assert!(row.doc.len() > 15, "{}: say what it computes", row.name);
            for (index, constraint) in row.constraints.iter().enumerate() {
                assert_eq!(constraint.id, format!("C{}", index + 1), "{}", row.name);
            }
            let rest = row.params.iter().position(|param| param.kind == Kind::Rest);
            assert!(rest.is_none_or(|at| at + 1 == row.params.len()), "{}", row.name);
        }
    }
}
