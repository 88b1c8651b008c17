//! Annotations: what is known of a value before it exists (paper §3.1; TVM: struct info).

use crate::Name;
use crate::dim::{Dim, DimOp, comma_separated};
use crate::dtype::DType;
use std::fmt;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Annotation {
    /// Any run-time value.
    Object,
    /// A scalar.
    Prim(DType),
    /// A shape value.
    Shape(Extents),
    /// A tensor.
    Tensor(TensorType),
    /// A tuple; of nothing: unit.
    Tuple(Vec<Annotation>),
    /// A function; `None` when nothing more is known.
    Callable(Option<Box<Signature>>),
    /// A tensor laid over a device mesh.
    DTensor(Box<Distributed>),
}

/// Marks a variable that the signature around it binds; no name in a text starts with it.
pub const OWN: char = '\'';

/// What is known of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extents {
    /// Every dim.
    Known(Vec<Dim>),
    /// The number of dims.
    Rank(usize),
    /// Nothing.
    Unknown,
}

/// What is known of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Its shape.
    pub extents: Extents,
    /// Its element type.
    pub dtype: Option<DType>,
}

/// What is known of a function.
///
/// A signature binds variables of its own: those quoted in the text of its parameters. In its dims
/// they carry the mark [`OWN`] before their name, so that they never meet the variables of the
/// function around it, which stand plain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The parameters; own variables in them are bound by a call.
    pub params: Vec<Annotation>,
    /// The result, over own variables and those around.
    pub result: Annotation,
    /// False when calling it has an effect.
    pub pure: bool,
}

/// A tensor with its placement on a device mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Distributed {
    /// The global tensor.
    pub tensor: TensorType,
    /// The mesh's name, such as `mesh[0]`.
    pub mesh: Name,
    /// One entry a mesh axis.
    pub placements: Vec<Placement>,
}

/// How one mesh axis holds the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Placement {
    /// `S[d]`: sharded along tensor axis `d`.
    Sharded(usize),
    /// `R`: a copy each.
    Replicated,
    /// `P(sum)`: a term each; the tensor is the reduction of all.
    Partial(Reduction),
    /// `O[k]`: the worker with coordinate `k` alone has it, as a stage of a pipeline.
    Only(usize),
}

/// How the terms of a partial tensor are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // each variant is its own name
pub enum Reduction {
    Sum,
    Max,
    Min,
}

impl Reduction {
    /// Every one, in the order of the reference.
    pub const ALL: [Reduction; 3] = [Reduction::Sum, Reduction::Max, Reduction::Min];

    /// The name in a text: `sum`, `max`, `min`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
        }
    }
}

impl Placement {
    /// Reads `R`, `S[0]`, `P(sum)` or `O[1]`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Placement> {
        let inside =
            |open: &str, close: char| Some(text.strip_prefix(open)?.strip_suffix(close)?.trim());
        if text == "R" {
            return Some(Placement::Replicated);
        }
        if let Some(name) = inside("P(", ')') {
            let named = Reduction::ALL.into_iter().find(|reduction| reduction.name() == name);
            return named.map(Placement::Partial);
        }
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        if let Some(stage) = inside("O[", ']') {
            return number(stage).map(Placement::Only);
        }
        number(inside("S[", ']')?).map(Placement::Sharded)
    }
}

/// The extent of the shard of worker `rank`: `min(max(n - rank * c, 0), c)` with `c = ceildiv(n, workers)`. Shards may be
/// empty. Where literal `workers` divide a literal extent all shards are equal.
#[must_use]
pub fn shard_extent(extent: &Dim, workers: &Dim, rank: &Dim) -> Dim {
    if workers.as_int() == Some(1) {
        return extent.clone();
    }
    if let (Some(extent @ 0..), Some(workers @ 1..)) = (extent.as_int(), workers.as_int())
        && extent % workers == 0
    {
        return Dim::Int(extent / workers);
    }
    let block = Dim::op(DimOp::CeilDiv, extent.clone(), workers.clone());
    let before = Dim::op(DimOp::Mul, rank.clone(), block.clone());
    let rest = Dim::op(DimOp::Sub, extent.clone(), before);
    Dim::op(DimOp::Min, Dim::op(DimOp::Max, rest, Dim::Int(0)), block)
}

