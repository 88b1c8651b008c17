//! What a call costs on a machine, as a polynomial of the dims: bytes moved, floating-point operations, launches.
//!
//! The unit is the time of one operation of a product. The figures are those of a processor with a few wide cores;
//! only their order of magnitude matters, and that nothing is free.

use super::term::Head;
use relax_semantics::ops::{Family, Operator, lookup};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};

/// Operations in the time in which one byte moves.
const BYTE: i64 = 2;
/// Operations in the time in which a kernel is started.
const LAUNCH: i64 = 2000;
/// Operations of a function such as `exp`, an element.
const FUNCTION: i64 = 16;
/// Operations of a sum or product, an element, outside of products of matrices.
const SIMPLE: i64 = 1;

/// Rows that look at the same bytes under another shape, where memory is planned.
const VIEWS: &[&str] = &["reshape", "expand_dims", "squeeze", "flatten"];
/// Rows whose result is computed by library functions.
const FUNCTIONS: &[&str] = &[
    "exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos",
    "atan", "asinh", "acosh", "atanh", "power", "log2", "log10", "log1p", "expm1",
];

/// Rows of the family of networks that compare and move alone.
const SIMPLE_NN: &[&str] =
    &["nn.relu", "nn.leakyrelu", "nn.prelu", "nn.pad", "nn.batch_flatten", "nn.dropout"];

/// Rows of the family of movement that no neighbour takes in.
const GATHERING: &[&str] = &["concat", "split", "stack"];

/// The parts of a cost, each a polynomial of the dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Kernels that are started.
    pub launches: i64,
    /// Bytes that are read and written.
    pub bytes: Dim,
    /// Operations, each in the time of one of a product.
    pub operations: Dim,
}

impl Default for Cost {
    fn default() -> Self {
        Self::zero()
    }
}

impl Cost {
    /// Nothing.
    #[must_use]
    pub fn zero() -> Self {
        Self { launches: 0, bytes: Dim::Int(0), operations: Dim::Int(0) }
    }

    /// One and the other.
    #[must_use]
    pub fn plus(&self, other: &Cost) -> Cost {
        Cost {
            launches: self.launches + other.launches,
            bytes: add(self.bytes.clone(), other.bytes.clone()),
            operations: add(self.operations.clone(), other.operations.clone()),
        }
    }

    /// All parts as one number of the dims.
    #[must_use]
    pub fn total(&self) -> Dim {
        let bytes = multiply(self.bytes.clone(), Dim::Int(BYTE));
        let launches = Dim::Int(self.launches.saturating_mul(LAUNCH));
        add(add(self.operations.clone(), bytes), launches)
    }
}

fn add(a: Dim, b: Dim) -> Dim {
    Dim::op(DimOp::Add, a, b)
}

fn multiply(a: Dim, b: Dim) -> Dim {
    match (&a, &b) {
        (Dim::Int(0), _) | (_, Dim::Int(0)) => Dim::Int(0),
        _ => Dim::op(DimOp::Mul, a, b),
    }
}

/// Whether a call may become part of the kernel of a neighbour.
pub(super) fn may_fuse(head: &Head) -> bool {
    let Head::Call(name, _) = head else { return true };
    lookup(name).is_some_and(|row| match row.family {
        Family::Unary | Family::Binary | Family::Ternary | Family::DType | Family::Creation => true,
        Family::Movement => !GATHERING.contains(&row.name),
        Family::Nn => SIMPLE_NN.contains(&row.name),
        _ => false,
    })
}

/// What a term costs of which the operands are there.
pub(super) fn cost_of(head: &Head, operands: &[Annotation], result: &Annotation) -> Cost {
    let Head::Call(name, _) = head else { return Cost::zero() };
    let Some(row) = lookup(name) else { return Cost::zero() };
    if VIEWS.contains(name) {
        return Cost { launches: 0, bytes: Dim::Int(0), operations: Dim::Int(LAUNCH / 10) };
    }
    if row.family == Family::Shapes {
        return Cost { launches: 1, bytes: Dim::Int(8), operations: Dim::Int(0) };
    }
    let moved = operands.iter().map(bytes).fold(bytes(result), add);
    // A slice reads what it gives.
    let moved = if *name == "strided_slice" { add(bytes(result), bytes(result)) } else { moved };
    Cost { launches: 1, bytes: moved, operations: operations(row, operands, result) }
}

fn operations(row: &Operator, operands: &[Annotation], result: &Annotation) -> Dim {
    let each = |many: i64, of: Dim| multiply(of, Dim::Int(many));
    let first = || operands.first().map_or(Dim::Int(0), elements);
    match row.family {
        Family::LinearAlgebra => {
            let inner = operands.first().and_then(|it| it.dims()?.last().cloned());
            multiply(elements(result), inner.unwrap_or(Dim::Int(1)))
        }
        // Two products, with the keys and with the values.
        Family::Attention => {
            let keys = operands.get(1).and_then(|it| it.dims()?.get(1).cloned());
            each(2, multiply(elements(result), keys.unwrap_or(Dim::Int(1))))
        }
        Family::Convolution => {
            let window = operands.get(1).map_or(Dim::Int(1), elements);
            multiply(elements(result), window)
        }
        Family::Reduction => each(SIMPLE, first()),
        Family::Nn if SIMPLE_NN.contains(&row.name) => each(SIMPLE, first()),
        Family::Nn => each(FUNCTION, first()),
        Family::Movement | Family::Creation | Family::Indexing => Dim::Int(0),
        _ if FUNCTIONS.contains(&row.short_name()) => each(FUNCTION, elements(result)),
        _ => each(SIMPLE, elements(result)),
    }
}

fn elements(annotation: &Annotation) -> Dim {
    match annotation {
        Annotation::Tensor(tensor) => tensor.extents.dims().map_or(Dim::Int(1), Dim::product),
        Annotation::Tuple(items) => items.iter().map(elements).fold(Dim::Int(0), add),
        _ => Dim::Int(1),
    }
}

fn bytes(annotation: &Annotation) -> Dim {
    match annotation {
        Annotation::Tensor(tensor) => {
            let size = tensor.dtype.map_or(1, |dtype| i64::try_from(dtype.size()).unwrap_or(1));
            multiply(elements(annotation), Dim::Int(size))
        }
        Annotation::Tuple(items) => items.iter().map(bytes).fold(Dim::Int(0), add),
        _ => Dim::Int(8),
    }
}
