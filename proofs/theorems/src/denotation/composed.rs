//! Large expressions as one function of what they read. A generator of random bits computes each name from names before it that occur twice, and
//! as a term it is larger than any bound. Where a comparison runs out of fuel it is tried again with each large value that a name is bound to as
//! the application of one function, the same for the same expression: then both sides are compared by what these functions are applied to.

use super::fuel::size;
use super::term::{Domain, Term, Test};
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use std::cell::RefCell;

/// Nodes of a term that is not large.
const MOST: usize = 32;

/// An expression without what it reads.
#[derive(Clone, PartialEq)]
enum Shape {
    /// By its place among operands. The dtype tells what functions of it are.
    Operand(usize, Option<DType>),
    Number(Domain, u64),
    Apply(Domain, Name, Vec<Shape>),
    /// The second where the first is true, else the third.
    Choice(Box<[Shape; 3]>),
}

thread_local! {
    /// The expressions that are functions, in the order of their numbers; none where there are no such functions.
    static FUNCTIONS: RefCell<Option<Vec<(DType, Shape)>>> = const { RefCell::new(None) };
}

/// Runs with large expressions as functions.
pub(crate) fn with_functions<T>(run: impl FnOnce() -> T) -> T {
    let outer = FUNCTIONS.replace(Some(Vec::new()));
    let result = run();
    FUNCTIONS.replace(outer);
    result
}

/// A value of this dtype, as a function of what it is made of where it is large. `dtype_of` knows the dtypes of tensors that are read.
pub(crate) fn composed(
    term: Term,
    dtype: DType,
    dtype_of: &dyn Fn(&Name) -> Option<DType>,
) -> Term {
    let Term::Apply(domain, ..) = term else { return term };
    FUNCTIONS.with_borrow_mut(|functions| {
        let Some(functions) = functions else { return term };
        if size(&term) <= MOST {
            return term;
        }
        let mut operands = Vec::new();
        let Some(shape) = shape(&term, &mut operands, dtype_of) else { return term };
        let function = (dtype, shape);
        let number = functions.iter().position(|known| *known == function).unwrap_or_else(|| {
            functions.push(function);
            functions.len() - 1
        });
        Term::apply(domain, &format!("composed {number} of {dtype}"), operands)
    })
}

/// None where a tensor is read of which the dtype is not known.
fn shape(
    term: &Term,
    operands: &mut Vec<Term>,
    dtype_of: &dyn Fn(&Name) -> Option<DType>,
) -> Option<Shape> {
    let mut shape = |term: &Term| shape(term, operands, dtype_of);
    Some(match term {
        Term::Number(domain, value) => Shape::Number(*domain, value.to_bits()),
        Term::Apply(domain, name, args) if !args.is_empty() => {
            let args: Option<Vec<Shape>> = args.iter().map(shape).collect();
            Shape::Apply(*domain, name.clone(), args?)
        }
        Term::If(Test::Element(test), then, otherwise) => {
            Shape::Choice(Box::new([shape(test)?, shape(then)?, shape(otherwise)?]))
        }
        other => {
            let dtype = match other {
                Term::Read(name, _) => Some(dtype_of(name)?),
                Term::Extent(_) => None,
                // What it reads inside is not looked for.
                _ => return None,
            };
            let place = operands.iter().position(|known| known == other).unwrap_or_else(|| {
                operands.push(other.clone());
                operands.len() - 1
            });
            Shape::Operand(place, dtype)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::dim::Dim;

    fn read(tensor: &str) -> Term {
        Term::Read(tensor.into(), vec![Dim::Var("i".into())])
    }

    /// An expression of two tensors that is large.
    fn large(a: &str, b: &str, function: &str) -> Term {
        (0..12).fold(read(a), |term, _| {
            Term::apply(
                Domain::Bits,
                function,
                vec![term.clone(), Term::apply(Domain::Bits, "g", vec![read(b)])],
            )
        })
    }

    fn known(name: &Name) -> Option<DType> {
        (**name != *"unknown").then(|| if **name == *"wide" { DType::U64 } else { DType::U32 })
    }

    fn function(term: Term, dtype: DType) -> (Name, Vec<Term>) {
        match composed(term, dtype, &known) {
            Term::Apply(_, name, operands) => (name, operands),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_expression_is_the_same_function() {
        with_functions(|| {
            let own = function(large("x", "y", "f"), DType::U32);
            assert_eq!(own.1, [read("x"), read("y")]);
            assert_eq!(
                function(large("z", "x", "f"), DType::U32),
                (own.0.clone(), vec![read("z"), read("x")])
            );
            let others = [
                function(large("x", "y", "h"), DType::U32),
                function(large("x", "x", "f"), DType::U32),
                function(large("x", "y", "f"), DType::U64),
                function(large("wide", "y", "f"), DType::U32),
            ];
            assert!(others.iter().all(|other| other.0 != own.0));
        });
    }

    #[test]
    fn what_is_small_or_not_known_stays() {
        let (small, open) = (read("x"), large("unknown", "y", "f"));
        with_functions(|| {
            assert_eq!(composed(small.clone(), DType::U32, &known), small);
            assert_eq!(composed(open.clone(), DType::U32, &known), open);
        });
        let term = large("x", "y", "f");
        assert_eq!(composed(term.clone(), DType::U32, &known), term);
    }
}
