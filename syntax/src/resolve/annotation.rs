//! From expressions of the text to annotations.

use super::codes;
use super::dim::DimTable;
use crate::Name;
use crate::annotation::{Annotation, Distributed, Extents, Placement, Signature, TensorType};
use crate::ast::{Argument, Expr, ExprKind};
use crate::diagnostic::Diagnostic;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::foreign;
use crate::suggest;

type Read<T> = Result<T, Diagnostic>;

/// True for an expression that can only be meant as an annotation.
#[must_use]
pub fn is_annotation(expr: &Expr) -> bool {
    let name = match &expr.kind {
        ExprKind::Name(name) => name,
        ExprKind::Call { callee, .. } | ExprKind::Subscript { base: callee, .. } => {
            match &callee.kind {
                ExprKind::Name(name) => name,
                _ => return false,
            }
        }
        _ => return false,
    };
    matches!(
        name.as_str(),
        "Object" | "Prim" | "Shape" | "Tensor" | "Tuple" | "Callable" | "DTensor"
    )
}

/// Reads an annotation.
///
/// # Errors
/// What is wrong with it, at its place.
pub fn annotation_of_expr(expr: &Expr, dims: &mut DimTable) -> Read<Annotation> {
    match &expr.kind {
        ExprKind::Name(name) if name == "Object" => Ok(Annotation::Object),
        ExprKind::Name(name) if name == "Callable" => Ok(Annotation::Callable(None)),
        ExprKind::Subscript { base, indices } if is_name(base, "Tuple") => tuple(indices, dims),
        ExprKind::Call { callee, arguments } => {
            let ExprKind::Name(name) = &callee.kind else { return Err(not_an_annotation(expr)) };
            let arguments = Arguments { call: expr, items: arguments };
            match name.as_str() {
                "Object" => arguments.take(&[]).map(|_| Annotation::Object),
                "Prim" => prim(&arguments),
                "Shape" => shape(&arguments, dims),
                "Tensor" => tensor(&arguments, dims).map(Annotation::Tensor),
                "Tuple" => tuple_call(&arguments, dims),
                "Callable" => callable(&arguments, dims),
                "DTensor" => distributed(&arguments, dims),
                _ => Err(not_an_annotation(expr)),
            }
        }
        _ => Err(not_an_annotation(expr)),
    }
}

/// The arguments of a call, matched to names.
struct Arguments<'a> {
    call: &'a Expr,
    items: &'a [Argument],
}

impl<'a> Arguments<'a> {
    /// One slot a name; positional arguments fill them in order.
    fn take(&self, names: &[&str]) -> Read<Vec<Option<&'a Expr>>> {
        let mut slots: Vec<Option<&Expr>> = vec![None; names.len()];
        for (index, argument) in self.items.iter().enumerate() {
            let position = match &argument.keyword {
                None => Some(index).filter(|&at| at < names.len()),
                Some(keyword) => names.iter().position(|&name| name == keyword.name),
            };
            let slot = position.and_then(|at| slots.get_mut(at)).filter(|slot| slot.is_none());
            let Some(slot) = slot else {
                let message = format!("this annotation takes ({})", names.join(", "));
                let span = argument.value.span;
                return Err(Diagnostic::error(codes::NOT_AN_ANNOTATION, span, message));
            };
            *slot = Some(&argument.value);
        }
        Ok(slots)
    }
}

fn is_name(expr: &Expr, expected: &str) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name == expected)
}

fn not_an_annotation(expr: &Expr) -> Diagnostic {
    let found = Diagnostic::error(codes::NOT_AN_ANNOTATION, expr.span, "expected an annotation");
    found.with_label("this is none").with_help(
        "one of Object, Prim, Shape, Tensor, Tuple, Callable, DTensor, such as Tensor((n, 4), \"f32\")",
    )
}

fn missing(call: &Expr, what: &str) -> Diagnostic {
    Diagnostic::error(codes::NOT_AN_ANNOTATION, call.span, format!("{what} is missing"))
}

/// Reads the name of a dtype in quotes.
///
/// # Errors
/// When it is none.
pub fn dtype_of_expr(expr: &Expr) -> Read<DType> {
    let dtype = match &expr.kind {
        ExprKind::Str(text) => DType::parse(text),
        _ => None,
    };
    dtype.ok_or_else(|| no_dtype(expr))
}

