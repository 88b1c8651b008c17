//! Which binding first goes wrong: both functions are cut off after each binding that they share.

use super::Sides;
use relax_program::frontend::run;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{Atom, BlockKind, Body, Definition, Function, Module};

impl Sides<'_> {
    /// The first variable of the function's own body that both have and that differs.
    pub(super) fn blame(&self, function: &Name, arguments: &[Value]) -> Option<Name> {
        let (before, after) = (self.before.function(function)?, self.after.function(function)?);
        let shared =
            binding_names(after).into_iter().filter(|name| binding_names(before).contains(name));
        shared.into_iter().find(|name| {
            let cut = |module: &Module| {
                let module = cut_after(module, function, name)?;
                Some(run(&module, function, arguments.to_vec(), &self.options))
            };
            let (Some(before), Some(after)) = (cut(self.before), cut(self.after)) else {
                return false;
            };
            self.outcomes(arguments, before, || after).is_err()
        })
    }
}

/// The variables that the body binds, branches not entered.
#[must_use]
pub fn binding_names(function: &Function) -> Vec<Name> {
    let bindings = function.lambda.body.iter().flat_map(Body::bindings);
    let names = bindings.map(|binding| function.var(binding.var).name.clone());
    names.filter(|name| name != "_").collect()
}

/// The module with `function` returning the variable `name` as soon as it is bound; `None` where its own body does not
/// bind it.
#[must_use]
pub fn cut_after(module: &Module, function: &Name, name: &Name) -> Option<Module> {
    let mut module = module.clone();
    let function = module.definitions.iter_mut().find_map(|definition| match definition {
        Definition::Graph(found) if found.name == *function => Some(found),
        _ => None,
    })?;
    let Function { lambda, vars, .. } = function;
    let body = lambda.body.as_mut()?;
    let is_it = |var: &relax_syntax::ir::VarId| vars[var.0 as usize].name == *name;
    let at = body.blocks.iter().position(|b| b.bindings.iter().any(|b| is_it(&b.var)))?;
    body.blocks.truncate(at + 1);
    let block = body.blocks.last_mut()?;
    let last = block.bindings.iter().position(|binding| is_it(&binding.var))?;
    let var = block.bindings[last].var;
    block.bindings.truncate(last + 1);
    if let BlockKind::Dataflow { outputs } = &mut block.kind {
        *outputs = vec![var];
    }
    body.result = Atom::Var(var);
    lambda.result = None;
    Some(module)
}
