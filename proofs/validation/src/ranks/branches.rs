//! Control flow: branches that all ranks take alike, and checks of what each of them has whole.
//!
//! A rank chooses by a value that every rank has. Where one device chooses by the same value, each branch must be its branch in a
//! layout of the ranks. Where one device does not choose, both branches must give the same values in the same layouts: they are two
//! ways to compute them, of which one moves fewer bytes.

use super::{Comparison, Held, Shown};
use relax_semantics::ops::{Effect, Traps, is_of_ranks, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Relation};
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, VarId};
use relax_theorems::placement::calls::given;

/// What a branch of ranks gives, each field of a tuple.
pub(super) struct Given {
    pub(super) fields: Vec<Vec<Held>>,
    pub(super) is_tuple: bool,
}

impl<'a> Comparison<'a> {
    /// Finds what an `if` of the local program is.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn branches(
        &mut self,
        (var, condition): (VarId, &Atom),
        own: [&Body; 2],
        shown: &mut Vec<Shown>,
    ) -> Result<(), String> {
        self.ranks.has_no_check(Some(var))?;
        let Atom::Var(condition) = condition else {
            return Err("its condition is no variable".to_owned());
        };
        if let Some(stage) = self.stage_of(*condition) {
            return self.staged((var, &stage), own, shown);
        }
        let whole = self.held_whole(*condition);
        if whole.is_empty() && !self.alike.contains(condition) {
            return Err("not every rank is known to have the same condition".to_owned());
        }
        let mut last = Vec::new();
        let mut is_chosen = false;
        for at in 0..self.global.len() {
            let Binding { var: one, expr } = self.global[at];
            let Expr::If { condition: Atom::Var(wanted), then, otherwise } = expr else { continue };
            if !whole.contains(&self.root(*wanted)) {
                continue;
            }
            let mut parts = Vec::new();
            let both = [(own[0], then), (own[1], otherwise)].map(|(own, one)| {
                (self.branch(own, Some(one), &mut parts), given(one).unwrap_or_default())
            });
            let found = self.same_branches(*one, &both);
            if let Some(found) = found
                && parts.iter().all(|part| part.is.is_ok())
            {
                shown.append(&mut parts);
                self.gives(var, found, both[0].0.is_tuple);
                return Ok(());
            }
            is_chosen = true;
            last = parts;
        }
        if is_chosen {
            shown.append(&mut last);
            return Err("its branches are not known to give those of one device".to_owned());
        }
        let [then, otherwise] = own.map(|own| self.branch(own, None, shown));
        self.two_ways(var, then, &otherwise)
    }

    pub(super) fn gives(&mut self, var: VarId, mut fields: Vec<Vec<Held>>, is_tuple: bool) {
        if is_tuple {
            self.tuples.insert(var, fields);
        } else if !fields.is_empty() {
            self.held.insert(var, fields.swap_remove(0));
        }
    }

    /// The values of one device that a variable is, of which every rank has the whole.
    fn held_whole(&self, var: VarId) -> Vec<VarId> {
        let replicated = self.world.replicated();
        let whole = self.held(var).into_iter().filter(|(_, layout)| *layout == replicated);
        whole.map(|(value, _)| value).collect()
    }

    /// What a branch of ranks gives, whose values are those before the `if` and those of a branch of one device.
    pub(super) fn branch(
        &mut self,
        own: &Body,
        one: Option<&'a Body>,
        shown: &mut Vec<Shown>,
    ) -> Given {
        let outer = self.global.len();
        self.global.extend(one.iter().flat_map(|one| one.bindings()));
        self.find_roots(outer);
        self.facts.push();
        for binding in own.bindings() {
            self.bound(binding, shown);
        }
        self.facts.pop();
        self.global.truncate(outer);
        let each = |items: &[Atom]| items.iter().map(|item| self.held_atom(item)).collect();
        match &own.result {
            Atom::Tuple(items) => Given { fields: each(items), is_tuple: true },
            Atom::Var(var) => match self.tuples.get(var) {
                Some(fields) => Given { fields: fields.clone(), is_tuple: true },
                None => Given { fields: vec![self.held(*var)], is_tuple: false },
            },
            _ => Given { fields: Vec::new(), is_tuple: false },
        }
    }

    fn held_atom(&self, atom: &Atom) -> Vec<Held> {
        match atom {
            Atom::Var(var) => self.held(*var),
            _ => Vec::new(),
        }
    }

    /// What each field of an `if` is whose branches are those of an `if` of one device: the same field of both, in one layout.
    fn same_branches(
        &self,
        one: VarId,
        given: &[(Given, Vec<VarId>); 2],
    ) -> Option<Vec<Vec<Held>>> {
        let [(then, then_one), (otherwise, otherwise_one)] = given;
        let is_same = then.is_tuple == otherwise.is_tuple
            && then.fields.len() == otherwise.fields.len()
            && then_one.len() == otherwise_one.len();
        if !is_same {
            return None;
        }
        let field = |(then, otherwise): (&Vec<Held>, &Vec<Held>)| {
            let mut found = Vec::new();
            for (at, wanted) in then_one.iter().zip(otherwise_one).enumerate() {
                let (wanted, other) = (self.root(*wanted.0), self.root(*wanted.1));
                let both = then.iter().filter(|(value, layout)| {
                    *value == wanted && otherwise.contains(&(other, layout.clone()))
                });
                for (_, layout) in both {
                    let names = self.names_of(one, at);
                    found.extend(names.into_iter().map(|name| (name, layout.clone())));
                }
            }
            (!found.is_empty()).then_some(found)
        };
        then.fields.iter().zip(&otherwise.fields).map(field).collect()
    }

    /// The variables of one device that are a field of what an `if` gives, or the one that it is.
    fn names_of(&self, one: VarId, field: usize) -> Vec<VarId> {
        let is_it = |binding: &&&Binding| matches!(&binding.expr, Expr::Get(Atom::Var(of), at) if *of == one && *at == field);
        let taken = self.global.iter().filter(is_it).map(|binding| binding.var);
        let is_tuple = matches!(self.one.annotation(one), Some(Annotation::Tuple(_)));
        let whole = (!is_tuple && field == 0).then_some(one);
        whole.into_iter().chain(taken).collect()
    }

    /// What an `if` is where one device does not choose: what both branches are.
    fn two_ways(&mut self, var: VarId, then: Given, otherwise: &Given) -> Result<(), String> {
        if then.is_tuple != otherwise.is_tuple || then.fields.len() != otherwise.fields.len() {
            return Err("its branches give other results".to_owned());
        }
        let both = |(one, other): (Vec<Held>, &Vec<Held>)| {
            one.into_iter().filter(|held| other.contains(held)).collect::<Vec<Held>>()
        };
        let fields: Vec<Vec<Held>> =
            then.fields.into_iter().zip(&otherwise.fields).map(both).collect();
        if fields.is_empty() || fields.iter().any(Vec::is_empty) {
            return Err("its branches are not known to give the same values".to_owned());
        }
        self.gives(var, fields, then.is_tuple);
        Ok(())
    }

    /// What the items of a tuple are.
    ///
    /// # Errors
    /// Where one of them is not known.
    pub(super) fn tuple(&mut self, var: VarId, items: &[Atom]) -> Result<(), String> {
        self.ranks.has_no_check(Some(var))?;
        let fields: Vec<Vec<Held>> = items.iter().map(|item| self.held_atom(item)).collect();
        if fields.iter().any(Vec::is_empty) {
            return Err("no value of one device is known to be an item of it".to_owned());
        }
        self.tuples.insert(var, fields);
        Ok(())
    }

    /// A check of a tensor that every rank has whole: it stops all ranks where it stops one device, and binds the same dims.
    ///
    /// # Errors
    /// Where one device does not check the same.
    pub(super) fn checked(
        &mut self,
        var: VarId,
        of: VarId,
        annotation: &Annotation,
    ) -> Result<(), String> {
        match annotation {
            Annotation::Tensor(_) => {}
            // The entries of a shape may be negative, and a dim is an extent.
            Annotation::Shape(own) if self.binds_nothing(own) => {}
            _ => return Err("it checks what is no tensor, and may bind a dim".to_owned()),
        }
        let declared = self.ranks.declared(var);
        if declared.is_some_and(|declared| declared != annotation) {
            return Err("it is declared as something else than what is checked".to_owned());
        }
        let known = self.held(of);
        if !known.is_empty() && self.is_so(of, annotation) {
            self.held.insert(var, known);
            return Ok(());
        }
        let whole = self.held_whole(of);
        let mut found = Vec::new();
        for Binding { var: one, expr } in self.global.clone() {
            if let Expr::MatchCast(Atom::Var(of), wanted) = expr
                && wanted == annotation
                && whole.contains(&self.root(*of))
            {
                self.assume_equal(*of, annotation);
                found.push((*one, self.world.replicated()));
            }
        }
        if found.is_empty() {
            return Err("one device does not check this value so".to_owned());
        }
        self.held.insert(var, found);
        Ok(())
    }

    /// Where one device does not stop at a check, the dims of the value are those that are checked.
    fn assume_equal(&mut self, of: VarId, checked: &Annotation) {
        let dims = |annotation: &Annotation| match annotation {
            Annotation::Shape(extents) => extents.dims().map(<[Dim]>::to_vec),
            other => other.dims().map(<[Dim]>::to_vec),
        };
        let (Some(own), Some(checked)) = (self.one.annotation(of).and_then(dims), dims(checked))
        else {
            return;
        };
        for (own, checked) in own.into_iter().zip(checked) {
            self.facts.assume(Claim::new(own, Relation::Equal, checked));
        }
    }

    /// Whether all dims of a shape are told by the parameters.
    fn binds_nothing(&self, extents: &Extents) -> bool {
        let Ok(function) = self.one.function(&self.one.name) else { return false };
        let is_told = |name: &Name| function.dim(name).is_some_and(|dim| dim.in_signature);
        extents.dims().is_some_and(|dims| dims.iter().all(|dim| dim.vars_all(&is_told)))
    }

    /// Whether every rank computes the same by a binding, from what every rank has, and none stops at it.
    pub(super) fn is_alike(&mut self, binding: &Binding) -> bool {
        let is_same = match &binding.expr {
            Expr::Atom(atom) => self.is_alike_atom(atom),
            Expr::Call { args, attrs, .. } => args
                .iter()
                .chain(attrs.iter().map(|(_, atom)| atom))
                .all(|atom| self.is_alike_atom(atom)),
            _ => false,
        };
        is_same && self.never_stops(binding)
    }

    fn is_alike_atom(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Var(var) => self.alike.contains(var) || !self.held_whole(*var).is_empty(),
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().all(|item| self.is_alike_atom(item))
            }
            Atom::Dim(dim) => self.world.is_alike(dim),
            Atom::Shape(dims) => dims.iter().all(|dim| self.world.is_alike(dim)),
            Atom::Constant(_) | Atom::External(_) | Atom::Str(_) => true,
            _ => false,
        }
    }

    /// Whether no rank stops at a binding that is no collective, whatever dims are.
    pub(super) fn never_stops(&mut self, binding: &Binding) -> bool {
        let left = self.ranks.left.iter().filter(|(var, _)| *var == Some(binding.var));
        let left: Vec<Option<Claim>> = left.map(|(_, claim)| claim.clone()).collect();
        if !left.into_iter().all(|claim| claim.is_some_and(|claim| self.is_claim_proved(claim))) {
            return false;
        }
        match &binding.expr {
            Expr::Atom(atom) => self.has_values(atom),
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let computes = lookup(name).is_some_and(|row| {
                    !is_of_ranks(row) && row.effect == Effect::Pure && row.traps == Traps::Never
                });
                let mut all = args.iter().chain(attrs.iter().map(|(_, atom)| atom));
                computes && all.all(|atom| self.has_values(atom))
            }
            _ => false,
        }
    }

    /// Whether the dims in an argument have values, those of shapes at least 0.
    fn has_values(&mut self, atom: &Atom) -> bool {
        match atom {
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().all(|item| self.has_values(item))
            }
            Atom::Dim(dim) => self.has_value(dim),
            Atom::Shape(dims) => dims.iter().all(|dim| self.has_value(dim) && self.is_natural(dim)),
            Atom::Var(_) | Atom::Constant(_) | Atom::External(_) | Atom::Str(_) => true,
            _ => false,
        }
    }

    fn has_value(&mut self, dim: &Dim) -> bool {
        let Dim::Op(op, sides) = dim else { return true };
        let divides = matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv);
        self.has_value(&sides.0)
            && self.has_value(&sides.1)
            && (!divides || self.is_proved(Claim::new(1, Relation::AtMost, sides.1.clone())))
    }

    /// Whether a claim on dims that have values is proved.
    fn is_claim_proved(&mut self, claim: Claim) -> bool {
        let is_sign = claim.relation == Relation::AtMost && claim.left == Dim::Int(0);
        (is_sign && self.is_natural(&claim.right)) || self.is_proved(claim)
    }

    /// Whether a dim that has a value is at least 0.
    fn is_natural(&mut self, dim: &Dim) -> bool {
        self.is_proved(Claim::new(0, Relation::AtMost, dim.clone()))
            || match dim {
                Dim::Op(DimOp::Max, sides) => {
                    self.is_natural(&sides.0) || self.is_natural(&sides.1)
                }
                Dim::Op(op, sides) if *op != DimOp::Sub => {
                    self.is_natural(&sides.0) && self.is_natural(&sides.1)
                }
                _ => false,
            }
    }

    fn is_proved(&mut self, claim: Claim) -> bool {
        self.facts.decide(&claim) == Answer::Proved
    }
}
