//! From the arguments of a call to the parameters of a row.

use super::{Kind, Literal, Operator};
use crate::tensor::Number;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Atom;
use std::sync::Arc;

/// What deduction knows of an operand: its annotation, and its value where the text spells it.
#[derive(Clone, Debug)]
pub struct Operand {
    /// What is known of the value.
    pub annotation: Annotation,
    /// The value itself.
    pub known: Option<Known>,
}

/// A value that is known before the program runs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant is its own name
pub enum Known {
    None,
    Dim(Dim),
    Float(f64),
    Bool(bool),
    Str(Name),
    List(Vec<Known>),
    Annotation(Arc<Annotation>),
    Global(Name),
}

/// Why arguments do not fit the parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// More positional arguments than parameters.
    TooMany {
        /// How many the row takes.
        limit: usize,
    },
    /// A keyword that the row does not have.
    UnknownKeyword(Name),
    /// A parameter given twice.
    Twice(&'static str),
    /// A parameter without a default that was left out.
    Missing(&'static str),
}

impl Literal {
    /// The default as a known operand.
    #[must_use]
    pub fn known(self) -> Known {
        match self {
            Literal::None => Known::None,
            Literal::Int(value) => Known::Dim(Dim::Int(value)),
            Literal::Float(value) => Known::Float(value),
            Literal::Bool(value) => Known::Bool(value),
            Literal::Str(text) => Known::Str(text.into()),
            Literal::Ints(values) => {
                Known::List(values.iter().map(|&v| Known::Dim(Dim::Int(v))).collect())
            }
        }
    }

    /// The default as an atom of the text.
    #[must_use]
    pub fn atom(self) -> Atom {
        let integer = |value: i64| Atom::Dim(Dim::Int(value));
        match self {
            Literal::None => Atom::None,
            Literal::Int(value) => integer(value),
            Literal::Float(value) => Atom::Float(value),
            Literal::Bool(value) => Atom::Bool(value),
            Literal::Str(text) => Atom::Str(Name::new(text)),
            Literal::Ints(values) => Atom::Tuple(values.iter().map(|&v| integer(v)).collect()),
        }
    }

    /// The default as a value.
    #[must_use]
    pub fn value(self) -> Value {
        match self {
            Literal::None => Value::None,
            Literal::Int(value) => Value::int(value),
            Literal::Float(value) => Value::Prim(DType::F64, Number::Float(value)),
            Literal::Bool(value) => Value::Prim(DType::Bool, Number::Int(value.into())),
            Literal::Str(text) => Value::Str(text.into()),
            Literal::Ints(values) => Value::Tuple(values.iter().map(|&v| Value::int(v)).collect()),
        }
    }
}

impl Operand {
    /// A value that the text spells.
    #[must_use]
    pub fn of_known(known: Known) -> Self {
        let annotation = match &known {
            Known::Dim(_) => Annotation::Prim(DType::I64),
            Known::Float(_) => Annotation::Prim(DType::F64),
            Known::Bool(_) => Annotation::Prim(DType::Bool),
            Known::List(items) => Annotation::Tuple(
                items.iter().map(|item| Operand::of_known(item.clone()).annotation).collect(),
            ),
            Known::Global(_) => Annotation::Callable(None),
            Known::None | Known::Str(_) | Known::Annotation(_) => Annotation::Object,
        };
        Self { annotation, known: Some(known) }
    }

    /// What is known at run time: everything that an operator may ask.
    #[must_use]
    pub fn of_value(value: &Value) -> Self {
        Self { annotation: value.annotation(), known: known_of(value) }
    }

    /// The operands of a call that annotations describe. A parameter that is an annotation keeps it.
    #[must_use]
    pub fn all_described(row: &Operator, operands: Vec<Self>) -> Vec<Self> {
        let is_annotation =
            |at: usize| row.params.get(at).is_some_and(|param| param.kind == Kind::Annotation);
        let each = operands.into_iter().enumerate();
        each.map(|(at, own)| if is_annotation(at) { own } else { own.described() }).collect()
    }

    /// The operand that an annotation describes, or a list of them: a tensor of which nothing else is known.
    fn described(self) -> Self {
        let annotation_of = |known: &Known| match known {
            Known::Annotation(annotation) => Some((**annotation).clone()),
            _ => None,
        };
        let described = self.known.as_ref().and_then(|known| match known {
            Known::List(items) if !items.is_empty() => {
                items.iter().map(annotation_of).collect::<Option<_>>().map(Annotation::Tuple)
            }
            single => annotation_of(single),
        });
        match described {
            Some(annotation) => Self { annotation, known: None },
            None => self,
        }
    }

    /// The dims of a shape operand.
    #[must_use]
    pub fn extents(&self) -> Option<Extents> {
        if let Annotation::Shape(extents) = &self.annotation {
            return Some(extents.clone());
        }
        match &self.known {
            Some(known @ Known::List(_)) => Some(Extents::Known(known.dims()?)),
            _ => None,
        }
    }
}

impl Known {
    /// The value that an argument of the text spells; `None` for a variable, a tensor or a shape.
    #[must_use]
    pub fn of_atom(atom: &Atom) -> Option<Known> {
        Some(match atom {
            Atom::None => Known::None,
            Atom::Dim(dim) => Known::Dim(dim.clone()),
            Atom::Float(value) => Known::Float(*value),
            Atom::Bool(value) => Known::Bool(*value),
            Atom::Str(text) => Known::Str(text.clone()),
            Atom::Tuple(items) | Atom::List(items) => {
                Known::List(items.iter().map(Known::of_atom).collect::<Option<_>>()?)
            }
            Atom::Annotation(annotation) => Known::Annotation(annotation.clone()),
            Atom::Global(name) => Known::Global(name.clone()),
            Atom::Var(_) | Atom::Constant(_) | Atom::External(_) | Atom::Shape(_) => return None,
        })
    }

    /// A list of dims; one dim stands for a list of it.
    #[must_use]
    pub fn dims(&self) -> Option<Vec<Dim>> {
        match self {
            Known::Dim(dim) => Some(vec![dim.clone()]),
            Known::List(items) => items
                .iter()
                .map(|item| if let Known::Dim(dim) = item { Some(dim.clone()) } else { None })
                .collect(),
            _ => None,
        }
    }
}

fn known_of(value: &Value) -> Option<Known> {
    Some(match value {
        Value::None => Known::None,
        Value::Prim(DType::Bool, Number::Int(value)) => Known::Bool(*value != 0),
        Value::Prim(_, Number::Int(value)) => Known::Dim(Dim::Int(i64::try_from(*value).ok()?)),
        Value::Prim(_, Number::Float(value)) => Known::Float(*value),
        Value::Str(text) => Known::Str(text.clone()),
        Value::Tuple(items) => Known::List(items.iter().map(known_of).collect::<Option<_>>()?),
        Value::Shape(dims) => Known::List(dims.iter().map(|&d| Known::Dim(Dim::Int(d))).collect()),
        Value::Annotation(annotation) => Known::Annotation(annotation.clone()),
        Value::Global(name) => Known::Global(name.clone()),
        Value::Tensor(_)
        | Value::Placed(_)
        | Value::Closure(_)
        | Value::Partial(_)
        | Value::Storage(_)
        | Value::Heap(_) => return None,
    })
}

/// The arguments of a call, one a parameter: defaults are written out. `None` where they do not fit.
#[must_use]
pub fn by_position(
    row: &'static Operator,
    args: &[Atom],
    attrs: &[(Name, Atom)],
) -> Option<Vec<Atom>> {
    bind(row, args.to_vec(), attrs.to_vec(), &Literal::atom).ok()
}

/// The arguments of a call by parameter, as [`bind`] assigns them; `None` where the default is taken.
///
/// # Errors
/// As of [`bind`].
pub fn passed<'a>(
    row: &'static Operator,
    args: &'a [Atom],
    attrs: &'a [(Name, Atom)],
) -> Result<Vec<Option<&'a Atom>>, BindError> {
    let keywords = attrs.iter().map(|(key, atom)| (key.clone(), Some(atom))).collect();
    bind(row, args.iter().map(Some).collect(), keywords, &|_| None)
}

