//! The graph level in A-normal form: blocks of bindings `var = expr` over atoms.

use super::{Attrs, DimVar};
use crate::Name;
use crate::annotation::Annotation;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::span::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A variable of one top-level function: an index into [`Function::vars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// What is known of a variable.
#[derive(Clone, Debug)]
pub struct VarInfo {
    /// As written; unique within the function, but for `_`, the name of a call made for its effect.
    pub name: Name,
    /// As written, or as deduced; parameters always have one.
    pub annotation: Option<Annotation>,
    /// The binding that made it.
    pub span: Span,
}

/// Equality of what the text says; places do not count.
impl PartialEq for VarInfo {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.annotation == other.annotation
    }
}

/// A top-level function of the graph level.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, unique in the module.
    pub name: Name,
    /// The place of its header.
    pub span: Span,
    /// Parameters and body.
    pub lambda: Lambda,
    /// Every variable of it and of the closures in it.
    pub vars: Vec<VarInfo>,
    /// Every symbolic variable of it and of the closures in it, in order of declaration.
    pub dims: Vec<DimVar>,
}

/// Equality of what the text says; places do not count.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.lambda, &self.vars, &self.dims)
            == (&other.name, &other.lambda, &other.vars, &other.dims)
    }
}

/// Parameters and body: of a top-level function, or of a closure within one.
#[derive(Clone, Debug, PartialEq)]
pub struct Lambda {
    /// The parameters, all annotated.
    pub params: Vec<VarId>,
    /// After `->`.
    pub result: Option<Annotation>,
    /// `func_attr` lines.
    pub attrs: Attrs,
    /// `None` for an external function (`...`); closures have one.
    pub body: Option<Body>,
}

/// Blocks, then a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// In order; adjacent plain blocks do not occur.
    pub blocks: Vec<Block>,
    /// After `return`, or what a branch of an `if` binds.
    pub result: Atom,
}

/// A run of bindings.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Dataflow or plain.
    pub kind: BlockKind,
    /// In order; never empty in a plain block.
    pub bindings: Vec<Binding>,
}

/// What a block promises.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// Anything may happen.
    Plain,
    /// Pure and without control flow; only `outputs` are seen after it.
    Dataflow {
        /// In the order of `output(...)`.
        outputs: Vec<VarId>,
    },
}

/// `var = expr`; place and annotation of it are in the table of variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// What is bound.
    pub var: VarId,
    /// To what.
    pub expr: Expr,
}

/// What a binding computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// Another name for an atom.
    Atom(Atom),
    /// A call of an operator, a function or a closure.
    Call {
        /// What is called.
        callee: Callee,
        /// Positional arguments.
        args: Vec<Atom>,
        /// Keyword arguments, in text order.
        attrs: Vec<(Name, Atom)>,
    },
    /// `t[0]`
    Get(Atom, usize),
    /// `match_cast(value, annotation)`
    MatchCast(Atom, Annotation),
    /// Both branches give one value (a tuple when the text binds several names).
    If {
        /// A bool scalar.
        condition: Atom,
        /// When true.
        then: Body,
        /// When false.
        otherwise: Body,
    },
    /// A nested `def`.
    Closure(Arc<Lambda>),
}

/// What a call calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A name of the operator table, `call_tir` and built-ins included.
    Operator(Name),
    /// A graph function of the module.
    Global(Name),
    /// A variable that holds a function.
    Var(VarId),
}

/// An operand: no computation in it.
#[derive(Clone, Debug)]
pub enum Atom {
    /// A variable.
    Var(VarId),
    /// A function or tensor program of the module, as a value.
    Global(Name),
    /// An integer: a literal or a symbolic expression.
    Dim(Dim),
    /// A float.
    Float(f64),
    /// `True`, `False`
    Bool(bool),
    /// A string.
    Str(Name),
    /// `None`
    None,
    /// `const(…, dtype)`
    Constant(Arc<Constant>),
    /// `param("name", Tensor(…))`
    External(Arc<External>),
    /// `(a, b)`
    Tuple(Vec<Atom>),
    /// `[a, b]`
    List(Vec<Atom>),
    /// `shape(n, 4)`
    Shape(Vec<Dim>),
    /// The output annotation of `call_tir` and its like.
    Annotation(Arc<Annotation>),
}

/// A tensor written out in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The dims; none for a scalar.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
    /// Row-major elements.
    pub data: Literals,
}

impl Constant {
    /// The least and the greatest of its elements, if they are integers and there are some.
    #[must_use]
    pub fn integer_range(&self) -> Option<(i128, i128)> {
        let Literals::Int(values) = &self.data else { return None };
        Some((*values.iter().min()?, *values.iter().max()?))
    }
}

/// The elements of a [`Constant`].
#[derive(Clone, Debug)]
pub enum Literals {
    /// Integers and bools (0 and 1); the dtype holds each.
    Int(Vec<i128>),
    /// Floats, exact in the dtype.
    Float(Vec<f64>),
}

/// A tensor of the file of external constants (safetensors or GGUF).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct External {
    /// Its name in that file.
    pub name: Name,
    /// What it must be.
    pub annotation: Annotation,
}

impl Function {
    /// What is known of a variable.
    #[must_use]
    pub fn var(&self, id: VarId) -> &VarInfo {
        &self.vars[id.0 as usize]
    }

    /// The annotation of a parameter.
    #[must_use]
    pub fn param_annotation(&self, id: VarId) -> &Annotation {
        self.var(id).annotation.as_ref().expect("parameters always have an annotation")
    }

    /// The parameters whose arguments a caller gives up, in the order of the parameters.
    pub fn donated(&self) -> impl Iterator<Item = VarId> + '_ {
        let names: BTreeSet<&str> = super::donated_names(&self.lambda.attrs).collect();
        let params = self.lambda.params.iter().copied();
        params.filter(move |&param| names.contains(self.var(param).name.as_str()))
    }

    /// The declaration of a symbolic variable.
    #[must_use]
    pub fn dim(&self, name: &str) -> Option<&DimVar> {
        self.dims.iter().find(|dim| dim.name == name)
    }
}

impl Body {
    /// Every binding, in order, not entering branches and closures.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.blocks.iter().flat_map(|block| &block.bindings)
    }
}
