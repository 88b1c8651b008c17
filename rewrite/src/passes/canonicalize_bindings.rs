//! Each value has one name: other names of it, fields of known tuples, and variables that a
//! `match_cast` binds to a dim that is known already, are replaced.
//!
//! What stays: the variable that a branch of an `if` ends in, since both branches must bind its name;
//! names that say more than the value does, by facts that hold only there; and everything that a
//! call in destination-passing style may write to.

use super::map_functions;
use crate::blocks::tidy;
use crate::dims::say_the_same;
use crate::in_place::{UpdatedInPlace, mentions};
use crate::pass::{Exactness, Pass, PassContext};
use crate::substitute::{Check, Resolved, resolve_casts};
use relax_semantics::check::Phase;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Expr, Function, Module, VarId,
};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "canonicalize_bindings",
    doc: "Replaces second names of a value, fields of tuples that are written out, and symbolic \
          variables that equal a dim that has a name already.",
    from: Phase::P0,
    to: Phase::P1,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (mut names, mut fields, mut dims) = (0, 0, 0);
    let updated = UpdatedInPlace::of(module);
    let result = map_functions(module, &mut |function| {
        let mut function = function.clone();
        dims += known_dims(&mut function, context);
        let mut walk = Walk::of(&updated, &function, context);
        let mut body = function.lambda.body.clone().expect("invariant: only such are mapped");
        walk.body(&mut body, Place::Function);
        names += walk.names;
        fields += walk.fields;
        function.lambda.body = Some(body);
        function
    });
    context.count("removed", names, "second names");
    context.count("found", fields, "fields of known tuples");
    context.count("replaced", dims, "symbolic variables");
    Ok(result)
}

/// Replaces variables that casts bind to a known dim; the casts stay.
fn known_dims(function: &mut Function, context: &PassContext) -> usize {
    let own = context.checked.casts.iter().filter(|cast| cast.function == function.name);
    let mut casts = BTreeMap::new();
    for cast in own {
        let mut binds = cast.binds.clone();
        binds.retain(|_, dim| evaluates_when_it_fits(dim));
        if !binds.is_empty() {
            casts.insert(cast.var, Resolved { binds, check: Check::Keep });
        }
    }
    resolve_casts(function, &casts);
    casts.values().map(|resolved| resolved.binds.len()).sum()
}

/// Where a body stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Function,
    Branch,
}

struct Walk<'a, 'c> {
    function: &'a Function,
    context: &'a mut PassContext<'c>,
    updated: BTreeSet<VarId>,
    /// Second names and what they name.
    renamed: BTreeMap<VarId, VarId>,
    /// Tuples that are written out.
    tuples: BTreeMap<VarId, Vec<Atom>>,
    /// Variables of dataflow blocks that have ended, and that are not seen after them.
    hidden: BTreeSet<VarId>,
    names: usize,
    fields: usize,
}

impl<'a, 'c> Walk<'a, 'c> {
    fn of(
        updated: &UpdatedInPlace,
        function: &'a Function,
        context: &'a mut PassContext<'c>,
    ) -> Self {
        Self {
            function,
            context,
            updated: updated.variables(function),
            renamed: BTreeMap::new(),
            tuples: BTreeMap::new(),
            hidden: BTreeSet::new(),
            names: 0,
            fields: 0,
        }
    }

    fn body(&mut self, body: &mut Body, place: Place) {
        let result = match (place, &body.result) {
            (Place::Branch, Atom::Var(var)) => Some(*var),
            _ => None,
        };
        for block in &mut body.blocks {
            self.block(block, result);
        }
        if place == Place::Function {
            self.atom(&mut body.result);
        }
        tidy(body);
    }

    fn block(&mut self, block: &mut Block, result: Option<VarId>) {
        let mut bindings = Vec::with_capacity(block.bindings.len());
        let mut own = BTreeSet::new();
        for mut binding in std::mem::take(&mut block.bindings) {
            self.expr(&mut binding.expr);
            self.field(&mut binding);
            if Some(binding.var) != result && self.is_second_name(&binding) {
                self.names += 1;
                continue;
            }
            own.insert(binding.var);
            bindings.push(binding);
        }
        block.bindings = bindings;
        if let BlockKind::Dataflow { outputs } = &mut block.kind {
            let mut seen = BTreeSet::new();
            let named = outputs.iter().map(|var| *self.renamed.get(var).unwrap_or(var));
            *outputs = named.filter(|var| own.contains(var) && seen.insert(*var)).collect();
            self.hidden.extend(own.difference(&seen));
        }
    }

    /// A field of a known tuple is the value itself.
    fn field(&mut self, binding: &mut Binding) {
        if let Expr::Atom(Atom::Tuple(items)) = &binding.expr
            && !self.updated.contains(&binding.var)
            && !items.iter().any(|item| mentions(item, &self.updated))
        {
            self.tuples.insert(binding.var, items.clone());
        }
        let Expr::Get(atom, index) = &binding.expr else { return };
        let items = match atom {
            Atom::Tuple(items) => items,
            Atom::Var(var) => match self.tuples.get(var) {
                Some(items) => items,
                None => return,
            },
            _ => return,
        };
        // Calls through a name of a function may be held against its signature, those of a field
        // are not.
        let is_value = !matches!(
            self.function.var(binding.var).annotation,
            None | Some(Annotation::Object | Annotation::Callable(_))
        );
        let seen = |item: &&Atom| is_value && !mentions(item, &self.hidden);
        if let Some(item) = items.get(*index).filter(seen) {
            binding.expr = Expr::Atom(item.clone());
            self.fields += 1;
        }
    }

    /// Notes `y = x` where `y` says nothing that `x` does not.
    fn is_second_name(&mut self, binding: &Binding) -> bool {
        let Expr::Atom(Atom::Var(value)) = binding.expr else { return false };
        if self.updated.contains(&value) || self.updated.contains(&binding.var) {
            return false;
        }
        let known = &self.context.checked.annotations[&self.function.name];
        // Of what was deduced of the value, dims may have been replaced since.
        let of_value = self.function.var(value).annotation.clone();
        let of_value = of_value.unwrap_or_else(|| known[value.0 as usize].clone());
        let of_name = self.function.var(binding.var).annotation.clone();
        let same = match &of_name {
            Some(of_name) => say_the_same(self.context.facts, of_name, &of_value),
            None => true,
        };
        if same {
            self.renamed.insert(binding.var, value);
        }
        same
    }

    fn expr(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => self.atom(atom),
            Expr::Call { callee, args, attrs } => {
                if let Callee::Var(var) = callee {
                    *var = *self.renamed.get(var).unwrap_or(var);
                }
                let attrs = attrs.iter_mut().map(|(_, atom)| atom);
                args.iter_mut().chain(attrs).for_each(|atom| self.atom(atom));
            }
            Expr::If { condition, then, otherwise } => {
                self.atom(condition);
                self.body(then, Place::Branch);
                self.body(otherwise, Place::Branch);
            }
            Expr::Closure(_) => unreachable!("invariant: from P0 on there are no closures"),
        }
    }

    fn atom(&self, atom: &mut Atom) {
        match atom {
            Atom::Var(var) => *var = *self.renamed.get(var).unwrap_or(var),
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter_mut().for_each(|item| self.atom(item));
            }
            _ => {}
        }
    }
}
