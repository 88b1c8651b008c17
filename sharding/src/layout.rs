//! Layouts: a placement for each axis of a mesh, and the dims of the local tensor that follow.

use relax_semantics::check::mesh_extents;
use relax_semantics::ranks::{MOST_RANKS, Mesh};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement, shard_extent, stage_extent};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::Module;

/// One placement a mesh axis.
pub type Layout = Vec<Placement>;

/// The axes of a mesh.
#[derive(Clone, Debug)]
pub struct Axes {
    /// The name of the mesh.
    pub mesh: Name,
    /// The number of workers along each axis: a literal, or a variable that a run binds.
    pub workers: Vec<Dim>,
    /// The variable of the rank along each axis.
    pub ranks: Vec<Name>,
}

impl Axes {
    /// The axes of a declared mesh; variables avoid the names in `taken`.
    ///
    /// # Errors
    /// Where the mesh is not declared, or has too many workers.
    pub fn of(module: &Module, mesh: &Name, taken: &dyn Fn(&str) -> bool) -> Result<Self, String> {
        let extents = mesh_extents(module, mesh)?;
        let literal = |extent: &Dim| extent.as_int().map_or(Ok(1), usize::try_from);
        let literals = extents.iter().map(|extent| literal(extent).unwrap_or(usize::MAX));
        demand_few(&Mesh { name: mesh.clone(), extents: literals.collect() })?;
        let mut own: Vec<Name> = Vec::new();
        let mut unused = |name: &str| {
            let mut name = name.to_owned();
            while taken(&name) || own.iter().any(|own| *own == name) {
                name.push('_');
            }
            own.push(name.as_str().into());
            Name::from(name)
        };
        let ranks = (0..extents.len()).map(|axis| unused(&format!("rank_{axis}"))).collect();
        let workers = extents.iter().map(|extent| match extent {
            Dim::Var(name) => Dim::Var(unused(name)),
            literal => literal.clone(),
        });
        Ok(Self { mesh: mesh.clone(), workers: workers.collect(), ranks })
    }

    /// The variables that are the number of workers along an axis, in the order of the axes.
    pub fn variables(&self) -> impl Iterator<Item = &Name> {
        self.workers.iter().filter_map(|workers| match workers {
            Dim::Var(name) => Some(name),
            _ => None,
        })
    }

    /// The mesh, where all its extents are literals.
    #[must_use]
    pub fn fixed(&self) -> Option<Mesh> {
        let literal = |own: &Dim| usize::try_from(own.as_int()?).ok();
        let extents = self.workers.iter().map(literal).collect::<Option<_>>()?;
        Some(Mesh { name: self.mesh.clone(), extents })
    }

    /// The mesh with these extents.
    ///
    /// # Errors
    /// Where a literal extent is another one, or there are too many workers.
    pub fn with_extents(&self, extents: &[usize]) -> Result<Mesh, String> {
        let is_own = |(own, extent): (&Dim, &usize)| match own.as_int() {
            Some(literal) => i64::try_from(*extent) == Ok(literal),
            None => *extent >= 1,
        };
        if extents.len() != self.workers.len() || !self.workers.iter().zip(extents).all(is_own) {
            let extents = commas(extents);
            return Err(format!("{} is not one with the extents [{extents}]", self.described()));
        }
        let mesh = Mesh { name: self.mesh.clone(), extents: extents.to_vec() };
        demand_few(&mesh).map(|()| mesh)
    }

    /// The mesh on which so many workers are all: at most one of its extents is a variable.
    ///
    /// # Errors
    /// Where there is none, or more than one.
    pub fn with_workers(&self, workers: usize) -> Result<Mesh, String> {
        let literals = self.workers.iter().filter_map(Dim::as_int).map(usize::try_from);
        let literals: usize = literals.map(|own| own.unwrap_or(usize::MAX)).product();
        let wrong = |why: &str| Err(format!("{}{why}", self.described()));
        match self.variables().count() {
            0 if literals != workers => wrong(&format!(" has {literals} workers")),
            1 if workers == 0 || !workers.is_multiple_of(literals) => {
                wrong(&format!(" has a multiple of {literals} workers"))
            }
            2.. => wrong(" has several extents that are not known: give each, such as 2x4"),
            _ => {
                let own = |own: &Dim| match own.as_int() {
                    Some(literal) => usize::try_from(literal).unwrap_or(usize::MAX),
                    None => workers / literals,
                };
                self.with_extents(&self.workers.iter().map(own).collect::<Vec<_>>())
            }
        }
    }

    fn described(&self) -> String {
        format!("the mesh \"{}\" with the extents [{}]", self.mesh, commas(&self.workers))
    }

    /// There is at least one worker along each axis.
    pub fn assume(&self, facts: &mut dyn Facts) {
        for name in self.variables() {
            facts.assume(Claim::new(1, Relation::AtMost, Dim::Var(name.clone())));
        }
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
                dims[*at] = shard_extent(&dims[*at], &self.workers[axis], &self.rank(axis));
            }
        }
        let Some(first) = dims.first_mut() else { return dims };
        for (axis, placement) in layout.iter().enumerate() {
            if let Placement::Only(stage) = placement {
                *first = stage_extent(first, *stage, &self.workers[axis], &self.rank(axis));
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

/// The stages of a layout: axes of the mesh, each with the worker that alone has the tensor.
pub(crate) fn stages(layout: &[Placement]) -> Vec<(usize, usize)> {
    let stage = |(axis, own): (usize, &Placement)| match own {
        Placement::Only(stage) => Some((axis, *stage)),
        _ => None,
    };
    layout.iter().enumerate().filter_map(stage).collect()
}

/// The layout on the workers that have the tensor: along the axes of its stages each has it whole.
pub(crate) fn within_stages(layout: &[Placement]) -> Layout {
    let own = |own: &Placement| match own {
        Placement::Only(_) => Placement::Replicated,
        other => *other,
    };
    layout.iter().map(own).collect()
}

fn commas(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn demand_few(mesh: &Mesh) -> Result<(), String> {
    match mesh.workers() {
        Some(_) => Ok(()),
        None => Err(format!("the mesh \"{}\" has more than {MOST_RANKS} workers", mesh.name)),
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
    commas(layout)
}

/// Whether no axis of the tensor is cut along two axes of the mesh.
#[must_use]
pub fn is_legal(layout: &[Placement]) -> bool {
    let cut = |placement: &Placement| matches!(placement, Placement::Sharded(_));
    layout.iter().enumerate().all(|(at, own)| !cut(own) || !layout[..at].contains(own))
}
