//! Values against annotations at run time: variables are bound left to right, then everything is
//! compared. Function boundaries and `match_cast` are the same check under different names.

use crate::show::shown_shape;
use crate::stop::{Stop, Trap};
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimError};
use relax_syntax::dtype::DType;
use relax_syntax::ir::DimVar;
use relax_syntax::span::Span;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The values of symbolic variables, and what bound them.
pub type DimValues = BTreeMap<Name, BoundDim>;

/// The value of a symbolic variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundDim {
    /// The value.
    pub value: i64,
    /// Where it was bound.
    pub span: Span,
    /// By what: "dim 0 of `x`".
    pub by: String,
}

/// What a value is to whoever reads of it. Checks that pass, which is most of them, write no word of it.
#[derive(Clone, Debug)]
pub(super) enum What<'v> {
    /// A parameter of the function.
    Parameter(&'v Name),
    /// A variable that is bound.
    Variable(&'v Name),
    /// One of the arguments of a function value, counted from 1.
    Argument(usize),
    /// What is cast.
    Value,
    /// What a function gives.
    Result,
    /// A field of a tuple.
    Field(usize, Rc<What<'v>>),
}

/// As messages say it.
impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Parameter(name) => write!(f, "parameter `{name}`"),
            What::Variable(name) => write!(f, "`{name}`"),
            What::Argument(number) => write!(f, "argument {number}"),
            What::Value => f.write_str("the value"),
            What::Result => f.write_str("the result"),
            What::Field(index, whole) => write!(f, "field {index} of {whole}"),
        }
    }
}

/// One check of values against annotations.
pub(super) struct Binder<'a> {
    /// `match_cast`, `boundary`, `return`, `annotation`: the first part of the trap's id.
    pub(super) check: &'static str,
    /// Facts declared of the variables.
    pub(super) declared: &'a [DimVar],
    /// Variables known so far; grows.
    pub(super) dims: &'a mut DimValues,
    /// Comparisons that wait until every lone variable is bound.
    pending: Vec<Pending<'a>>,
    /// Whether variables without a value may be bound.
    binds: Binds,
}

/// What a check does with a variable that has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binds {
    /// A lone one is bound.
    Lone,
    /// Nothing is bound; what cannot be evaluated is not compared.
    Nothing,
}

/// The dims of one value.
struct Pending<'a> {
    annotation: &'a Annotation,
    extents: &'a Extents,
    shape: Cow<'a, [i64]>,
    /// Of these dims; the others are bound.
    axes: Vec<usize>,
    what: What<'a>,
    span: Span,
}

impl<'a> Binder<'a> {
    pub(super) fn new(
        check: &'static str,
        declared: &'a [DimVar],
        dims: &'a mut DimValues,
        binds: Binds,
    ) -> Self {
        Self { check, declared, dims, pending: Vec::new(), binds }
    }

    /// Checks kind, rank and dtype of a value at once, binds lone variables, and notes the rest.
    pub(super) fn value(
        &mut self,
        annotation: &'a Annotation,
        value: &'a Value,
        what: What<'a>,
        span: Span,
    ) -> Result<(), Stop> {
        match (annotation, value) {
            (Annotation::Object, _)
            | (Annotation::Callable(_), Value::Global(_) | Value::Closure(_) | Value::Partial(_)) => {
                Ok(())
            }
            (Annotation::Tensor(_) | Annotation::DTensor(_), Value::Tensor(tensor)) => {
                self.tensor((tensor.shape(), tensor.dtype()), annotation, what, span)
            }
            (Annotation::Tensor(_) | Annotation::DTensor(_), Value::Placed(placed)) => {
                self.tensor((&placed.shape, placed.dtype), annotation, what, span)
            }
            (Annotation::Shape(extents), Value::Shape(dims)) => {
                self.extents(extents, Cow::Borrowed(dims), annotation, what, span)
            }
            (Annotation::Prim(expected), Value::Prim(found, _)) if expected == found => Ok(()),
            (Annotation::Prim(expected), Value::Prim(found, _)) => Err(self.trap(
                "dtype",
                format!("{what} must be a scalar of dtype {expected}, found {found}"),
                span,
            )),
            (Annotation::Tuple(fields), Value::Tuple(items)) => {
                if fields.len() != items.len() {
                    let message =
                        format!("{what} must have {} fields, found {}", fields.len(), items.len());
                    return Err(self.trap("rank", message, span));
                }
                let whole = Rc::new(what);
                for (index, (field, item)) in fields.iter().zip(items).enumerate() {
                    self.value(field, item, What::Field(index, whole.clone()), span)?;
                }
                Ok(())
            }
            _ => {
                let expected = annotation.without_layouts();
                let message = format!("{what} must be `{expected}`, found {}", value.kind());
                Err(self.trap("kind", message, span))
            }
        }
    }

    fn tensor(
        &mut self,
        (shape, dtype): (&[usize], DType),
        annotation: &'a Annotation,
        what: What<'a>,
        span: Span,
    ) -> Result<(), Stop> {
        let known =
            annotation.as_tensor().expect("invariant: only annotations of tensors come here");
        if let Some(expected) = known.dtype.filter(|&expected| expected != dtype) {
            let message = format!("{what} must have dtype {expected}, found {dtype}");
            return Err(self.trap("dtype", message, span));
        }
        let shape: Vec<i64> =
            shape.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
        self.extents(&known.extents, Cow::Owned(shape), annotation, what, span)
    }

