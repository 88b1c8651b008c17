//! Extents of shards by other formulas: in the annotations of parameters, and in the shapes that calls ask for.

use super::Kind;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::{Atom, Expr, Function};
use std::collections::BTreeMap;

/// The extents of the mesh that are variables, axis by axis, in the programs of the tests.
const EXTENTS: [&str; 2] = ["p", "q"];
/// Workers along an axis whose extent is a variable, at most.
const MOST: i64 = 4;

/// Whether two dims of a local program differ on one of its ranks, at a size up to that of the tests.
pub(crate) fn differ(function: &Function, a: &Dim, b: &Dim) -> bool {
    let mut places: Vec<BTreeMap<Name, i64>> = vec![BTreeMap::new()];
    for ((rank, last), extent) in ranks_of(function).iter().zip(EXTENTS) {
        let workers = match last {
            Some(last) => last + 1..=last + 1,
            None => 1..=MOST,
        };
        let with = |place: &BTreeMap<Name, i64>| -> Vec<BTreeMap<Name, i64>> {
            let each =
                workers.clone().flat_map(|workers| (0..workers).map(move |own| (workers, own)));
            let placed = each.map(|(workers, own)| {
                let mut place = place.clone();
                place.insert(rank.clone(), own);
                if last.is_none() {
                    place.insert(extent.into(), workers);
                }
                place
            });
            placed.collect()
        };
        places = places.iter().flat_map(with).collect();
    }
    let least = |name: &Name| function.dim(name).and_then(|dim| dim.lower).unwrap_or(0);
    places.iter().any(|place| {
        (0..=33).any(|size: i64| {
            let value =
                |name: &Name| Some(place.get(name).copied().unwrap_or(size.max(least(name))));
            a.eval(&value) != b.eval(&value)
        })
    })
}

/// The rank along each axis of the mesh, with the last one where the extent is no variable.
fn ranks_of(function: &Function) -> Vec<(Name, Option<i64>)> {
    let ranks = function.dims.iter().filter(|dim| dim.name.starts_with("rank_"));
    ranks.map(|dim| (dim.name.clone(), dim.upper)).collect()
}

/// A dim with other operations, and other variables.
fn rewritten(dim: &Dim, change: &dyn Fn(&Dim) -> Option<Dim>) -> Dim {
    if let Some(new) = change(dim) {
        return new;
    }
    match dim {
        Dim::Op(op, both) => Dim::op(*op, rewritten(&both.0, change), rewritten(&both.1, change)),
        other => other.clone(),
    }
}

/// Each extent of a shard by another formula.
fn others(function: &Function, dim: &Dim) -> Vec<(Kind, &'static str, Dim)> {
    let ranks = ranks_of(function);
    let is_rank = |name: &Name| ranks.iter().any(|(rank, _)| rank == name);
    if !matches!(dim, Dim::Op(..)) || dim.vars_all(&|name| !is_rank(name)) {
        return Vec::new();
    }
    let floor = |dim: &Dim| match dim {
        Dim::Op(DimOp::CeilDiv, both) => {
            Some(Dim::op(DimOp::FloorDiv, both.0.clone(), both.1.clone()))
        }
        _ => None,
    };
    let block = |dim: &Dim| match dim {
        Dim::Op(DimOp::Min, both) => Some(both.1.clone()),
        _ => None,
    };
    let unlimited = |dim: &Dim| match dim {
        Dim::Op(DimOp::Max, both) => Some(both.0.clone()),
        _ => None,
    };
    let next = |dim: &Dim| match dim {
        Dim::Var(name) if is_rank(name) => Some(Dim::op(DimOp::Add, dim.clone(), Dim::Int(1))),
        _ => None,
    };
    let other = |dim: &Dim| match dim {
        Dim::Var(name) => {
            let (at, count) = (ranks.iter().position(|(rank, _)| rank == name)?, ranks.len());
            Some(Dim::Var(ranks[(at + 1) % count].0.clone()))
        }
        _ => None,
    };
    let all = [
        (Kind::Ragged, "blocks of the quotient", rewritten(dim, &floor)),
        (Kind::Ragged, "a whole block", rewritten(dim, &block)),
        (Kind::Ragged, "less than nothing", rewritten(dim, &unlimited)),
        (Kind::Ragged, "the rows of the next rank", rewritten(dim, &next)),
        (Kind::Group, "the rank along the other axis", rewritten(dim, &other)),
    ];
    all.into_iter().filter(|(_, _, new)| differ(function, dim, new)).collect()
}

/// The dims of an argument that may be those of a shard.
fn dims_of(atom: &mut Atom) -> Vec<&mut Dim> {
    match atom {
        Atom::Dim(dim) => vec![dim],
        Atom::Shape(dims) => dims.iter_mut().collect(),
        Atom::Tuple(items) | Atom::List(items) => items.iter_mut().flat_map(dims_of).collect(),
        _ => Vec::new(),
    }
}

/// Every dim of the parameters and of the calls of operators that are no collectives.
fn dims(function: &mut Function) -> Vec<&mut Dim> {
    let mut found = Vec::new();
    let params = &function.lambda.params;
    for (at, var) in function.vars.iter_mut().enumerate() {
        let is_param = params.iter().any(|param| param.0 as usize == at);
        if let Some(Annotation::Tensor(tensor)) = &mut var.annotation
            && is_param
            && let Extents::Known(dims) = &mut tensor.extents
        {
            found.extend(dims);
        }
    }
    for block in function.lambda.body.iter_mut().flat_map(|body| &mut body.blocks) {
        for binding in &mut block.bindings {
            if let Expr::Call { callee: relax_syntax::ir::Callee::Operator(name), args, attrs } =
                &mut binding.expr
                && !name.starts_with("spmd.")
            {
                found.extend(args.iter_mut().flat_map(dims_of));
                found.extend(attrs.iter_mut().flat_map(|(_, atom)| dims_of(atom)));
            }
        }
    }
    found
}

/// The function with each extent of a shard by each other formula.
pub(crate) fn edits(function: &Function) -> Vec<(Kind, &'static str, Function)> {
    let mut found = Vec::new();
    let mut own = function.clone();
    let all: Vec<Dim> = dims(&mut own).into_iter().map(|dim| dim.clone()).collect();
    for (at, dim) in all.iter().enumerate() {
        for (kind, what, new) in others(function, dim) {
            let mut edited = function.clone();
            if let Some(place) = dims(&mut edited).into_iter().nth(at) {
                *place = new;
            }
            found.push((kind, what, edited));
        }
    }
    found
}
