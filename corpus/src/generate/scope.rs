//! What a generated body may use: tensor variables with their types, and fresh names.

use super::choices::Choices;
use relax_syntax::dim::{Dim, DimOp};

/// No generated tensor has more elements at dims of 5.
const MOST_ELEMENTS: i64 = 4000;
/// The largest value that tests give to a symbolic variable.
const LARGEST_DIM: i64 = 5;

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

impl Type {
    pub(super) fn f32(dims: Vec<Dim>) -> Self {
        Self { dims, dtype: "f32" }
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
        let product = self.dims.iter().cloned().reduce(|a, b| Dim::op(DimOp::Mul, a, b));
        product.unwrap_or(Dim::Int(1))
    }

    /// True when tensors of it stay small.
    pub(super) fn is_small(&self) -> bool {
        let sizes = self.size().eval(&|_| Some(LARGEST_DIM));
        self.dims.len() <= 4 && sizes.is_ok_and(|size| size <= MOST_ELEMENTS)
    }
}

/// `(n, 4)`
pub(super) fn tuple(dims: &[Dim]) -> String {
    listed(dims.iter().map(Dim::to_string).collect())
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

    /// The variable that was bound last.
    pub(super) fn last(&self) -> &Var {
        self.vars.last().expect("invariant: a function has a parameter")
    }

    /// Any variable; later ones are as likely as early ones.
    pub(super) fn any(&self, choices: &mut Choices) -> Var {
        self.vars[choices.below(self.vars.len())].clone()
    }

    /// A variable that satisfies a condition.
    pub(super) fn such(
        &self,
        choices: &mut Choices,
        wanted: impl Fn(&Type) -> bool,
    ) -> Option<Var> {
        let found: Vec<&Var> = self.vars.iter().filter(|var| wanted(&var.ty)).collect();
        (!found.is_empty()).then(|| found[choices.below(found.len())].clone())
    }

    /// A variable of elements f32.
    pub(super) fn float(&self, choices: &mut Choices) -> Var {
        let found = self.such(choices, |ty| ty.dtype == "f32");
        found.expect("invariant: every parameter of a tensor is f32")
    }
}
