//! What a caller of all ranks must know to cut arguments and to join results: the mesh, and the layouts of parameters and results. As
//! text it is the signature of the function with its layouts as annotations, so it is kept where the program is not.

use crate::layout::{Axes, Layout, declared_meshes};
use crate::plan::completed;
use crate::propagate::Plan;
use relax_syntax::annotation::{Annotation, Distributed};
use relax_syntax::ir::{Atom, Definition, Function, Module, OUTPUT_NAME, VarId};

/// The layouts of parameters and results of a function.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// The mesh of all layouts.
    pub axes: Axes,
    /// Of each parameter; `None` of what is no tensor.
    pub params: Vec<Option<Layout>>,
    /// Of each result.
    pub results: Vec<Layout>,
}

impl From<&Plan> for Layouts {
    fn from(plan: &Plan) -> Self {
        let results = plan.results.iter().map(|(_, layout)| layout.clone()).collect();
        Self { axes: plan.axes.clone(), params: plan.params.clone(), results }
    }
}

impl From<&Layouts> for Layouts {
    fn from(own: &Layouts) -> Self {
        own.clone()
    }
}

/// The mesh, and the function of a plan as an external one, with its layouts as annotations.
#[must_use]
pub fn signature(module: &Module, function: &Function, plan: &Plan) -> Module {
    let mesh = &plan.axes.mesh;
    let laid = |annotation: &Annotation, layout: &Layout| match annotation.as_tensor() {
        Some(tensor) => {
            let (tensor, mesh, placements) = (tensor.clone(), mesh.clone(), layout.clone());
            Annotation::DTensor(Box::new(Distributed { tensor, mesh, placements }))
        }
        None => annotation.clone(),
    };
    let function = &completed(function, &plan.deduced);
    let mut own = function.clone();
    for (&param, layout) in function.lambda.params.iter().zip(&plan.params) {
        if let Some(layout) = layout {
            let VarId(at) = param;
            own.vars[at as usize].annotation = Some(laid(function.param_annotation(param), layout));
        }
    }
    let result = |(var, layout): &(VarId, Layout)| {
        let annotation = function.var(*var).annotation.as_ref();
        laid(annotation.unwrap_or(&Annotation::Object), layout)
    };
    let mut results: Vec<Annotation> = plan.results.iter().map(result).collect();
    let is_tuple =
        matches!(function.lambda.body.as_ref().map(|body| &body.result), Some(Atom::Tuple(_)));
    let single = (!is_tuple).then(|| results.pop()).flatten();
    own.lambda.result = Some(single.unwrap_or(Annotation::Tuple(results)));
    own.lambda.body = None;
    own.lambda.attrs.retain(|(key, _)| key.starts_with(OUTPUT_NAME));
    own.dims.retain(|dim| dim.in_signature);
    let attrs = module.attrs.iter().filter(|(name, _)| name == mesh).cloned().collect();
    Module { attrs, definitions: vec![Definition::Graph(own)] }
}

/// The layouts of a function of a module that [`signature`] made.
///
/// # Errors
/// Where it is something else.
pub fn layouts_of(module: &Module, function: &Function) -> Result<Layouts, String> {
    let [mesh] = declared_meshes(module)[..] else {
        return Err("it does not declare one mesh".to_owned());
    };
    let axes = Axes::of(module, mesh, &|name| function.dim(name).is_some())?;
    let layout = |annotation: &Annotation| match annotation {
        Annotation::DTensor(own) if own.mesh == *mesh => Some(own.placements.clone()),
        _ => None,
    };
    let params = function.lambda.params.iter();
    let params = params.map(|&param| layout(function.param_annotation(param))).collect();
    let results: Vec<Option<Layout>> = match &function.lambda.result {
        Some(Annotation::Tuple(fields)) => fields.iter().map(layout).collect(),
        Some(single) => vec![layout(single)],
        None => vec![None],
    };
    let results = results.into_iter().collect::<Option<Vec<_>>>();
    let results = results.filter(|results| !results.is_empty());
    let results = results.ok_or_else(|| "a result of it has no layout".to_owned())?;
    Ok(Layouts { axes, params, results })
}