    fn extents(
        &mut self,
        extents: &'a Extents,
        shape: Cow<'a, [i64]>,
        annotation: &'a Annotation,
        what: What<'a>,
        span: Span,
    ) -> Result<(), Stop> {
        if let Some(rank) = extents.rank().filter(|&rank| rank != shape.len()) {
            let expected = annotation.without_layouts();
            let message = format!(
                "{what} must be `{expected}`, of rank {rank}; found the shape {}, of rank {}",
                shown_shape(&shape),
                shape.len()
            );
            return Err(self.trap("rank", message, span));
        }
        let mut axes = Vec::new();
        for (axis, (dim, &actual)) in extents.dims().into_iter().flatten().zip(&*shape).enumerate()
        {
            match dim {
                Dim::Var(name) if self.binds == Binds::Lone && !self.dims.contains_key(name) => {
                    self.bind(name, actual, format!("dim {axis} of {what}"), span)?;
                }
                _ => axes.push(axis),
            }
        }
        if !axes.is_empty() {
            self.pending.push(Pending { annotation, extents, shape, axes, what, span });
        }
        Ok(())
    }

    /// Binds a variable and checks what is declared of it.
    pub(super) fn bind(
        &mut self,
        name: &Name,
        value: i64,
        by: String,
        span: Span,
    ) -> Result<(), Stop> {
        let declared = self.declared.iter().find(|dim| dim.name == *name);
        let bound = BoundDim { value, span, by };
        let failed = declared.and_then(|dim| broken_fact(dim, value).map(|broken| (dim, broken)));
        if let Some((dim, (fact, limit))) = failed {
            let message =
                format!("`{name}` = {value} ({}) breaks its declared {fact} {limit}", bound.by);
            let id = format!("bound/{}", fact.trim_end_matches("_bound"));
            return Err(Stop::Trap(Box::new(Trap {
                places: vec![(dim.span, format!("{fact}={limit} is declared here"))],
                ..located(id, message, span)
            })));
        }
        self.dims.insert(name.clone(), bound);
        Ok(())
    }

    /// Compares what is left, once every variable that can be bound is.
    pub(super) fn finish(self) -> Result<(), Stop> {
        let value_of = |name: &Name| self.dims.get(name).map(|bound| bound.value);
        for pending in &self.pending {
            let dims = pending.extents.dims().unwrap_or_default();
            for &axis in &pending.axes {
                match dims[axis].eval(&value_of) {
                    Ok(expected) if expected == pending.shape[axis] => {}
                    Ok(expected) => return Err(self.mismatch(pending, axis, expected)),
                    Err(error) if self.passes_over(&error) => {}
                    Err(error) => {
                        let message = format!("dim {axis} of {}: {error}", pending.what);
                        return Err(self.trap("dim", message, pending.span));
                    }
                }
            }
        }
        Ok(())
    }

    /// What is not compared: a variable that has no value yet where nothing is bound, and a deduced
    /// annotation whose canonical form leaves i64 where the dim itself does not.
    fn passes_over(&self, error: &DimError) -> bool {
        self.binds == Binds::Nothing
            && (matches!(error, DimError::Unbound(_)) || self.check == "annotation")
    }

    fn mismatch(&self, pending: &Pending, axis: usize, expected: i64) -> Stop {
        let Pending { annotation, shape, what, .. } = pending;
        let dim = &pending.extents.dims().unwrap_or_default()[axis];
        let value = match dim {
            Dim::Int(_) => expected.to_string(),
            dim => format!("{dim} = {expected}"),
        };
        let message = format!(
            "dim {axis} of {what} must be {value}, found {}: expected `{}`, found the shape {}",
            shape[axis],
            annotation.without_layouts(),
            shown_shape(shape)
        );
        let mut trap = located(format!("{}/dim", self.check), message, pending.span);
        dim.visit_vars(&mut |name| {
            if let Some(bound) = self.dims.get(name) {
                let name = Dim::Var(name.clone());
                trap.notes.push(format!("{name} = {} was bound by {}", bound.value, bound.by));
                trap.places.push((bound.span, format!("{name} = {} comes from here", bound.value)));
            }
        });
        Stop::Trap(Box::new(trap))
    }

    fn trap(&self, kind: &str, message: String, span: Span) -> Stop {
        Stop::Trap(Box::new(located(format!("{}/{kind}", self.check), message, span)))
    }
}

fn located(id: String, message: String, span: Span) -> Trap {
    Trap { id, message, span, function: None, notes: Vec::new(), places: Vec::new() }
}

/// The declared fact that a value breaks, and its limit.
fn broken_fact(dim: &DimVar, value: i64) -> Option<(&'static str, i64)> {
    let lower = dim.lower.filter(|&lower| value < lower).map(|lower| ("lower_bound", lower));
    let upper = dim.upper.filter(|&upper| value > upper).map(|upper| ("upper_bound", upper));
    let multiple =
        dim.multiple_of.filter(|&step| value % step != 0).map(|step| ("multiple_of", step));
    lower.or(upper).or(multiple)
}