/// The first extent that worker `rank` has of a tensor that worker `stage` alone has: `extent` there, 0 elsewhere.
#[must_use]
pub fn stage_extent(extent: &Dim, stage: usize, workers: &Dim, rank: &Dim) -> Dim {
    let stage = Dim::Int(i64::try_from(stage).unwrap_or(i64::MAX));
    if workers.as_int() == Some(1) && stage == Dim::Int(0) {
        return extent.clone();
    }
    let distance = match stage {
        Dim::Int(0) => rank.clone(),
        _ => {
            let above = Dim::op(DimOp::Sub, rank.clone(), stage.clone());
            Dim::op(DimOp::Max, above, Dim::op(DimOp::Sub, stage, rank.clone()))
        }
    };
    let near = Dim::op(DimOp::Sub, Dim::Int(1), distance);
    Dim::op(DimOp::Mul, extent.clone(), Dim::op(DimOp::Max, near, Dim::Int(0)))
}

impl Extents {
    /// The number of dims, where known.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        match self {
            Extents::Known(dims) => Some(dims.len()),
            Extents::Rank(rank) => Some(*rank),
            Extents::Unknown => None,
        }
    }

    /// The dims, where known.
    #[must_use]
    pub fn dims(&self) -> Option<&[Dim]> {
        if let Extents::Known(dims) = self { Some(dims) } else { None }
    }
}

impl Annotation {
    /// A tensor of known dims and dtype.
    #[must_use]
    pub fn tensor(dims: Vec<Dim>, dtype: DType) -> Self {
        Annotation::Tensor(TensorType { extents: Extents::Known(dims), dtype: Some(dtype) })
    }

    /// The dims of a tensor, plain or distributed, where known.
    #[must_use]
    pub fn dims(&self) -> Option<&[Dim]> {
        self.as_tensor()?.extents.dims()
    }

    /// Whether it is a tensor, or a tuple of such, of which every dim and the dtype are known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        match self {
            Annotation::Tensor(tensor) => tensor.dtype.is_some() && tensor.extents.dims().is_some(),
            Annotation::Tuple(items) => items.iter().all(Annotation::is_known),
            _ => false,
        }
    }

    /// The tensor type, of a plain or a distributed tensor.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Annotation::Tensor(tensor) => Some(tensor),
            Annotation::DTensor(distributed) => Some(&distributed.tensor),
            _ => None,
        }
    }

    /// Rewrites every dim in it; signatures of callables included.
    #[must_use]
    pub fn map_dims(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> Annotation {
        match self {
            Annotation::Object | Annotation::Prim(_) | Annotation::Callable(None) => self.clone(),
            Annotation::Shape(extents) => Annotation::Shape(extents.map_dims(map)),
            Annotation::Tensor(tensor) => Annotation::Tensor(tensor.map_dims(map)),
            Annotation::Tuple(items) => {
                Annotation::Tuple(items.iter().map(|item| item.map_dims(map)).collect())
            }
            Annotation::Callable(Some(signature)) => {
                Annotation::Callable(Some(Box::new(Signature {
                    params: signature.params.iter().map(|param| param.map_dims(map)).collect(),
                    result: signature.result.map_dims(map),
                    pure: signature.pure,
                })))
            }
            Annotation::DTensor(distributed) => Annotation::DTensor(Box::new(Distributed {
                tensor: distributed.tensor.map_dims(map),
                ..(**distributed).clone()
            })),
        }
    }

    /// Calls `visit` on it and on each annotation in it, outermost first.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Annotation)) {
        visit(self);
        match self {
            Annotation::Tuple(items) => items.iter().for_each(|item| item.visit(visit)),
            Annotation::Callable(Some(signature)) => {
                signature.params.iter().for_each(|param| param.visit(visit));
                signature.result.visit(visit);
            }
            Annotation::Object
            | Annotation::Prim(_)
            | Annotation::Shape(_)
            | Annotation::Tensor(_)
            | Annotation::DTensor(_)
            | Annotation::Callable(None) => {}
        }
    }

    /// Whether it is of a distributed tensor, or has one in it.
    #[must_use]
    pub fn has_layouts(&self) -> bool {
        let mut found = false;
        self.visit(&mut |part| found |= matches!(part, Annotation::DTensor(_)));
        found
    }

    /// On one device: a distributed tensor is the whole tensor.
    #[must_use]
    pub fn without_layouts(&self) -> Annotation {
        match self {
            Annotation::DTensor(distributed) => Annotation::Tensor(distributed.tensor.clone()),
            Annotation::Tuple(items) => {
                Annotation::Tuple(items.iter().map(Annotation::without_layouts).collect())
            }
            Annotation::Callable(Some(signature)) => {
                Annotation::Callable(Some(Box::new(Signature {
                    params: signature.params.iter().map(Annotation::without_layouts).collect(),
                    result: signature.result.without_layouts(),
                    pure: signature.pure,
                })))
            }
            Annotation::Object
            | Annotation::Prim(_)
            | Annotation::Shape(_)
            | Annotation::Tensor(_)
            | Annotation::Callable(None) => self.clone(),
        }
    }

    /// Calls `visit` on each dim, left to right.
    pub fn visit_dims<'a>(&'a self, visit: &mut dyn FnMut(&'a Dim)) {
        self.visit(&mut |part| match part {
            Annotation::Shape(extents) => extents.visit_dims(visit),
            Annotation::Tensor(tensor) => tensor.extents.visit_dims(visit),
            Annotation::DTensor(distributed) => distributed.tensor.extents.visit_dims(visit),
            Annotation::Object
            | Annotation::Prim(_)
            | Annotation::Tuple(_)
            | Annotation::Callable(_) => {}
        });
    }
}

