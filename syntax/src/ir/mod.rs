//! The IR of both levels. A [`Module`] is fully determined by its text, in every phase.
//!
//! Structure is closed (the enums here), vocabulary is open: an operator is a name with arguments,
//! and which names there are is floor 1's business.

mod equality;
pub mod graph;
pub mod guards;
pub mod layouts;
pub mod references;
mod renumber;
pub mod tensor;

pub use renumber::{Renaming, rename_body, renumber};

use crate::Name;
use crate::dim::Dim;
use crate::span::Span;

pub use graph::{
    Atom, Binding, Block, BlockKind, Body, Callee, Constant, Expr, External, Function, Lambda,
    VarId, VarInfo,
};
pub use tensor::TensorProgram;

/// A whole program: graph functions and tensor programs side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `module_attr(key, value)`, in text order.
    pub attrs: Attrs,
    /// Every function, in text order; names are unique.
    pub definitions: Vec<Definition>,
}

/// A top-level function of either level.
#[derive(Clone, Debug, PartialEq)]
pub enum Definition {
    /// A function of the graph level.
    Graph(Function),
    /// A tensor program.
    Tensor(TensorProgram),
}

/// `func_attr(key, value)` lines, in text order; keys are unique.
pub type Attrs = Vec<(Name, AttrValue)>;

/// The value of an attribute of a function or module.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each variant is its own name
pub enum AttrValue {
    Str(Name),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// A symbolic variable of one top-level function, with what is declared of it.
#[derive(Clone, Debug)]
pub struct DimVar {
    /// Its name, unique within the function.
    pub name: Name,
    /// True when a parameter's annotation binds it; false when a `match_cast` in the body does.
    pub in_signature: bool,
    /// `lower_bound=`; every variable is at least 0 without it.
    pub lower: Option<i64>,
    /// `upper_bound=`
    pub upper: Option<i64>,
    /// `multiple_of=`
    pub multiple_of: Option<i64>,
    /// Where it was declared.
    pub span: Span,
}

/// Equality of what the text says; places do not count.
impl PartialEq for DimVar {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.in_signature, self.lower, self.upper, self.multiple_of)
            == (&other.name, other.in_signature, other.lower, other.upper, other.multiple_of)
    }
}

impl DimVar {
    /// A variable of which nothing but its name is declared.
    #[must_use]
    pub fn new(name: impl Into<Name>, span: Span) -> Self {
        Self {
            name: name.into(),
            in_signature: false,
            lower: None,
            upper: None,
            multiple_of: None,
            span,
        }
    }

    /// True if a `sym_var` line says more than the signature does.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        self.lower.is_some() || self.upper.is_some() || self.multiple_of.is_some()
    }
}

impl Definition {
    /// The name it is called by.
    #[must_use]
    pub fn name(&self) -> &Name {
        match self {
            Definition::Graph(function) => &function.name,
            Definition::Tensor(program) => &program.name,
        }
    }

    /// The place of its header.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Definition::Graph(function) => function.span,
            Definition::Tensor(program) => program.span,
        }
    }

    /// Its attributes.
    #[must_use]
    pub fn attrs(&self) -> &Attrs {
        match self {
            Definition::Graph(function) => &function.lambda.attrs,
            Definition::Tensor(program) => &program.attrs,
        }
    }
}

impl Module {
    /// The graph function called `name`.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.definitions.iter().find_map(|definition| match definition {
            Definition::Graph(function) if function.name == name => Some(function),
            _ => None,
        })
    }

    /// The tensor program called `name`.
    #[must_use]
    pub fn tensor_program(&self, name: &str) -> Option<&TensorProgram> {
        self.definitions.iter().find_map(|definition| match definition {
            Definition::Tensor(program) if program.name == name => Some(program),
            _ => None,
        })
    }

    /// The graph functions, in text order.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.definitions.iter().filter_map(|definition| match definition {
            Definition::Graph(function) => Some(function),
            Definition::Tensor(_) => None,
        })
    }
}

/// Looks up an attribute.
#[must_use]
pub fn attr<'a>(attrs: &'a Attrs, key: &str) -> Option<&'a AttrValue> {
    attrs.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// How the keys of attributes begin that name the results of a function: `output.0`, `output.1`, ….
pub const OUTPUT_NAME: &str = "output.";

/// Names parameters whose arguments a caller gives up: `func_attr("donated", "keys, values")`. A function may overwrite
/// their memory.
pub const DONATED: &str = "donated";

/// The names in the attribute [`DONATED`], in text order.
pub fn donated_names(attrs: &Attrs) -> impl Iterator<Item = &str> {
    let names = match attr(attrs, DONATED) {
        Some(AttrValue::Str(names)) => names.as_str(),
        _ => "",
    };
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The names of results, in order, as far as attributes give them.
#[must_use]
pub fn output_names(attrs: &Attrs) -> Vec<Name> {
    let name = |index| match attr(attrs, &format!("{OUTPUT_NAME}{index}"))? {
        AttrValue::Str(name) => Some(name.clone()),
        _ => None,
    };
    (0..attrs.len()).map_while(name).collect()
}

/// The dims of a shape, as they print in a tuple.
pub type Dims = Vec<Dim>;
