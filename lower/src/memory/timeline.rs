//! Positions in the text of a function. A binding has one; an `if` has a second one after its
//! branches. A body is a scope; whatever stands in a branch ends, seen from around it, where the `if`
//! ends.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, VarId};
use std::collections::BTreeMap;

/// A place in the order of the text.
pub(crate) type Position = usize;

/// A body: that of the function is 0.
pub(crate) type ScopeId = usize;

/// A body, and what it is a branch of.
#[derive(Clone, Copy, Debug)]
struct Scope {
    /// `None` for the body of the function.
    branch: Option<Branch>,
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    around: ScopeId,
    /// The variable of the `if`.
    of: VarId,
    is_then: bool,
    /// The position after the `if`.
    end: Position,
}

/// The positions of a function.
#[derive(Debug)]
pub(crate) struct Timeline {
    scopes: Vec<Scope>,
    /// For each position its scope and the binding that stands or ends there.
    points: Vec<(ScopeId, VarId)>,
    /// The last position at which each variable is mentioned.
    last_uses: BTreeMap<VarId, Position>,
    /// Where each variable is bound: for an `if`, after it.
    bound: BTreeMap<VarId, Position>,
    /// Where a cast binds a symbolic variable.
    dims: BTreeMap<Name, Position>,
}

impl Timeline {
    /// Of a function with a body, `None` without one.
    pub(crate) fn of(function: &Function) -> Option<Self> {
        let body = function.lambda.body.as_ref()?;
        let mut timeline = Self {
            scopes: vec![Scope { branch: None }],
            points: Vec::new(),
            last_uses: BTreeMap::new(),
            bound: BTreeMap::new(),
            dims: BTreeMap::new(),
        };
        timeline.body(function, body, 0);
        let end = timeline.points.len();
        timeline.uses(&body.result, end);
        Some(timeline)
    }

    fn body(&mut self, function: &Function, body: &Body, scope: ScopeId) {
        for binding in body.bindings() {
            let position = self.points.len();
            self.points.push((scope, binding.var));
            self.bound.insert(binding.var, position);
            self.expr(function, binding, scope, position);
        }
    }

    fn expr(&mut self, function: &Function, binding: &Binding, scope: ScopeId, position: Position) {
        match &binding.expr {
            Expr::Atom(atom) | Expr::Get(atom, _) => self.uses(atom, position),
            Expr::MatchCast(atom, annotation) => {
                self.uses(atom, position);
                self.casts(function, annotation, position);
            }
            Expr::Call { callee, args, attrs } => {
                if let Callee::Var(var) = callee {
                    self.last_uses.insert(*var, position);
                }
                args.iter()
                    .chain(attrs.iter().map(|(_, a)| a))
                    .for_each(|a| self.uses(a, position));
            }
            Expr::If { condition, then, otherwise } => {
                self.uses(condition, position);
                let branches = [(then, true), (otherwise, false)].map(|(branch, is_then)| {
                    self.branch(function, branch, scope, binding.var, is_then)
                });
                let end = self.points.len();
                self.points.push((scope, binding.var));
                self.bound.insert(binding.var, end);
                for inner in branches {
                    if let Some(branch) = &mut self.scopes[inner].branch {
                        branch.end = end;
                    }
                }
            }
            Expr::Closure(lambda) => {
                if let Some(body) = &lambda.body {
                    let mut used = std::collections::BTreeSet::new();
                    relax_syntax::resolve::expr_uses(&binding.expr, &mut used);
                    used.into_iter().for_each(|var| _ = self.last_uses.insert(var, position));
                    self.uses(&body.result, position);
                }
            }
        }
    }

    fn branch(
        &mut self,
        function: &Function,
        body: &Body,
        around: ScopeId,
        of: VarId,
        is_then: bool,
    ) -> ScopeId {
        let scope = self.scopes.len();
        self.scopes.push(Scope { branch: Some(Branch { around, of, is_then, end: 0 }) });
        self.body(function, body, scope);
        // The value of a branch is used where the branch ends.
        let end = self.points.len();
        self.uses(&body.result, end);
        scope
    }

    fn uses(&mut self, atom: &Atom, position: Position) {
        match atom {
            Atom::Var(var) => {
                self.last_uses.insert(*var, position);
            }
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().for_each(|item| self.uses(item, position));
            }
            _ => {}
        }
    }

    fn casts(&mut self, function: &Function, annotation: &Annotation, position: Position) {
        annotation.visit_dims(&mut |dim| {
            dim.visit_vars(&mut |name| {
                if function.dim(name).is_some_and(|dim| !dim.in_signature) {
                    self.dims.entry(name.clone()).or_insert(position);
                }
            });
        });
    }

    /// The position after the last binding.
    pub(crate) fn end(&self) -> Position {
        self.points.len()
    }

    /// The last position at which a variable is mentioned, or that at which it is bound.
    pub(crate) fn last_use(&self, var: VarId) -> Position {
        self.last_uses.get(&var).copied().unwrap_or_else(|| self.bound(var))
    }

    /// Where a variable is bound; parameters are before everything.
    pub(crate) fn bound(&self, var: VarId) -> Position {
        self.bound.get(&var).copied().unwrap_or(0)
    }

    /// Where a cast binds a symbolic variable; `None` for those of the signature.
    pub(crate) fn dim_bound(&self, name: &Name) -> Option<Position> {
        self.dims.get(name).copied()
    }

    /// The scope of a position; after the last binding that of the function.
    pub(crate) fn scope(&self, position: Position) -> ScopeId {
        self.points.get(position).map_or(0, |(scope, _)| *scope)
    }

    /// The binding that stands or ends at a position.
    pub(crate) fn binding_at(&self, position: Position) -> Option<VarId> {
        self.points.get(position).map(|(_, var)| *var)
    }

    /// `position` as seen from `scope`: the end of what it stands in there; `None` when it is not in
    /// that scope.
    pub(crate) fn seen_from(&self, position: Position, scope: ScopeId) -> Option<Position> {
        let (mut at, mut position) = (self.scope(position), position);
        while at != scope {
            let branch = self.scopes[at].branch?;
            (at, position) = (branch.around, branch.end);
        }
        Some(position)
    }

    /// Whether two scopes are, or are in, different branches of one `if`: what is in one of them never
    /// happens together with what is in the other.
    pub(crate) fn exclude_each_other(&self, a: ScopeId, b: ScopeId) -> bool {
        let ours = self.branches(a);
        self.branches(b)
            .iter()
            .any(|(of, is_then)| ours.iter().any(|(o, side)| o == of && side != is_then))
    }

    fn branches(&self, scope: ScopeId) -> Vec<(VarId, bool)> {
        let (mut branches, mut at) = (Vec::new(), scope);
        while let Some(branch) = self.scopes[at].branch {
            branches.push((branch.of, branch.is_then));
            at = branch.around;
        }
        branches
    }
}