/// Assigns arguments to the parameters of `row`, defaults included. With [`Kind::Rest`] the further
/// positional arguments follow the parameters, one entry each.
///
/// # Errors
/// When the arguments do not fit; see [`BindError`].
pub fn bind<T>(
    row: &'static Operator,
    positional: Vec<T>,
    keywords: Vec<(Name, T)>,
    default: &dyn Fn(Literal) -> T,
) -> Result<Vec<T>, BindError> {
    let has_rest = row.params.last().is_some_and(|param| param.kind == Kind::Rest);
    let named = row.params.len() - usize::from(has_rest);
    // With further positional arguments, parameters that have a default are passed by name only.
    let by_position = if has_rest {
        row.params[..named].iter().take_while(|param| param.default.is_none()).count()
    } else {
        named
    };
    let mut slots: Vec<Option<T>> = (0..named).map(|_| None).collect();
    let mut rest = Vec::new();
    for (index, argument) in positional.into_iter().enumerate() {
        match slots[..by_position].get_mut(index) {
            Some(slot) => *slot = Some(argument),
            None if has_rest => rest.push(argument),
            None => return Err(BindError::TooMany { limit: named }),
        }
    }
    for (keyword, argument) in keywords {
        let Some(index) = row.params[..named].iter().position(|param| param.is_called(&keyword))
        else {
            return Err(BindError::UnknownKeyword(keyword));
        };
        if slots[index].replace(argument).is_some() {
            return Err(BindError::Twice(row.params[index].name));
        }
    }
    let filled =
        slots.into_iter().zip(row.params).map(|(slot, param)| match (slot, param.default) {
            (Some(argument), _) => Ok(argument),
            (None, Some(literal)) => Ok(default(literal)),
            (None, None) => Err(BindError::Missing(param.name)),
        });
    let mut bound = filled.collect::<Result<Vec<_>, _>>()?;
    bound.extend(rest);
    Ok(bound)
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BindError::TooMany { limit } => write!(f, "it takes at most {limit} arguments"),
            BindError::UnknownKeyword(name) => write!(f, "it has no parameter `{name}`"),
            BindError::Twice(name) => write!(f, "`{name}` is given twice"),
            BindError::Missing(name) => write!(f, "`{name}` is missing"),
        }
    }
}
