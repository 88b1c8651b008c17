//! Pipeline stages of the local program: consecutive bindings of values that the same workers alone have are one branch, which those
//! workers take. The other branch gives values without rows.

use crate::branches::used_in;
use crate::layout::{Layout, stages, within_stages};
use crate::lower::Builder;
use crate::movement::Movement;
use crate::propagate::Step;
use crate::rewritten::{Names, blocks, bound};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, VarId};
use relax_syntax::span::Span;
use relax_theorems::placement::calls::{tensor, tensors};
use std::collections::{BTreeMap, BTreeSet};

/// The name of what a stage gives where that is several values.
const STAGE: &str = "stage";

/// A value in a layout.
type Key = (VarId, Layout);

/// A stage while it is written: the bindings and names of the builder are those of its workers meanwhile.
pub(crate) struct Stage {
    /// Axes of the mesh, each with the worker along it.
    workers: Vec<(usize, usize)>,
    /// The bindings and the names outside.
    outside: (Vec<Binding>, Names),
    /// The values whose names are those within the stage.
    entered: BTreeSet<Key>,
    /// The values that the stage makes.
    made: Vec<Key>,
}

impl Builder<'_> {
    /// Steps in order, of which these values are used later.
    pub(crate) fn steps(&mut self, steps: &[Step], later: &BTreeSet<VarId>, facts: &mut dyn Facts) {
        // What is used from each step on.
        let mut used = vec![later.clone()];
        for step in steps.iter().rev() {
            let mut own = used.last().cloned().unwrap_or_default();
            self.used_by(step, &mut own);
            used.push(own);
        }
        for (step, used) in steps.iter().zip(used.iter().rev()) {
            match step {
                Step::Same { var, of, layout } => {
                    self.name_again((*var, layout.clone()), &(*of, layout.clone()));
                }
                Step::Move { var, from, movements, .. } => {
                    self.moved((*var, from.clone()), movements, used);
                }
                Step::Bind { var, layout, .. } => {
                    let expr = bound(self.function, *var);
                    match expr {
                        Expr::Get(Atom::Var(of), _) if !self.is_within(&(*of, layout.clone())) => {
                            self.outside((*var, layout.clone()), |own| own.step(step, facts));
                        }
                        Expr::Atom(_) => {
                            self.outside((*var, layout.clone()), |own| own.step(step, facts));
                        }
                        _ => {
                            self.stage_of(&self.stages_of(layout), used);
                            self.entered(step);
                            self.step(step, facts);
                            self.made((*var, layout.clone()));
                        }
                    }
                }
                Step::If { .. } => {
                    self.stage_of(&[], used);
                    self.step(step, facts);
                }
            }
        }
        self.stage_of(&[], later);
    }

    fn used_by(&self, step: &Step, found: &mut BTreeSet<VarId>) {
        match step {
            Step::Same { of, .. } => _ = found.insert(*of),
            Step::Move { var, .. } => _ = found.insert(*var),
            Step::Bind { var, .. } => used_in(bound(self.function, *var), found),
            Step::If { condition, branches, .. } => {
                found.insert(*condition);
                for branch in branches.iter() {
                    branch.steps.iter().for_each(|step| self.used_by(step, found));
                    found.extend(branch.results.iter().copied());
                }
            }
        }
    }

    /// Whether the stage that is written made a value.
    fn is_within(&self, key: &Key) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.made.contains(key))
    }

    fn name_again(&mut self, key: Key, of: &Key) {
        let own = self.names[of];
        self.names.insert(key.clone(), own);
        let Some(stage) = &mut self.stage else { return };
        if stage.made.contains(of) {
            stage.made.push(key.clone());
        }
        if stage.entered.contains(of) {
            stage.entered.insert(key.clone());
        }
        if let Some(outside) = stage.outside.1.get(of).copied() {
            stage.outside.1.insert(key, outside);
        }
    }

    /// Writes before the stage, if there is one, what names a value there.
    fn outside(&mut self, key: Key, write: impl FnOnce(&mut Self)) {
        let Some(mut stage) = self.stage.take() else { return write(self) };
        std::mem::swap(&mut stage.outside.0, &mut self.bindings);
        std::mem::swap(&mut stage.outside.1, &mut self.names);
        write(self);
        let own = self.names[&key];
        std::mem::swap(&mut stage.outside.0, &mut self.bindings);
        std::mem::swap(&mut stage.outside.1, &mut self.names);
        self.names.insert(key, own);
        self.stage = Some(stage);
    }

    fn moved(&mut self, (var, from): Key, movements: &[Movement], used: &BTreeSet<VarId>) {
        let mut own = self.names[&(var, from.clone())];
        let mut key = (var, from);
        for (at, movement) in movements.iter().enumerate() {
            let mut around = self.stages_of(&movement.after);
            around.retain(|(axis, _)| *axis != movement.mesh_dim);
            self.stage_of(&around, used);
            if !stages(&key.1).is_empty() {
                self.enter(&key);
                own = self.names[&key];
            }
            own = self.movement(var, own, movement);
            key = (var, movement.after.clone());
            if at + 1 == movements.len() || !stages(&key.1).is_empty() {
                self.names.insert(key.clone(), own);
                self.made(key.clone());
            }
        }
    }

    /// The stages of a layout; of one worker alone there is nobody else.
    fn stages_of(&self, layout: &Layout) -> Vec<(usize, usize)> {
        let mut found = stages(layout);
        found.retain(|(axis, _)| self.axes.workers[*axis].as_int() != Some(1));
        found
    }

    /// Ends the stage that is written, of which these values are used later, unless it is the one of these workers, and begins that.
    fn stage_of(&mut self, workers: &[(usize, usize)], later: &BTreeSet<VarId>) {
        if self.stage.as_ref().map_or(&[][..], |stage| &stage.workers) == workers {
            return;
        }
        self.end_stage(later);
        if !workers.is_empty() {
            let outside = (std::mem::take(&mut self.bindings), self.names.clone());
            let (workers, entered, made) = (workers.to_vec(), BTreeSet::new(), Vec::new());
            self.stage = Some(Stage { workers, outside, entered, made });
        }
    }

    fn made(&mut self, key: Key) {
        if let Some(stage) = &mut self.stage {
            stage.entered.insert(key.clone());
            stage.made.push(key);
        }
    }

    /// Gives the operands of a binding the dims that they have within the stage.
    fn entered(&mut self, step: &Step) {
        let (Some(_), Step::Bind { var, operands, .. }) = (&self.stage, step) else { return };
        let mut vars = BTreeSet::new();
        used_in(bound(self.function, *var), &mut vars);
        for var in vars {
            for layout in operands {
                self.enter(&(var, layout.clone()));
            }
        }
    }

    /// Gives a value the dims that it has within the stage: a worker of it has all rows.
    fn enter(&mut self, key: &Key) {
        let Some(stage) = &self.stage else { return };
        let (Some(own), false) = (self.names.get(key), stage.entered.contains(key)) else { return };
        let (own, layout) = (*own, &key.1);
        if !stages(layout).is_empty() {
            let entered = self.cast(key.0, own, &self.within(layout));
            self.names.insert(key.clone(), entered);
        }
        if let Some(stage) = &mut self.stage {
            stage.entered.insert(key.clone());
        }
    }

    /// A layout as the workers of the stage have it.
    fn within(&self, layout: &Layout) -> Layout {
        let Some(stage) = &self.stage else { return layout.clone() };
        let mut own = within_stages(layout);
        for (axis, placement) in own.iter_mut().enumerate() {
            if stage.workers.iter().all(|(stage, _)| *stage != axis) {
                *placement = layout[axis];
            }
        }
        own
    }

    /// A value with the dims of a layout, which it has.
    fn cast(&mut self, var: VarId, own: VarId, layout: &Layout) -> VarId {
        let info = self.function.var(var);
        match &info.annotation {
            Some(annotation) if annotation.dims().is_some_and(|dims| !dims.is_empty()) => {
                let local = self.annotation(annotation, Some(layout));
                self.bind(&info.name, Expr::MatchCast(Atom::Var(own), local), info.span)
            }
            _ => own,
        }
    }

    /// Ends the stage that is written, of which these values are used later.
    fn end_stage(&mut self, later: &BTreeSet<VarId>) {
        let Some(stage) = self.stage.take() else { return };
        let mut given: Vec<&Key> =
            stage.made.iter().filter(|(var, _)| later.contains(var)).collect();
        // Its workers may stop in what nobody uses.
        if given.is_empty() {
            given.extend(stage.made.last());
        }
        let mut each: BTreeMap<VarId, &Key> = BTreeMap::new();
        for key in &given {
            each.entry(self.names[*key]).or_insert(*key);
        }
        let fields: Vec<(VarId, &Key, Option<usize>)> =
            each.iter().flat_map(|(own, key)| self.fields(*own, key)).collect();
        let name = match &fields[..] {
            [(_, (var, _), _)] => self.unused(&self.function.var(*var).name),
            _ => self.unused(STAGE),
        };
        let leaving = fields.iter().map(|(own, key, field)| self.leaving(*own, key, *field));
        let leaving = leaving.collect();
        let then = self.giving(&name, leaving);
        let without = fields.iter().map(|(_, key, field)| self.without_rows(key, *field)).collect();
        let otherwise = self.giving(&name, without);
        let inside = std::mem::replace(&mut self.names, stage.outside.1);
        self.bindings = stage.outside.0;
        let condition = Atom::Var(self.is_worker(&stage.workers));
        let all = self.bind_as(&name, Expr::If { condition, then, otherwise }, Span::default());
        let several = fields.len() != 1;
        let mut number = 0..;
        for (own, key) in &each {
            let info = self.function.var(key.0);
            let count = fields.iter().filter(|(other, ..)| other == own).count();
            let parts: Vec<VarId> = number
                .by_ref()
                .take(count)
                .map(|at| match several {
                    true => self.bind(&info.name.clone(), Expr::Get(Atom::Var(all), at), info.span),
                    false => all,
                })
                .collect();
            let outside = match (&info.annotation, &parts[..]) {
                (Some(Annotation::Tuple(_)), parts) => {
                    let tuple = Atom::Tuple(parts.iter().copied().map(Atom::Var).collect());
                    self.bind(&info.name.clone(), Expr::Atom(tuple), info.span)
                }
                (_, parts) => parts[0],
            };
            let same = given.iter().filter(|key| inside[**key] == *own);
            for key in same {
                self.names.insert((*key).clone(), outside);
            }
        }
    }

    /// The bindings so far as a branch that gives these under a name: one value, or a tuple.
    fn giving(&mut self, name: &Name, mut values: Vec<Expr>) -> Body {
        let value = if values.len() == 1 {
            values.swap_remove(0)
        } else {
            let bound = |value| Atom::Var(self.bind(name, value, Span::default()));
            Expr::Atom(Atom::Tuple(values.into_iter().map(bound).collect()))
        };
        let result = Atom::Var(self.bind_as(name, value, Span::default()));
        Body { blocks: blocks(std::mem::take(&mut self.bindings)), result }
    }

    /// The tensors of a value, each with its number where it is a field.
    fn fields<'k>(&self, own: VarId, key: &'k Key) -> Vec<(VarId, &'k Key, Option<usize>)> {
        match &self.function.var(key.0).annotation {
            Some(Annotation::Tuple(fields)) => {
                (0..fields.len()).map(|at| (own, key, Some(at))).collect()
            }
            _ => vec![(own, key, None)],
        }
    }

    /// Dims and dtype of a tensor of a value outside of the stage.
    fn outer(&self, (var, layout): &Key, field: Option<usize>) -> (Vec<Dim>, DType) {
        let annotation = self.function.var(*var).annotation.as_ref();
        let each = annotation.and_then(|own| match field {
            Some(_) => tensors(own),
            None => tensor(own).map(|own| vec![own]),
        });
        let (dims, dtype) = each
            .map(|mut each| each.swap_remove(field.unwrap_or(0)))
            .expect("invariant: dims and dtype of a planned value are known");
        (self.axes.local(&dims, layout), dtype)
    }

    /// A tensor of the stage with the dims that it has outside.
    fn leaving(&mut self, own: VarId, key: &Key, field: Option<usize>) -> Expr {
        let info = self.function.var(key.0);
        let (dims, dtype) = self.outer(key, field);
        let of_field = |at| Expr::Get(Atom::Var(own), at);
        if dims.is_empty() {
            return field.map_or(Expr::Atom(Atom::Var(own)), of_field);
        }
        let own = match field {
            Some(at) => self.bind(&info.name, of_field(at), info.span),
            None => own,
        };
        Expr::MatchCast(Atom::Var(own), Annotation::tensor(dims, dtype))
    }

    /// The same on a worker that is not of the stage.
    fn without_rows(&self, key: &Key, field: Option<usize>) -> Expr {
        let (dims, dtype) = self.outer(key, field);
        let args = vec![Atom::Shape(dims), Atom::Str(dtype.name().into())];
        let callee = Callee::Operator("zeros".into());
        Expr::Call { callee, args, attrs: Vec::new() }
    }

    /// Whether this worker is the one of each axis.
    fn is_worker(&mut self, workers: &[(usize, usize)]) -> VarId {
        let call = |name: &str, args: Vec<Atom>| Expr::Call {
            callee: Callee::Operator(name.into()),
            args,
            attrs: Vec::new(),
        };
        let each: Vec<VarId> = workers
            .iter()
            .map(|&(axis, stage)| {
                let stage = i64::try_from(stage).unwrap_or(i64::MAX);
                let scalar = |value: Dim| {
                    call(
                        "full",
                        vec![Atom::Shape(Vec::new()), Atom::Dim(value), Atom::Str("i64".into())],
                    )
                };
                let rank = self.bind("rank", scalar(self.axes.rank(axis)), Span::default());
                let own = self.bind("number", scalar(Dim::Int(stage)), Span::default());
                let is_own = call("equal", vec![Atom::Var(rank), Atom::Var(own)]);
                self.bind("is_stage", is_own, Span::default())
            })
            .collect();
        each.into_iter()
            .reduce(|all, own| {
                let both = call("logical_and", vec![Atom::Var(all), Atom::Var(own)]);
                self.bind("is_stage", both, Span::default())
            })
            .expect("invariant: a stage has a worker")
    }
}
