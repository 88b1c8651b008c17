//! The walk backwards through bindings.

use super::cotangent::{Cotangent, leaves, sum_or_zeros};
use super::functions::{Pending, blocks};
use super::refused;
use crate::adjoints::remaining::why_not;
use crate::adjoints::site::Site;
use crate::adjoints::tape::{Made, Tape, may_be_float, over};
use crate::adjoints::{Adjoint, adjoint};
use relax_semantics::ops::{by_position, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Renaming, VarId, rename_body};
use relax_syntax::resolve::expr_uses;
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// One function that is being differentiated.
pub(super) struct Reverse<'r, 'a, 'm> {
    pub(super) tape: Tape<'a>,
    /// Variables whose value changes with what is differentiated by.
    pub(super) active: BTreeSet<VarId>,
    pub(super) cotangents: BTreeMap<VarId, Cotangent>,
    /// Of the functions that are called.
    pub(super) pending: &'r mut Pending<'m>,
}

impl Reverse<'_, '_, '_> {
    /// Marks what changes with the active variables.
    pub(super) fn mark(&mut self, body: &Body) {
        for binding in body.bindings() {
            if let Expr::If { then, otherwise, .. } = &binding.expr {
                self.mark(then);
                self.mark(otherwise);
            }
            let mut used = BTreeSet::new();
            expr_uses(&binding.expr, &mut used);
            let changes = !used.is_disjoint(&self.active)
                && may_be_float(&self.tape.types[binding.var.0 as usize])
                && !is_constant(&binding.expr);
            // What an `if` gives changes with what its branches bind, too.
            if changes {
                self.active.insert(binding.var);
            }
        }
    }

    /// Adds a cotangent of an atom, or of a part of it.
    pub(super) fn add(&mut self, of: &Atom, path: &[usize], given: &Cotangent) {
        match (of, path.split_first()) {
            (Atom::Var(var), _) if self.active.contains(var) => {
                self.cotangents.entry(*var).or_default().add_all(path, given);
            }
            (Atom::Tuple(items) | Atom::List(items), Some((&at, rest))) => {
                self.add(&items[at], rest, given);
            }
            (Atom::Tuple(items) | Atom::List(items), None) => {
                for (at, item) in items.iter().enumerate() {
                    if let Some(field) = given.field(at) {
                        self.add(item, &[], field);
                    }
                }
            }
            _ => {}
        }
    }

    fn add_atom(&mut self, of: &Atom, path: &[usize], given: Atom) {
        let mut one = Cotangent::default();
        one.add(&[], given);
        self.add(of, path, &one);
    }

    /// Goes backwards through the bindings of a body.
    pub(super) fn body(&mut self, body: &Body) -> Result<(), Diagnostic> {
        let bindings: Vec<&Binding> = body.bindings().collect();
        for binding in bindings.into_iter().rev() {
            let Some(given) = self.cotangents.remove(&binding.var) else { continue };
            let span = self.tape.vars[binding.var.0 as usize].span;
            self.tape.span = span;
            let given = given.summed(&mut self.tape).map_err(|why| refused(span, why))?;
            self.binding(binding, &given, span)?;
        }
        Ok(())
    }

    fn binding(
        &mut self,
        binding: &Binding,
        given: &Cotangent,
        span: Span,
    ) -> Result<(), Diagnostic> {
        match &binding.expr {
            Expr::Atom(atom) | Expr::MatchCast(atom, _) => self.add(atom, &[], given),
            Expr::Get(atom, at) => self.add(atom, &[*at], given),
            Expr::If { condition, then, otherwise } => {
                self.branches(condition, [then, otherwise], given, span)?;
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                self.operator(binding.var, name, (args, attrs), given)
                    .map_err(|why| self.no_adjoint(name, &why, span))?;
            }
            Expr::Call { callee: Callee::Global(name), args, .. } => {
                self.function(binding.var, (name, args), given, span)?;
            }
            Expr::Call { callee: Callee::Var(var), .. } => {
                let name = &self.tape.vars[var.0 as usize].name;
                let message =
                    format!("`{name}` is a closure, and calls of closures are not differentiated");
                return Err(refused(span, message).with_help("make a function of the module of it"));
            }
            Expr::Closure(_) => {
                return Err(refused(span, "a nested function is not differentiated".to_owned()));
            }
        }
        Ok(())
    }

    fn no_adjoint(&self, name: &Name, why: &str, span: Span) -> Diagnostic {
        let name = lookup(name).map_or(name.as_str(), |row| row.short_name());
        refused(span, format!("`{name}` has no adjoint here: {why}"))
            .with_label("the loss depends on this call")
    }

    fn operator(
        &mut self,
        var: VarId,
        name: &Name,
        (args, attrs): (&[Atom], &[(Name, Atom)]),
        given: &Cotangent,
    ) -> Made<()> {
        let row = lookup(name).ok_or("it is not in the table of operators")?;
        let Some(rule) = adjoint(row) else {
            return Err(why_not(row).unwrap_or("it has none").to_owned());
        };
        let params = by_position(row, args, attrs).ok_or("its arguments do not fit")?;
        let y = Atom::Var(var);
        let cotangents = match self.tape.annotation(&y) {
            Annotation::Tuple(fields) => {
                let mut all = Vec::new();
                for at in 0..fields.len() {
                    let own = given.field(at).map(|field| field.sum(&mut self.tape));
                    all.push(own.transpose()?.flatten());
                }
                all
            }
            _ => vec![given.sum(&mut self.tape)?],
        };
        let active = &self.active;
        let mut site = Site {
            tape: &mut self.tape,
            row,
            params,
            y,
            cotangents,
            active: &|var| active.contains(&var),
            given: Vec::new(),
        };
        match rule {
            Adjoint::Zero => {}
            Adjoint::Formulas(text) => site.formulas(text, &[])?,
            Adjoint::Build(build) => build(&mut site)?,
        }
        for given in std::mem::take(&mut site.given) {
            let path: Vec<usize> = given.field.into_iter().collect();
            self.add_atom(&given.of, &path, given.cotangent);
        }
        Ok(())
    }

    /// The call of a pullback, and what it gives for each float tensor of the active arguments.
    fn function(
        &mut self,
        var: VarId,
        (name, args): (&Name, &[Atom]),
        given: &Cotangent,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let active: Vec<bool> = args.iter().map(|arg| self.is_active(arg)).collect();
        let pullback = self.pending.pullback(name, &active, span)?;
        if pullback.arguments.is_empty() {
            return Ok(());
        }
        let mut all = args.to_vec();
        let made = |why| refused(span, why);
        for (path, _) in &pullback.results {
            let own = sum_or_zeros(&mut self.tape, Some(given), &Atom::Var(var), path);
            all.push(own.map_err(made)?);
        }
        // Their dims are those of the callee: none is known here before the cast below.
        let leaves = pullback.arguments.iter().map(|(_, (_, leaf))| over(leaf, &|_| false));
        let fields = Annotation::Tuple(leaves.collect());
        let callee = Callee::Global(pullback.name.clone());
        let gives =
            self.tape.bind("d_call", Expr::Call { callee, args: all, attrs: Vec::new() }, fields);
        for (field, (at, (path, _))) in pullback.arguments.iter().enumerate() {
            let own = self.tape.field(&gives, field);
            let own = self.known_as(&args[*at], path, own);
            self.add_atom(&args[*at], path, own);
        }
        Ok(())
    }

    /// A cotangent has the annotation of what it is of.
    fn known_as(&mut self, of: &Atom, path: &[usize], own: Atom) -> Atom {
        let mut annotation = self.tape.annotation(of);
        for &at in path {
            let Annotation::Tuple(fields) = annotation else { return own };
            annotation = fields[at].clone();
        }
        self.tape.bind("d_part", Expr::MatchCast(own, annotation.clone()), annotation)
    }

    fn is_active(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Var(var) => self.active.contains(var),
            Atom::Tuple(items) | Atom::List(items) => items.iter().any(|item| self.is_active(item)),
            _ => false,
        }
    }

    /// A second `if`: its branches repeat those of the first one and go backwards through them.
    fn branches(
        &mut self,
        condition: &Atom,
        branches: [&Body; 2],
        given: &Cotangent,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let mut used = BTreeSet::new();
        let whole = Expr::If {
            condition: Atom::None,
            then: branches[0].clone(),
            otherwise: branches[1].clone(),
        };
        expr_uses(&whole, &mut used);
        let mut bound = BTreeSet::new();
        branches.iter().for_each(|body| bound_in(body, &mut bound));
        let outside = used.difference(&bound).filter(|var| self.active.contains(var));
        let mut wanted = Vec::new();
        for &var in outside {
            let annotation = self.tape.types[var.0 as usize].clone();
            let all = leaves(&annotation).ok_or_else(|| {
                let name = &self.tape.vars[var.0 as usize].name;
                refused(span, format!("what `{name}` holds is not known, and a branch uses it"))
            })?;
            wanted.extend(all.into_iter().map(|(path, leaf)| (var, path, leaf)));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let name = self.tape.names.fresh("d_if");
        let fields = Annotation::Tuple(wanted.iter().map(|(_, _, leaf)| leaf.clone()).collect());
        let mut bodies = Vec::new();
        for branch in branches {
            bodies.push(self.branch(branch, given, &wanted, &name, span)?);
        }
        let otherwise = bodies.pop().expect("invariant: two branches");
        let then = bodies.pop().expect("invariant: two branches");
        let var = self.tape.named_variable(name, fields);
        let expr = Expr::If { condition: condition.clone(), then, otherwise };
        self.tape.bindings.push(Binding { var, expr });
        for (at, (of, path, _)) in wanted.iter().enumerate() {
            let own = self.tape.field(&Atom::Var(var), at);
            self.add_atom(&Atom::Var(*of), path, own);
        }
        Ok(())
    }

    fn branch(
        &mut self,
        branch: &Body,
        given: &Cotangent,
        wanted: &[(VarId, Vec<usize>, Annotation)],
        name: &Name,
        span: Span,
    ) -> Result<Body, Diagnostic> {
        let made = |why| refused(span, why);
        let mut copy = self.copied(branch, span)?;
        let before = std::mem::take(&mut self.tape.bindings);
        let around = std::mem::take(&mut self.cotangents);
        self.add(&copy.result.clone(), &[], given);
        self.body(&copy)?;
        let mut results = Vec::new();
        for (var, path, _) in wanted {
            let own = self.cotangents.get(var);
            let own = sum_or_zeros(&mut self.tape, own, &Atom::Var(*var), path);
            results.push(own.map_err(made)?);
        }
        self.cotangents = around;
        let fields = results.iter().map(|own| self.tape.annotation(own)).collect();
        let result = self.tape.named_variable(name.clone(), Annotation::Tuple(fields));
        self.tape.bindings.push(Binding { var: result, expr: Expr::Atom(Atom::Tuple(results)) });
        let backward = std::mem::replace(&mut self.tape.bindings, before);
        copy.blocks.extend(blocks(backward));
        copy.result = Atom::Var(result);
        crate::blocks::tidy(&mut copy);
        crate::blocks::export_used(&mut copy);
        Ok(copy)
    }

    /// A branch once more, under new names.
    fn copied(&mut self, branch: &Body, span: Span) -> Result<Body, Diagnostic> {
        let mut bound = BTreeSet::new();
        bound_in(branch, &mut bound);
        if binds_dims(branch) {
            let message = "a branch that binds symbolic variables is not differentiated";
            return Err(refused(span, message.to_owned())
                .with_help("make a function of the branch, or bind them before the `if`"));
        }
        let mut new: Renaming = (0..self.tape.vars.len()).map(id).map(|var| (var, var)).collect();
        let mut renamed: BTreeMap<Name, Name> = BTreeMap::new();
        for var in bound {
            let old = self.tape.vars[var.0 as usize].name.clone();
            let names = &mut self.tape.names;
            let name = match old.as_str() {
                "_" => old,
                _ => renamed.entry(old.clone()).or_insert_with(|| names.fresh(&old)).clone(),
            };
            let found = self.tape.types[var.0 as usize].clone();
            let fresh = self.tape.named_variable(name, found);
            self.tape.vars[fresh.0 as usize].span = self.tape.vars[var.0 as usize].span;
            if self.active.contains(&var) {
                self.active.insert(fresh);
            }
            new.insert(var, fresh);
        }
        let mut copy = branch.clone();
        rename_body(&mut copy, &new);
        Ok(copy)
    }
}

fn id(at: usize) -> VarId {
    VarId(u32::try_from(at).expect("ids are u32"))
}

fn bound_in(body: &Body, bound: &mut BTreeSet<VarId>) {
    for binding in body.bindings() {
        bound.insert(binding.var);
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            bound_in(then, bound);
            bound_in(otherwise, bound);
        }
    }
}

/// Whether a `match_cast` may bind symbolic variables here.
fn binds_dims(body: &Body) -> bool {
    body.bindings().any(|binding| match &binding.expr {
        Expr::MatchCast(..) => true,
        Expr::If { then, otherwise, .. } => binds_dims(then) || binds_dims(otherwise),
        _ => false,
    })
}

/// Operators whose result does not change, or is no float.
fn is_constant(expr: &Expr) -> bool {
    let Expr::Call { callee: Callee::Operator(name), .. } = expr else { return false };
    lookup(name).is_some_and(|row| matches!(adjoint(row), Some(Adjoint::Zero)))
}
