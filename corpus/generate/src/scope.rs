//! Scope of a generated body: tensor variables with their types, and fresh names.

use super::choices::Choices;
use relax_syntax::dim::{Dim, DimOp};

/// No generated tensor has more elements at dims of 5.
const MOST_ELEMENTS: i64 = 4000;
/// The largest value that tests give to a symbolic variable.
const LARGEST_DIM: i64 = 5;
/// The most dims of a generated tensor.
const MOST_DIMS: usize = 5;

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) dims: Vec<Dim>,
    pub(super) dtype: &'static str,
}

/// A tensor variable.
#[derive(Clone, Debug)]
pub(super) struct Var {
    pub(super) name: String,
    pub(super) ty: Type,
}

/// Dtypes that an operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Any,
    Float,
    Integer,
    IntegerOrBool,
    /// All but bool.
    Number,
    F32,
}

impl Class {
    pub(super) fn has(self, dtype: &str) -> bool {
        let (is_float, is_bool) = (dtype.contains('f'), dtype == "bool");
        match self {
            Class::Any => true,
            Class::Float => is_float,
            Class::Integer => !is_float && !is_bool,
            Class::IntegerOrBool => !is_float,
            Class::Number => !is_bool,
            Class::F32 => dtype == "f32",
        }
    }

    /// What others are converted to.
    pub(super) fn dtypes(self) -> &'static [&'static str] {
        match self {
            Class::Any | Class::F32 => &["f32"],
            Class::Float => &["f32", "f16", "f64", "bf16"],
            Class::Integer | Class::IntegerOrBool => {
                &["i64", "i32", "i8", "u8", "u64", "i16", "u16", "u32"]
            }
            Class::Number => &["f32", "i32", "u8", "f16", "i8"],
        }
    }
}

impl Type {
    pub(super) fn new(dims: Vec<Dim>, dtype: &'static str) -> Self {
        Self { dims, dtype }
    }

    pub(super) fn f32(dims: Vec<Dim>) -> Self {
        Self { dims, dtype: "f32" }
    }

    /// The same dims with another dtype.
    pub(super) fn of(&self, dtype: &'static str) -> Self {
        Self { dims: self.dims.clone(), dtype }
    }

    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// `Tensor((n, 4), "f32")`
    pub(super) fn text(&self) -> String {
        format!("Tensor({}, \"{}\")", tuple(&self.dims), self.dtype)
    }

    /// The same in a signature, where dims that are no literals are quoted.
    pub(super) fn quoted(&self) -> String {
        format!("Tensor({}, \"{}\")", quoted_tuple(&self.dims), self.dtype)
    }

    /// The number of elements, as a dim.
    pub(super) fn size(&self) -> Dim {
        product(&self.dims)
    }

    /// True when tensors of it stay small.
    pub(super) fn is_small(&self) -> bool {
        let sizes = self.size().eval(&|_| Some(LARGEST_DIM));
        self.rank() <= MOST_DIMS && sizes.is_ok_and(|size| size <= MOST_ELEMENTS)
    }
}

pub(super) fn product(dims: &[Dim]) -> Dim {
    let product = dims.iter().cloned().reduce(|a, b| Dim::op(DimOp::Mul, a, b));
    product.unwrap_or(Dim::Int(1))
}

/// `(n, 4)`
pub(super) fn tuple(dims: &[Dim]) -> String {
    listed(dims.iter().map(Dim::to_string).collect())
}

/// `n, 4`
pub(super) fn list(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")
}

/// `("n", 4)`
pub(super) fn quoted_tuple(dims: &[Dim]) -> String {
    let quoted = dims.iter().map(|dim| match dim {
        Dim::Int(value) => value.to_string(),
        dim => format!("\"{dim}\""),
    });
    listed(quoted.collect())
}

fn listed(items: Vec<String>) -> String {
    if items.len() == 1 { format!("({},)", items[0]) } else { format!("({})", items.join(", ")) }
}

/// Variables in scope, and the source of fresh names of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    vars: Vec<Var>,
    fresh: usize,
}

impl Scope {
    pub(super) fn add(&mut self, name: &str, ty: Type) {
        self.vars.push(Var { name: name.to_owned(), ty });
    }

    /// `v7`: a name that nothing in the function has.
    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}{}", self.fresh)
    }

    /// How many variables are in scope.
    pub(super) fn mark(&self) -> usize {
        self.vars.len()
    }

    /// Leaves a body: what it bound is out of scope; its names stay used.
    pub(super) fn leave(&mut self, mark: usize) {
        self.vars.truncate(mark);
    }

    /// Those that are in scope.
    pub(super) fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// The variable that was bound last.
    pub(super) fn last(&self) -> &Var {
        self.vars.last().expect("invariant: a function has a parameter")
    }

    /// Any variable; the last one half of the time, so that operators stand one after the other.
    pub(super) fn any(&self, choices: &mut Choices) -> Var {
        if !choices.once_in(2) {
            return self.last().clone();
        }
        self.vars[choices.below(self.vars.len())].clone()
    }

    /// A variable that satisfies a condition; often the last one.
    pub(super) fn such(
        &self,
        choices: &mut Choices,
        wanted: impl Fn(&Type) -> bool,
    ) -> Option<Var> {
        let found: Vec<&Var> = self.vars.iter().filter(|var| wanted(&var.ty)).collect();
        let last = found.last()?;
        if !choices.once_in(2) {
            return Some((*last).clone());
        }
        Some(found[choices.below(found.len())].clone())
    }
}
