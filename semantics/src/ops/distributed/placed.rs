//! What the operators of [`super::ranks`] do to the layout of a tensor, as a program spells them.

use super::passed::is_of_ranks;
use crate::ops::{Operator, normalize_axis, passed};
use relax_syntax::Name;
use relax_syntax::annotation::{Placement, Reduction};
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

/// A call of an operator of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The tensor of each rank.
    pub input: &'a Atom,
    /// The number of ranks in a group.
    pub workers: &'a Dim,
    /// The rank in its group.
    pub rank: &'a Dim,
    /// The mesh and the axis of it along which ranks of a group differ; nothing where no rank is asked.
    pub along: Option<(&'a str, &'a Dim)>,
    /// The placement of the tensor along this axis.
    pub from: Placement,
    /// The placement of the result.
    pub to: Placement,
    /// The extent of the whole tensor along the axis that is joined; the rows of one that is sent.
    pub extent: Option<&'a Dim>,
}

/// Whether an operator only says how a tensor is laid over a mesh.
#[must_use]
pub fn says_layout(row: &Operator) -> bool {
    matches!(row.name, "redistribute" | "annotate_sharding")
}

/// A call of an operator of ranks on a tensor of so many axes.
///
/// # Errors
/// Why it is none, or is not known before it runs.
pub fn placed<'a>(
    row: &'static Operator,
    args: &'a [Atom],
    attrs: &'a [(Name, Atom)],
    axes: usize,
) -> Result<Placed<'a>, String> {
    if !is_of_ranks(row) {
        return Err(format!("`{}` is no operator of ranks", row.name));
    }
    let given = passed(row, args, attrs).map_err(|_| "its arguments do not fit")?;
    let call = Call { row, given };
    let sharded = |name: &str| call.axis(name, axes).map(Placement::Sharded);
    let partial = || call.reduction().map(Placement::Partial);
    let only = |name: &str| call.worker(name).map(Placement::Only);
    let (from, to) = match row.name {
        "spmd.own_shard" => (Placement::Replicated, sharded("axis")?),
        "spmd.all_reduce" => (partial()?, Placement::Replicated),
        "spmd.reduce_scatter" => (partial()?, sharded("axis")?),
        "spmd.all_gather" => (sharded("axis")?, Placement::Replicated),
        "spmd.all_to_all" => (sharded("concat_axis")?, sharded("split_axis")?),
        "spmd.only" => (Placement::Replicated, only("target")?),
        "spmd.send" => (only("source")?, only("target")?),
        "spmd.broadcast" => (only("source")?, Placement::Replicated),
        other => return Err(format!("what `{other}` does to a layout is not known")),
    };
    let has = |name: &str| row.params.iter().any(|param| param.name == name);
    let along = match has("device_mesh") {
        true => Some((call.text("device_mesh")?, call.dim("mesh_dim")?)),
        false => None,
    };
    let extent = match has("extent") {
        true => Some(call.dim("extent")?),
        false => None,
    };
    let input = call.atom("x").ok_or("it is called on nothing")?;
    let (workers, rank) = (call.dim("num_workers")?, call.dim("rank")?);
    Ok(Placed { input, workers, rank, along, from, to, extent })
}

/// The arguments of a call.
struct Call<'a> {
    row: &'static Operator,
    given: Vec<Option<&'a Atom>>,
}

impl<'a> Call<'a> {
    fn atom(&self, name: &str) -> Option<&'a Atom> {
        let at = self.row.params.iter().position(|param| param.name == name)?;
        self.given.get(at).copied().flatten()
    }

    fn dim(&self, name: &str) -> Result<&'a Dim, String> {
        match self.atom(name) {
            Some(Atom::Dim(dim)) => Ok(dim),
            _ => Err(format!("`{name}` is no integer")),
        }
    }

    fn text(&self, name: &str) -> Result<&'a str, String> {
        match self.atom(name) {
            Some(Atom::Str(text)) => Ok(text),
            _ => Err(format!("`{name}` is no text")),
        }
    }

    /// An axis: the first where none is given.
    fn axis(&self, name: &str, axes: usize) -> Result<usize, String> {
        let axis = match self.atom(name) {
            None => Some(0),
            Some(_) => self.dim(name)?.as_int(),
        };
        let found = axis.and_then(|axis| normalize_axis(axis, axes));
        found.ok_or_else(|| format!("`{name}` is no axis of the tensor"))
    }

    /// A worker, by a literal.
    fn worker(&self, name: &str) -> Result<usize, String> {
        let worker = self.dim(name)?.as_int().and_then(|own| usize::try_from(own).ok());
        worker.ok_or_else(|| format!("`{name}` is no worker"))
    }

    /// The reduction: a sum where none is given.
    fn reduction(&self) -> Result<Reduction, String> {
        let name = match self.atom("op_type") {
            None => Reduction::Sum.name(),
            Some(_) => self.text("op_type")?,
        };
        let found = Reduction::ALL.into_iter().find(|reduction| reduction.name() == name);
        found.ok_or_else(|| format!("{name:?} is no reduction over ranks"))
    }
}
