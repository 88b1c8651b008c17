//! Programs over a device mesh: one function, a straight line of operators. Its parameters, and some of its values, have random
//! layouts.

use super::body::Body;
use super::choices::Choices;
use super::forms::PLACED;
use super::scope::{Class, Type, Var, tuple};
use super::{Shared, parameters};
use relax_syntax::dim::Dim;

/// Extents of meshes: those of one worker, of numbers that divide few dims, of two axes, and names of what a run binds.
const MESHES: [&str; 8] = ["2", "3", "4", "2, 2", "1", "p", "p, q", "2, 3"];
/// Statements of the function.
const STATEMENTS: usize = 9;
/// One in so many parameters has no layout.
const PLAIN: usize = 4;
/// One in so many layouts has a tensor on one worker alone of an axis.
const ALONE: usize = 6;

/// The text of a module with one function over a mesh.
#[must_use]
pub fn placed(bytes: &[u8]) -> String {
    // Parameters that operands become get their layouts from choices of their own.
    let (layouts, rest) = bytes.split_at(bytes.len() / 4);
    let (mut layouts, mut choices) = (Choices::new(layouts), Choices::new(rest));
    let mesh = layouts.of(&MESHES);
    let axes = &extents(mesh)[..];
    let types = first_parameters(&mut choices);
    let has_m = types.iter().any(|ty| ty.quoted().contains('m'));
    let dims: Vec<Dim> =
        ["n", "m"][..1 + usize::from(has_m)].iter().map(|&v| Dim::var(v)).collect();
    let params = ["x", "y"].into_iter().zip(types);
    let params = params.map(|(name, ty)| Var { name: name.to_owned(), ty }).collect();
    let mut shared = Shared::default();
    let mut body = Body::new(&mut choices, &mut shared, params, dims.clone());
    for _ in 0..STATEMENTS {
        if body.choices.is_empty() {
            break;
        }
        statement(&mut body, axes);
    }
    let returned = returned(&mut body, axes);
    let (lines, params) = body.into_parts();
    let header: Vec<String> = params
        .iter()
        .map(|param| format!("{}: {}", param.name, annotation(param, axes, &mut layouts)))
        .collect();
    let declared: String = dims.iter().map(|dim| format!("    {dim} = sym_var()\n")).collect();
    format!(
        "module_attr(\"mesh[0]\", \"{mesh}\")\n\ndef main({}):\n{declared}{lines}    return {returned}\n",
        header.join(", ")
    )
}

/// Those of all programs, or matrices whose columns are those of heads.
fn first_parameters(choices: &mut Choices) -> Vec<Type> {
    if choices.once_in(2) {
        return parameters(choices);
    }
    let (n, m) = (Dim::var("n"), Dim::var("m"));
    let columns = Dim::Int(choices.of(&[6, 8, 12, 4, 10]));
    let shapes = [
        vec![vec![n.clone(), columns.clone()], vec![columns.clone(), m.clone()]],
        vec![vec![n.clone(), m.clone()], vec![m.clone(), columns.clone()]],
        vec![vec![Dim::Int(2), n.clone(), columns.clone()], vec![columns, n]],
    ];
    let chosen = choices.below(shapes.len());
    shapes[chosen].iter().cloned().map(Type::f32).collect()
}

/// The workers along each axis of a mesh, as far as any run has them.
fn extents(mesh: &str) -> Vec<usize> {
    mesh.split(',').map(|extent| extent.trim().parse().unwrap_or(1)).collect()
}

/// A placement along an axis of the mesh.
#[derive(Clone, Copy, PartialEq)]
enum Along {
    Whole,
    Cut(usize),
    Alone(usize),
}