fn no_dtype(expr: &Expr) -> Diagnostic {
    let message = "expected the name of a dtype in quotes";
    let found = Diagnostic::error(codes::NOT_AN_ANNOTATION, expr.span, message);
    let (name, label) = match &expr.kind {
        ExprKind::Name(name) => (name.as_str(), "not in quotes"),
        ExprKind::Str(name) => (name.as_str(), "no dtype has this name"),
        _ => ("", "not the name of a dtype"),
    };
    let known = DType::ALL.map(DType::name);
    let near = || suggest::nearest(name, known).first().and_then(|name| DType::parse(name));
    let names = known.join(" ");
    let found = found.with_label(label);
    match foreign::dtype(name).or_else(near) {
        Some(meant) => {
            let help = format!("did you mean \"{meant}\"? Dtypes are {names}");
            found.with_help(help).with_fix(format!("\"{meant}\""))
        }
        None => found.with_help(format!("one of {names}")),
    }
}

fn optional_dtype(expr: Option<&Expr>) -> Read<Option<DType>> {
    match expr {
        None => Ok(None),
        Some(expr) if matches!(expr.kind, ExprKind::None) => Ok(None),
        Some(expr) => dtype_of_expr(expr).map(Some),
    }
}

fn prim(arguments: &Arguments) -> Read<Annotation> {
    let slots = arguments.take(&["dtype"])?;
    let dtype = slots[0].ok_or_else(|| missing(arguments.call, "the dtype"))?;
    dtype_of_expr(dtype).map(Annotation::Prim)
}

/// Reads `(n, 4)` or `[n, 4]`, or one dim for a list of it.
///
/// # Errors
/// When an entry is no dim.
pub fn dims_of_expr(expr: &Expr, dims: &mut DimTable) -> Read<Vec<Dim>> {
    match &expr.kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => dims.read_all(items),
        _ => dims.read(expr).map(|dim| vec![dim]),
    }
}

fn extents(shape: Option<&Expr>, ndim: Option<&Expr>, dims: &mut DimTable) -> Read<Extents> {
    let shape = shape.filter(|expr| !matches!(expr.kind, ExprKind::None));
    let ndim = ndim.filter(|expr| !matches!(expr.kind, ExprKind::None));
    let rank = ndim.map(rank_of_expr).transpose()?;
    let Some(shape) = shape else { return Ok(rank.map_or(Extents::Unknown, Extents::Rank)) };
    if !matches!(shape.kind, ExprKind::Tuple(_) | ExprKind::List(_)) {
        let message = "expected the dims in parentheses";
        let diagnostic = Diagnostic::error(codes::NOT_AN_ANNOTATION, shape.span, message);
        return Err(diagnostic.with_help("a single dim is written `(n,)`"));
    }
    let known = dims_of_expr(shape, dims)?;
    match (rank, ndim) {
        (Some(rank), Some(ndim)) if rank != known.len() => {
            let message = format!("ndim is {rank}, but there are {} dims", known.len());
            Err(Diagnostic::error(codes::NOT_AN_ANNOTATION, ndim.span, message))
        }
        _ => Ok(Extents::Known(known)),
    }
}

fn rank_of_expr(expr: &Expr) -> Read<usize> {
    match expr.kind {
        // More dims than this no tensor has; the limit keeps sizes within reach of any check.
        ExprKind::Int(rank @ 0..=1024) => Ok(usize::try_from(rank).expect("it is in 0..=1024")),
        _ => Err(Diagnostic::error(
            codes::NOT_AN_ANNOTATION,
            expr.span,
            "`ndim` must be a literal integer from 0 to 1024",
        )),
    }
}

fn shape(arguments: &Arguments, dims: &mut DimTable) -> Read<Annotation> {
    let slots = arguments.take(&["values", "ndim"])?;
    extents(slots[0], slots[1], dims).map(Annotation::Shape)
}

fn tensor(arguments: &Arguments, dims: &mut DimTable) -> Read<TensorType> {
    let slots = arguments.take(&["shape", "dtype", "ndim"])?;
    tensor_type(slots[0], slots[2], slots[1], dims)
}

