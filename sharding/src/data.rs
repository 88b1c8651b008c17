//! Data parallelism of a program without layouts: the parameters with a dim, such as the number of examples, are cut along it.

use crate::layout::declared_meshes;
use relax_semantics::check::mesh_extents;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Distributed, Placement};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Definition, Function, Module, VarId};

/// The module in which each parameter of a function that has `dim` as one of its dims, and no layout, is cut at the first such axis
/// along the first axis of the module's mesh.
///
/// # Errors
/// Where the module does not declare one mesh, there is no such function, or none of its parameters has the dim.
pub fn cut_along(module: &Module, function: &str, dim: &Name) -> Result<Module, String> {
    let [mesh] = declared_meshes(module)[..] else {
        return Err("the program must declare one mesh".to_owned());
    };
    let axes = mesh_extents(module, mesh)?.len();
    let mut result = module.clone();
    let own = result.definitions.iter_mut().find_map(|definition| match definition {
        Definition::Graph(own) if own.name == *function => Some(own),
        _ => None,
    });
    let own = own.ok_or_else(|| format!("there is no function `{function}`"))?;
    let mut is_cut = false;
    for VarId(param) in own.lambda.params.clone() {
        let Some(Annotation::Tensor(tensor)) = &own.vars[param as usize].annotation else {
            continue;
        };
        let at = tensor
            .extents
            .dims()
            .and_then(|dims| dims.iter().position(|own| *own == Dim::Var(dim.clone())));
        let Some(at) = at else { continue };
        place(own, VarId(param), mesh, (axes, 0), at);
        is_cut = true;
    }
    if is_cut {
        Ok(result)
    } else {
        Err(format!("no parameter of `{function}` has the dim `{dim}`"))
    }
}

/// Cuts a parameter that is a tensor without a layout at an axis, along one axis of a mesh.
///
/// # Panics
/// Where the function has no such parameter, or the mesh no such axis.
pub fn place(
    function: &mut Function,
    VarId(param): VarId,
    mesh: &Name,
    (axes, along): (usize, usize),
    at: usize,
) {
    let annotation = &mut function.vars[param as usize].annotation;
    let Some(Annotation::Tensor(tensor)) = annotation else { return };
    let mut placements = vec![Placement::Replicated; axes];
    placements[along] = Placement::Sharded(at);
    let (tensor, mesh) = (tensor.clone(), mesh.clone());
    let distributed = Distributed { tensor, mesh, placements };
    *annotation = Some(Annotation::DTensor(Box::new(distributed)));
}