/// A layout for a tensor of some rank on a mesh: no axis of the tensor is cut twice.
fn layout(rank: usize, axes: &[usize], choices: &mut Choices) -> Vec<Along> {
    let mut layout = Vec::new();
    for _ in axes {
        let cut = (rank > 0 && !choices.once_in(3)).then(|| choices.below(rank.max(1)));
        let cut = cut.map(Along::Cut).filter(|cut| !layout.contains(cut));
        layout.push(cut.unwrap_or(Along::Whole));
    }
    if choices.once_in(ALONE) {
        let along = choices.below(axes.len());
        layout[along] = Along::Alone(choices.below(axes[along]));
    }
    layout
}

fn spelled(layout: &[Along]) -> String {
    let each = layout.iter().map(|along| match along {
        Along::Cut(axis) => format!("S[{axis}]"),
        Along::Alone(worker) => format!("O[{worker}]"),
        Along::Whole => "R".to_owned(),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn annotation(param: &Var, axes: &[usize], choices: &mut Choices) -> String {
    let plain = param.ty.quoted();
    if choices.once_in(PLAIN) {
        return plain;
    }
    let layout = spelled(&layout(param.ty.rank(), axes, choices));
    let inner = plain.strip_prefix("Tensor(").and_then(|text| text.strip_suffix(')'));
    format!("DTensor({}, \"mesh[0]\", \"{layout}\")", inner.unwrap_or_default())
}

fn statement(body: &mut Body, axes: &[usize]) {
    match body.choices.below(10) {
        0 | 1 => drop(moved(body, axes)),
        2 => contracted(body, axes),
        3 => heads(body),
        4 => extreme(body, axes),
        _ => body.operator_of(PLACED),
    }
}

/// A value in another layout.
fn moved(body: &mut Body, axes: &[usize]) -> Var {
    let x = body.pick(Class::Any, 1..=4);
    let layout = layout(x.ty.rank(), axes, body.choices);
    let operator = body.choices.of(&["redistribute", "annotate_sharding"]);
    laid(body, operator, &x, &spelled(&layout))
}

fn laid(body: &mut Body, operator: &str, x: &Var, layout: &str) -> Var {
    let name = body.scope.fresh("v");
    body.line(&format!("{name} = {operator}({}, \"mesh[0]\", \"{layout}\")", x.name));
    body.scope.add(&name, x.ty.clone());
    Var { name, ty: x.ty.clone() }
}

/// A product or a reduction whose contracted axis is cut: partial, given to an operator that is linear, and then reduced.
fn contracted(body: &mut Body, axes: &[usize]) {
    let x = body.pick(Class::Float, 2..=3);
    let last = x.ty.rank() - 1;
    let along = body.choices.below(axes.len());
    let only = |what: String| {
        let of = |axis| if axis == along { what.clone() } else { "R".to_owned() };
        let each = (0..axes.len()).map(of);
        each.collect::<Vec<_>>().join(", ")
    };
    let cut = laid(body, "redistribute", &x, &only(format!("S[{last}]")));
    let mut ty = x.ty.clone();
    let name = body.scope.fresh("v");
    if body.choices.once_in(3) {
        ty.dims.pop();
        body.line(&format!("{name} = sum({}, axis=[{last}])", cut.name));
    } else {
        let columns = body.dim();
        let dims = vec![x.ty.dims[last].clone(), columns.clone()];
        let y = body.exact(&Type::new(dims.clone(), x.ty.dtype));
        let y = Var { name: y, ty: Type::new(dims, x.ty.dtype) };
        let y = laid(body, "redistribute", &y, &only("S[0]".to_owned()));
        ty.dims[last] = columns;
        body.line(&format!("{name} = matmul({}, {})", cut.name, y.name));
    }
    let terms = body.scope.fresh("p");
    let partial = only("P(sum)".to_owned());
    body.line(&format!("{terms} = annotate_sharding({name}, \"mesh[0]\", \"{partial}\")"));
    let linear = body.scope.fresh("p");
    let text = match body.choices.below(4) {
        0 => format!("add({terms}, {terms})"),
        1 => format!("negative({terms})"),
        2 => {
            ty.dims.reverse();
            format!("permute_dims({terms})")
        }
        _ => format!("subtract({terms}, {terms})"),
    };
    body.line(&format!("{linear} = {text}"));
    let layout = spelled(&layout(ty.rank(), axes, body.choices));
    laid(body, "redistribute", &Var { name: linear, ty }, &layout);
}

/// A maximum or minimum over an axis that is cut; terms of it where no shard is empty, as of most literal extents.
fn extreme(body: &mut Body, axes: &[usize]) {
    let mut x = body.pick(Class::Number, 1..=3);
    if body.choices.once_in(2) {
        let rows = body.dim();
        let ty = Type::new(vec![rows, Dim::Int(body.choices.of(&[16, 5, 7]))], "f32");
        x = Var { name: body.exact(&ty), ty };
    }
    let along = body.choices.below(axes.len());
    let mut ty = x.ty.clone();
    ty.dims.pop();
    let of = |axis| if axis == along { Along::Cut(ty.rank()) } else { Along::Whole };
    let cut: Vec<Along> = (0..axes.len()).map(of).collect();
    let x = laid(body, "redistribute", &x, &spelled(&cut));
    let (name, of) = (body.scope.fresh("v"), body.choices.of(&["max", "min"]));
    body.line(&format!("{name} = {of}({}, axis=[{}])", x.name, ty.rank()));
    let layout = spelled(&layout(ty.rank(), axes, body.choices));
    laid(body, "redistribute", &Var { name, ty }, &layout);
}

/// Heads that are split off the columns of a matrix, and merged again.
fn heads(body: &mut Body) {
    let (heads, depth) = body.choices.of(&[(2, 3), (4, 2), (3, 4), (3, 2), (5, 2), (4, 1)]);
    let rows = body.dim();
    let of = |dims: &[&Dim]| Type::f32(dims.iter().map(|dim| (*dim).clone()).collect());
    let (count, depth, columns) = (Dim::Int(heads), Dim::Int(depth), Dim::Int(heads * depth));
    let x = body.exact(&of(&[&rows, &columns]));
    let (split, turned, back) =
        (body.scope.fresh("v"), body.scope.fresh("v"), body.scope.fresh("w"));
    let shape = tuple(&[rows.clone(), count.clone(), depth.clone()]);
    body.line(&format!("{split} = reshape({x}, shape{shape})"));
    body.scope.add(&split, of(&[&rows, &count, &depth]));
    body.line(&format!("{turned} = permute_dims({split}, axes=[1, 0, 2])"));
    body.scope.add(&turned, of(&[&count, &rows, &depth]));
    let mut inner = turned.clone();
    if body.choices.once_in(2) {
        let keys = body.exact(&of(&[&count, &depth, &rows]));
        let (scores, values) = (body.scope.fresh("w"), body.exact(&of(&[&count, &rows, &depth])));
        body.line(&format!("{scores} = softmax(matmul({turned}, {keys}), axis=-1)"));
        inner = body.scope.fresh("v");
        body.line(&format!("{inner} = matmul({scores}, {values})"));
        body.scope.add(&inner, of(&[&count, &rows, &depth]));
    }
    body.line(&format!("{back} = permute_dims({inner}, axes=[1, 0, 2])"));
    let merged = body.scope.fresh("v");
    body.line(&format!(
        "{merged} = reshape({back}, shape{})",
        tuple(&[rows.clone(), columns.clone()])
    ));
    body.scope.add(&merged, of(&[&rows, &columns]));
}

/// What is returned: the last value as it lies, in a layout, or with others that nothing reads.
fn returned(body: &mut Body, axes: &[usize]) -> String {
    let unused = body.unused();
    match body.choices.below(3) {
        0 if unused.len() > 1 => format!("({})", unused.join(", ")),
        1 => moved(body, axes).name,
        _ => body.scope.last().name.clone(),
    }
}
