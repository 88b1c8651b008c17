//! Layouts: a placement for each axis of a mesh, and the dims of the local tensor that follow.

use relax_semantics::check::mesh_extents;
use relax_semantics::ranks::{MOST_RANKS, Mesh};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement, shard_extent};
use relax_syntax::dim::Dim;
use relax_syntax::ir::Module;

/// One placement a mesh axis.
pub type Layout = Vec<Placement>;

/// A mesh with a variable for the rank along each axis.
#[derive(Clone, Debug)]
pub struct Axes {
    /// The mesh itself.
    pub mesh: Mesh,
    /// The variable of the rank along each axis.
    pub ranks: Vec<Name>,
}

impl Axes {
    /// The axes of a declared mesh; rank variables avoid the names in `taken`.
    ///
    /// # Errors
    /// Where the mesh is not declared, or has too many workers.
    pub fn of(module: &Module, mesh: &Name, taken: &dyn Fn(&str) -> bool) -> Result<Self, String> {
        let extents = mesh_extents(module, mesh)?;
        let number = |extent: &i64| usize::try_from(*extent).unwrap_or(usize::MAX);
        let own = Mesh { name: mesh.clone(), extents: extents.iter().map(number).collect() };
        if own.workers().is_none() {
            return Err(format!("the mesh \"{mesh}\" has more than {MOST_RANKS} workers"));
        }
        let name = |axis: usize| {
            let mut name = format!("rank_{axis}");
            while taken(&name) {
                name.push('_');
            }
            Name::from(name)
        };
        let ranks = (0..own.extents.len()).map(name).collect();
        Ok(Self { mesh: own, ranks })
    }

    /// The number of workers along an axis.
    #[must_use]
    pub fn workers(&self, axis: usize) -> i64 {
        i64::try_from(self.mesh.extents[axis]).unwrap_or(i64::MAX)
    }

    /// The rank along an axis.
    #[must_use]
    pub fn rank(&self, axis: usize) -> Dim {
        Dim::Var(self.ranks[axis].clone())
    }

    /// The dims of the local tensor.
    #[must_use]
    pub fn local(&self, dims: &[Dim], layout: &[Placement]) -> Vec<Dim> {
        let mut dims = dims.to_vec();
        for (axis, placement) in layout.iter().enumerate() {
            if let Placement::Sharded(at) = placement {
                dims[*at] = shard_extent(&dims[*at], self.workers(axis), &self.rank(axis));
            }
        }
        dims
    }

    /// Every rank has the whole tensor.
    #[must_use]
    pub fn replicated(&self) -> Layout {
        vec![Placement::Replicated; self.ranks.len()]
    }

    /// The layout that an annotation of a tensor asks for.
    #[must_use]
    pub fn layout_of(&self, annotation: &Annotation) -> Layout {
        match annotation {
            Annotation::DTensor(distributed) => distributed.placements.clone(),
            _ => self.replicated(),
        }
    }
}

/// The meshes that a module declares.
#[must_use]
pub fn declared_meshes(module: &Module) -> Vec<&Name> {
    module.attrs.iter().map(|(name, _)| name).filter(|name| name.starts_with("mesh[")).collect()
}

/// A layout as text, such as `S[0], R`.
#[must_use]
pub fn text(layout: &[Placement]) -> String {
    layout.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether no axis of the tensor is cut along two axes of the mesh.
#[must_use]
pub fn is_legal(layout: &[Placement]) -> bool {
    let cut = |placement: &Placement| matches!(placement, Placement::Sharded(_));
    layout.iter().enumerate().all(|(at, own)| !cut(own) || !layout[..at].contains(own))
}
