//! The mesh of a local program, and the dims that its first parameter tells.

use super::Layout;
use relax_semantics::check::mesh_extents;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, Placement, shard_extent, stage_extent};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{DimVar, Function, Module};

/// A mesh, and for each of its axes the number of workers, a literal or a variable, and the variable of the rank.
pub(super) struct World {
    pub(super) mesh: Name,
    pub(super) workers: Vec<Dim>,
    ranks: Vec<Name>,
}

impl World {
    /// Of a function of one device and that of ranks.
    ///
    /// # Errors
    /// Why the second is not called as ranks are.
    pub(super) fn of(
        (global, function): (&Module, &Function),
        (local, own): (&Module, &Function),
    ) -> Result<Self, String> {
        let mut meshes =
            local.attrs.iter().map(|(name, _)| name).filter(|name| name.starts_with("mesh["));
        let (Some(mesh), None) = (meshes.next(), meshes.next()) else {
            return Err("ranks run over one mesh".to_owned());
        };
        let mut workers = mesh_extents(local, mesh)?;
        if mesh_extents(global, mesh)? != workers {
            return Err(format!("the mesh \"{mesh}\" has other extents on one device"));
        }
        let first = own.lambda.params.first().map(|param| own.param_annotation(*param));
        let Some(Annotation::Shape(Extents::Known(dims))) = first else {
            return Err("the first parameter of a rank is no shape of known dims".to_owned());
        };
        let names: Option<Vec<Name>> = dims
            .iter()
            .map(|dim| match dim {
                Dim::Var(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let names = names.ok_or("the first parameter of a rank is no list of variables")?;
        let (ranks, mut rest) = names.split_at_checked(workers.len()).ok_or("ranks are missing")?;
        for own in workers.iter_mut().filter(|own| own.as_int().is_none()) {
            let (name, others) = rest.split_first().ok_or("the extents of the mesh are missing")?;
            *own = Dim::Var(name.clone());
            rest = others;
        }
        let told = function.dims.iter().filter(|dim| dim.in_signature).map(|dim| &dim.name);
        if !told.eq(rest) {
            return Err(
                "the first parameter of a rank does not tell the dims of one device".to_owned()
            );
        }
        let world = Self { mesh: mesh.clone(), workers, ranks: ranks.to_vec() };
        world.demand_bounds(function, own)?;
        Ok(world)
    }

    /// Dims of a rank are bounded as on one device: a check of a narrower bound could stop a rank.
    fn demand_bounds(&self, function: &Function, own: &Function) -> Result<(), String> {
        let bounds = |dim: &DimVar| (dim.lower, dim.upper, dim.multiple_of);
        let ranks = self.ranks.iter().zip(&self.workers).map(|(rank, workers)| {
            let last = workers.as_int().map(|workers| workers - 1);
            (rank, (Some(0), last, None))
        });
        let extents = self.workers.iter().filter_map(|workers| match workers {
            Dim::Var(name) => Some((name, (Some(1), None, None))),
            _ => None,
        });
        let of_mesh: Vec<_> = ranks.chain(extents).collect();
        for dim in &own.dims {
            let mut same = of_mesh.iter().filter(|(name, _)| **name == dim.name);
            let expected = match same.next() {
                Some((_, bounds)) => {
                    if same.next().is_some() || function.dim(&dim.name).is_some() {
                        return Err(format!("`{}` is of the mesh and another dim", dim.name));
                    }
                    *bounds
                }
                None => function
                    .dim(&dim.name)
                    .map(bounds)
                    .ok_or_else(|| format!("one device does not know the dim `{}`", dim.name))?,
            };
            if bounds(dim) != expected {
                return Err(format!("the dim `{}` has other bounds on ranks", dim.name));
            }
        }
        Ok(())
    }

    /// A rank is one of the workers, of which there is at least one.
    pub(super) fn assume(&self, facts: &mut dyn Facts) {
        for (rank, workers) in self.ranks.iter().zip(&self.workers) {
            let rank = Dim::Var(rank.clone());
            facts.assume(Claim::new(1, Relation::AtMost, workers.clone()));
            facts.assume(Claim::new(0, Relation::AtMost, rank.clone()));
            facts.assume(Claim::new(rank, Relation::Less, workers.clone()));
        }
    }

    pub(super) fn replicated(&self) -> Layout {
        vec![Placement::Replicated; self.workers.len()]
    }

    /// The axis of the mesh of which a dim is the rank.
    pub(super) fn axis_of(&self, rank: &Dim) -> Option<usize> {
        self.ranks.iter().position(|name| matches!(rank, Dim::Var(own) if own == name))
    }

    /// Whether a dim is the same on every rank.
    pub(super) fn is_alike(&self, dim: &Dim) -> bool {
        dim.vars_all(&|name| !self.ranks.contains(name))
    }

    /// The layout that an annotation asks for.
    ///
    /// # Errors
    /// Where it is over another mesh.
    pub(super) fn layout_of(&self, annotation: &Annotation) -> Result<Layout, String> {
        match annotation {
            Annotation::DTensor(own) => {
                let placements = own.placements.iter().enumerate();
                let layout: Layout = placements.map(|(axis, own)| self.plain(axis, *own)).collect();
                match own.mesh == self.mesh && self.is_legal(&layout) {
                    true => Ok(layout),
                    false => Err(format!("`{annotation}` is no layout over \"{}\"", self.mesh)),
                }
            }
            _ => Ok(self.replicated()),
        }
    }

    /// The dims of the shard.
    pub(super) fn local(&self, dims: &[Dim], layout: &[Placement]) -> Vec<Dim> {
        let mut dims = dims.to_vec();
        for (axis, placement) in layout.iter().enumerate() {
            if let Placement::Sharded(at) = placement
                && let Some(dim) = dims.get_mut(*at)
            {
                *dim = shard_extent(dim, &self.workers[axis], &self.rank(axis));
            }
        }
        let Some(first) = dims.first_mut() else { return dims };
        for (axis, placement) in layout.iter().enumerate() {
            if let Placement::Only(worker) = placement {
                *first = stage_extent(first, *worker, &self.workers[axis], &self.rank(axis));
            }
        }
        dims
    }

    /// The rank along an axis.
    pub(super) fn rank(&self, axis: usize) -> Dim {
        Dim::Var(self.ranks[axis].clone())
    }

    /// A placement along an axis: where there is one worker, what it alone has is what every worker has.
    pub(super) fn plain(&self, axis: usize, own: Placement) -> Placement {
        let is_alone = self.workers.get(axis).is_some_and(|workers| workers.as_int() == Some(1));
        if is_alone && own == Placement::Only(0) { Placement::Replicated } else { own }
    }

    /// Whether a layout has a meaning: a placement for each axis, of a worker that is there, no axis of the tensor cut twice, and reductions of one kind, whose order
    /// does not matter.
    pub(super) fn is_legal(&self, layout: &[Placement]) -> bool {
        let reductions = layout.iter().filter(|own| matches!(own, Placement::Partial(_)));
        let mut reductions = reductions.collect::<Vec<_>>();
        reductions.dedup();
        let is_cut = |own: &Placement| matches!(own, Placement::Sharded(_));
        layout.len() == self.workers.len()
            && layout.iter().zip(&self.workers).all(|(own, workers)| has_worker(*own, workers))
            && reductions.len() <= 1
            && layout
                .iter()
                .enumerate()
                .all(|(at, own)| !is_cut(own) || !layout[..at].contains(own))
    }
}

/// Whether an axis has the worker of a placement. Of any number of workers there is a first one.
fn has_worker(own: Placement, workers: &Dim) -> bool {
    let Placement::Only(worker) = own else { return true };
    let literal = workers.as_int().and_then(|workers| usize::try_from(workers).ok());
    worker < literal.unwrap_or(1)
}