impl TensorType {
    fn map_dims(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> TensorType {
        TensorType { extents: self.extents.map_dims(map), dtype: self.dtype }
    }
}

impl Extents {
    fn map_dims(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> Extents {
        match self {
            Extents::Known(dims) => Extents::Known(dims.iter().map(map).collect()),
            other => other.clone(),
        }
    }

    fn visit_dims<'a>(&'a self, visit: &mut dyn FnMut(&'a Dim)) {
        if let Extents::Known(dims) = self {
            dims.iter().for_each(visit);
        }
    }
}

/// A dim as it prints in a body: plain, but quoted where a signature's own variables are in it.
struct InBody<'a>(&'a Dim);

impl fmt::Display for InBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.vars_all(&|name| !name.starts_with(OWN)) {
            return self.0.fmt(f);
        }
        write!(f, "\"{}\"", self.0)
    }
}

/// Writes `(a, b)`, `(a,)` or `()`, as a tuple prints.
fn write_tuple(f: &mut fmt::Formatter<'_>, dims: &[Dim]) -> fmt::Result {
    f.write_str("(")?;
    comma_separated(f, dims.iter().map(InBody))?;
    f.write_str(if dims.len() == 1 { ",)" } else { ")" })
}

/// The text in a body, where dims are plain.
impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Annotation::Object => f.write_str("Object"),
            Annotation::Prim(dtype) => write!(f, "Prim(\"{dtype}\")"),
            Annotation::Shape(Extents::Known(dims)) => {
                f.write_str("Shape([")?;
                comma_separated(f, dims.iter().map(InBody))?;
                f.write_str("])")
            }
            Annotation::Shape(Extents::Rank(rank)) => write!(f, "Shape(ndim={rank})"),
            Annotation::Shape(Extents::Unknown) => f.write_str("Shape()"),
            Annotation::Tensor(tensor) => tensor.fmt(f),
            Annotation::Tuple(items) => {
                f.write_str("Tuple[")?;
                comma_separated(f, items)?;
                f.write_str("]")
            }
            Annotation::Callable(None) => f.write_str("Callable"),
            Annotation::Callable(Some(signature)) => {
                f.write_str("Callable([")?;
                comma_separated(f, &signature.params)?;
                write!(f, "], {}", signature.result)?;
                f.write_str(if signature.pure { ")" } else { ", pure=False)" })
            }
            Annotation::DTensor(distributed) => distributed.fmt(f),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tensor(")?;
        match (&self.extents, self.dtype) {
            (Extents::Known(dims), dtype) => {
                write_tuple(f, dims)?;
                dtype.map_or(Ok(()), |dtype| write!(f, ", \"{dtype}\""))?;
            }
            (Extents::Rank(rank), Some(dtype)) => write!(f, "ndim={rank}, dtype=\"{dtype}\"")?,
            (Extents::Rank(rank), None) => write!(f, "ndim={rank}")?,
            (Extents::Unknown, Some(dtype)) => write!(f, "dtype=\"{dtype}\"")?,
            (Extents::Unknown, None) => {}
        }
        f.write_str(")")
    }
}

impl fmt::Display for Distributed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DTensor(")?;
        match &self.tensor.extents {
            Extents::Known(dims) => write_tuple(f, dims)?,
            Extents::Rank(rank) => write!(f, "ndim={rank}")?,
            Extents::Unknown => f.write_str("None")?,
        }
        match self.tensor.dtype {
            Some(dtype) => write!(f, ", \"{dtype}\"")?,
            None => f.write_str(", None")?,
        }
        write!(f, ", \"{}\", \"", self.mesh)?;
        comma_separated(f, &self.placements)?;
        f.write_str("\")")
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Sharded(axis) => write!(f, "S[{axis}]"),
            Placement::Replicated => f.write_str("R"),
            Placement::Partial(reduction) => write!(f, "P({})", reduction.name()),
            Placement::Only(stage) => write!(f, "O[{stage}]"),
        }
    }
}