fn tensor_type(
    shape: Option<&Expr>,
    ndim: Option<&Expr>,
    dtype: Option<&Expr>,
    dims: &mut DimTable,
) -> Read<TensorType> {
    let extents = extents(shape, ndim, dims);
    let (extents, dtype) = dims.both(extents, optional_dtype(dtype))?;
    Ok(TensorType { extents, dtype })
}

fn tuple(items: &[Expr], dims: &mut DimTable) -> Read<Annotation> {
    // `Tuple[()]` is unit too.
    if let [Expr { kind: ExprKind::Tuple(inner), .. }] = items
        && inner.is_empty()
    {
        return Ok(Annotation::Tuple(Vec::new()));
    }
    let mut all = Ok(Vec::new());
    for item in items {
        let item = annotation_of_expr(item, dims);
        all = dims.both(all, item).map(|(mut all, item)| {
            all.push(item);
            all
        });
    }
    all.map(Annotation::Tuple)
}

/// `Tuple(A, B)` and `Tuple([A, B])`, as the paper's table and TVM write it.
fn tuple_call(arguments: &Arguments, dims: &mut DimTable) -> Read<Annotation> {
    if let [Argument { keyword: None, value }] = arguments.items
        && let ExprKind::List(items) | ExprKind::Tuple(items) = &value.kind
    {
        return tuple(items, dims);
    }
    let items = arguments.items.iter().map(|argument| match &argument.keyword {
        None => annotation_of_expr(&argument.value, dims),
        Some(_) => Err(not_an_annotation(&argument.value)),
    });
    items.collect::<Read<_>>().map(Annotation::Tuple)
}

fn callable(arguments: &Arguments, dims: &mut DimTable) -> Read<Annotation> {
    let slots = arguments.take(&["params", "ret", "pure"])?;
    let pure = match slots[2].map(|expr| (&expr.kind, expr.span)) {
        None => true,
        Some((ExprKind::Bool(pure), _)) => *pure,
        Some((_, span)) => {
            let message = "`pure` must be `True` or `False`";
            return Err(Diagnostic::error(codes::NOT_AN_ANNOTATION, span, message));
        }
    };
    let (Some(params), Some(result)) = (slots[0], slots[1]) else {
        return Err(missing(arguments.call, "the list of parameters or the result"));
    };
    let (ExprKind::List(params) | ExprKind::Tuple(params)) = &params.kind else {
        return Err(not_an_annotation(params).with_help("the parameters stand in brackets: [A, B]"));
    };
    dims.in_callable(|dims| {
        let params = params.iter().map(|param| annotation_of_expr(param, dims));
        let params = params.collect::<Read<Vec<_>>>()?;
        dims.callable_result();
        let result = annotation_of_expr(result, dims)?;
        Ok(Annotation::Callable(Some(Box::new(Signature { params, result, pure }))))
    })
}

fn distributed(arguments: &Arguments, dims: &mut DimTable) -> Read<Annotation> {
    let slots = arguments.take(&["shape", "dtype", "mesh", "placement", "ndim"])?;
    let tensor = tensor_type(slots[0], slots[4], slots[1], dims)?;
    let text = |expr: Option<&Expr>, what: &str| match expr.map(|expr| &expr.kind) {
        Some(ExprKind::Str(text)) => Ok(text.clone()),
        _ => Err(missing(arguments.call, what)),
    };
    let mesh = text(slots[2], "the name of the mesh, such as \"mesh[0]\",")?;
    let placements = text(slots[3], "the placement, such as \"S[0], R\",")?;
    let placements = placements_of_text(&placements).ok_or_else(|| {
        let span = slots[3].map_or(arguments.call.span, |expr| expr.span);
        let message = "a placement lists `S[d]`, `R` or `P(sum)` for each axis of the mesh";
        Diagnostic::error(codes::NOT_AN_ANNOTATION, span, message)
    })?;
    Ok(Annotation::DTensor(Box::new(Distributed { tensor, mesh, placements })))
}

/// Reads `S[0], R`.
#[must_use]
pub fn placements_of_text(text: &Name) -> Option<Vec<Placement>> {
    text.split(',').map(|part| Placement::parse(part.trim())).collect()
}
