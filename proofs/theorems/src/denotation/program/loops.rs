//! What a loop does as a whole, from what one iteration does.
//!
//! The iteration is run with what buffers hold before it as names. Then, buffer by buffer: if an index that
//! tells the iteration is in all that is written, no other iteration writes there, and the names stand for
//! what was there before the loop. If no index tells it, all iterations write the same elements, each from
//! what the one before left: a fold. It is the same loop that an element may be read from on its way
//! (a running sum): then the fold is over the iterations so far.

use super::access::Map;
use super::folding::{Recurrence, iterated, peeled};
use super::region::{Content, Range, Reader, Region, linear};
use super::scalar::replaced;
use super::{Frame, Machine, Scalar};
use crate::denotation::fuel;
use crate::denotation::ranges::assume_index;
use crate::denotation::term::{Domain, Known, Term, Test, mentions, unknown};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BufferId, Stmt, StmtKind};
use std::collections::BTreeMap;

/// How the iterations of a loop share a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sharing {
    /// The axis whose index tells the iteration; none where there is one region, whose inverse does.
    Apart(Option<usize>),
    /// All write the same elements.
    Folded,
}

/// A buffer that a loop writes.
struct Shared {
    /// The name of what it holds before an iteration.
    before: Name,
    /// What it holds before the loop.
    saved: Content,
    /// What an iteration writes.
    writes: Vec<Region>,
    sharing: Sharing,
    shape: Vec<Dim>,
}

impl Machine<'_> {
    /// Runs loops around a body, the first outermost.
    pub(super) fn repeat(&mut self, frames: &[Frame], body: &[Stmt]) -> Known<()> {
        let Some((frame, rest)) = frames.split_first() else { return self.body(body) };
        if frame.is_single() {
            // One iteration is its body alone.
            self.scalars[frame.var.0 as usize] = Some(Scalar(Term::Extent(frame.start.clone())));
            return self.repeat(rest, body);
        }
        let mut saved: BTreeMap<BufferId, (Name, Content)> = BTreeMap::new();
        for id in stored(body) {
            let before = self.fresh("before");
            let own = &mut self.contents[id.0 as usize];
            let content = std::mem::replace(own, Content::input(before.clone()));
            saved.insert(id, (before, content));
        }
        self.facts.push();
        let var = Dim::Var(frame.name.clone());
        self.scalars[frame.var.0 as usize] = Some(Scalar(Term::Extent(var.clone())));
        if frame.start == Dim::Int(0) {
            assume_index(&(frame.name.clone(), frame.stop.clone()), &mut *self.facts);
        } else {
            self.facts.assume(Claim::new(frame.start.clone(), Relation::AtMost, var.clone()));
            self.facts.assume(Claim::new(var, Relation::Less, frame.stop.clone()));
        }
        self.frames.push(frame.clone());
        let done = self.repeat(rest, body);
        self.frames.pop();
        let done = done.and_then(|()| self.summarized(frame, saved));
        self.facts.pop();
        for (id, content) in done? {
            self.contents[id.0 as usize] = content;
        }
        Ok(())
    }

    /// What the buffers hold after the loop.
    fn summarized(
        &mut self,
        frame: &Frame,
        saved: BTreeMap<BufferId, (Name, Content)>,
    ) -> Known<Vec<(BufferId, Content)>> {
        let mut all = BTreeMap::new();
        for (id, (before, content)) in saved {
            let writes = std::mem::take(&mut self.contents[id.0 as usize].writes);
            let shape = self.shape(id);
            let sharing = self.sharing(frame, &writes, &shape)?;
            all.insert(id, Shared { before, saved: content, writes, sharing, shape });
        }
        let mut results = Vec::new();
        for (id, shared) in &all {
            let mut content = shared.saved.clone();
            for region in &shared.writes {
                content.write(match shared.sharing {
                    Sharing::Apart(_) => {
                        let value = self.within(&region.binders, |own| {
                            own.resolved(frame, &all, &region.value)
                        })?;
                        let mut binders =
                            vec![(frame.name.clone(), frame.start.clone(), frame.stop.clone())];
                        binders.extend(region.binders.clone());
                        Region { binders, index: region.index.clone(), value }
                    }
                    Sharing::Folded => {
                        let at = region.index.clone();
                        let value = self.within(&region.binders, |own| {
                            own.folded(frame, &all, *id, &at, &frame.stop)
                        })?;
                        Region { binders: region.binders.clone(), index: at, value }
                    }
                });
            }
            results.push((*id, content));
        }
        Ok(results)
    }

    pub(super) fn within<T>(
        &mut self,
        binders: &[Range],
        run: impl FnOnce(&mut Self) -> Known<T>,
    ) -> Known<T> {
        self.facts.push();
        for (name, start, stop) in binders {
            let var = Dim::Var(name.clone());
            self.facts.assume(Claim::new(start.clone(), Relation::AtMost, var.clone()));
            self.facts.assume(Claim::new(var, Relation::Less, stop.clone()));
        }
        let result = run(self);
        self.facts.pop();
        result
    }

    fn sharing(&mut self, frame: &Frame, writes: &[Region], shape: &[Dim]) -> Known<Sharing> {
        let own = |dim: &Dim| mentions(dim, &|name| *name == frame.name);
        let tells = |region: &Region| {
            region.index.iter().any(own)
                || region.binders.iter().any(|(_, start, stop)| own(start) || own(stop))
        };
        if !writes.iter().any(tells) {
            return if writes.len() <= 1 {
                Ok(Sharing::Folded)
            } else {
                unknown("several stores to elements that all iterations write")
            };
        }
        // One axis whose index is the same in all that is written, and tells the iteration alone.
        let first = &writes[0];
        for (axis, index) in first.index.iter().enumerate() {
            let alone = |region: &Region| {
                let inner = |name: &Name| region.binders.iter().any(|(own, ..)| own == name);
                region.index[axis] == *index && !mentions(&region.index[axis], &inner)
            };
            let solved = matches!(linear(index, &frame.name), Some((count, _)) if count != 0);
            if solved && writes.iter().all(alone) {
                return Ok(Sharing::Apart(Some(axis)));
            }
        }
        if let [region] = writes {
            let mut binders = vec![(frame.name.clone(), frame.start.clone(), frame.stop.clone())];
            binders.extend(region.binders.clone());
            let whole = Region { binders, ..region.clone() };
            let at: Vec<Dim> = shape.iter().map(|_| Dim::Var(self.fresh("y"))).collect();
            let mut reader = Reader { facts: &mut *self.facts, fresh: &mut *self.fresh };
            if reader.inverse(&whole, shape, &at).is_some() {
                return Ok(Sharing::Apart(None));
            }
        }
        unknown("iterations that may write the same element")
    }

    /// A value of an iteration, without names for what buffers hold before it.
    fn resolved(
        &mut self,
        frame: &Frame,
        all: &BTreeMap<BufferId, Shared>,
        term: &Term,
    ) -> Known<Term> {
        mapped(term, &mut |name, at| {
            let Some((id, shared)) = all.iter().find(|(_, shared)| shared.before == *name) else {
                return Ok(None);
            };
            match shared.sharing {
                Sharing::Apart(axis) => self.untouched(shared, axis, at).map(Some),
                Sharing::Folded => {
                    let stop = Dim::Var(frame.name.clone());
                    self.folded(frame, all, *id, at, &stop).map(Some)
                }
            }
        })
    }

    /// An element that only this iteration writes, as it was before the loop.
    fn untouched(&mut self, shared: &Shared, axis: Option<usize>, at: &[Dim]) -> Known<Term> {
        let own = match axis {
            Some(axis) => {
                let index = &shared.writes[0].index[axis];
                let here = &at[axis];
                here == index
                    || self.proves(&Claim::new(here.clone(), Relation::Equal, index.clone()))
            }
            None => shared.writes[0].index == at,
        };
        if !own {
            return unknown("an iteration reads what another one may have written");
        }
        let mut reader = Reader { facts: &mut *self.facts, fresh: &mut *self.fresh };
        reader.read(&shared.saved, &shared.shape, at)
    }

    /// An element that all iterations write, after those before `stop`.
    fn folded(
        &mut self,
        frame: &Frame,
        all: &BTreeMap<BufferId, Shared>,
        id: BufferId,
        at: &[Dim],
        stop: &Dim,
    ) -> Known<Term> {
        let mut states: Vec<(BufferId, Vec<Dim>)> = vec![(id, at.to_vec())];
        let mut steps = Vec::new();
        while steps.len() < states.len() {
            let (id, at) = states[steps.len()].clone();
            let value = self.step_at(&all[&id], &at)?;
            let step = mapped(&value, &mut |name, place| {
                let Some((id, shared)) = all.iter().find(|(_, own)| own.before == *name) else {
                    return Ok(None);
                };
                match shared.sharing {
                    Sharing::Apart(axis) => self.untouched(shared, axis, place).map(Some),
                    Sharing::Folded => {
                        let found = states
                            .iter()
                            .position(|(other, at)| other == id && at.as_slice() == place);
                        let position = found.unwrap_or_else(|| {
                            states.push((*id, place.to_vec()));
                            states.len() - 1
                        });
                        Ok(Some(state(position)))
                    }
                }
            })?;
            steps.push(step);
            if states.len() > 4 {
                return unknown("a loop with much of a state");
            }
        }
        let mut inits = Vec::new();
        for (id, at) in &states {
            let shared = &all[id];
            let mut reader = Reader { facts: &mut *self.facts, fresh: &mut *self.fresh };
            inits.push(reader.read(&shared.saved, &shared.shape, at)?);
        }
        self.recurrence(frame, id, steps, inits, stop)
    }

    fn recurrence(
        &mut self,
        frame: &Frame,
        id: BufferId,
        mut steps: Vec<Term>,
        mut inits: Vec<Term>,
        stop: &Dim,
    ) -> Known<Term> {
        let some = Claim::new(frame.start.clone(), Relation::Less, stop.clone());
        let first = [(frame.name.clone(), frame.start.clone())].into();
        for at in 0..steps.len() {
            let Some((step, init)) = peeled(&steps[at], &state(at), &frame.name, &frame.start)
            else {
                continue;
            };
            let init = mapped_scalars(&init.substitute(&first), &inits)?;
            let old = inits[at].clone();
            inits[at] =
                if self.proves(&some) { init } else { Term::choose(some.clone(), init, old) };
            steps[at] = step;
        }
        // From 0 on, under a name of its own: the loop's own variable may be in use around.
        let name = self.fresh("k");
        let var = Dim::op(DimOp::Add, Dim::Var(name.clone()), frame.start.clone());
        let map = Map::from([(frame.name.clone(), var)]);
        let steps = steps.iter().map(|step| step.substitute(&map)).collect();
        let extent = Dim::op(DimOp::Sub, stop.clone(), frame.start.clone());
        let dtype = self.program.buffer(id).dtype;
        let recurrence = Recurrence { dtype, inits, steps, binders: vec![(name, extent)] };
        iterated(recurrence, &mut *self.facts)
    }

    /// What an iteration writes at a place.
    fn step_at(&mut self, shared: &Shared, at: &[Dim]) -> Known<Term> {
        let [region] = shared.writes.as_slice() else {
            return unknown("an element that is not written in each iteration");
        };
        if region.index == at {
            return Ok(region.value.clone());
        }
        let mut reader = Reader { facts: &mut *self.facts, fresh: &mut *self.fresh };
        let Some(values) = reader.inverse(region, &shared.shape, at) else {
            return unknown("a place cannot be told from what is written there");
        };
        let mut claims = Vec::new();
        for (name, start, stop) in &region.binders {
            let value = values[name].clone();
            claims.push(Claim::new(start.clone(), Relation::AtMost, value.clone()));
            claims.push(Claim::new(value, Relation::Less, stop.clone()));
        }
        for (index, at) in region.index.iter().zip(at) {
            claims.push(Claim::new(at.clone(), Relation::Equal, index.substitute(&values)));
        }
        if !claims.iter().all(|claim| self.proves(claim)) {
            return unknown("an element that is not written in each iteration");
        }
        Ok(region.value.substitute(&values))
    }
}

/// What stands for the value of a state before an iteration.
pub(crate) fn state(at: usize) -> Term {
    Term::Scalar(format!("state#{at}").into())
}

/// With initial values for states.
fn mapped_scalars(term: &Term, inits: &[Term]) -> Known<Term> {
    let position = |term: &Term| (0..inits.len()).find(|&at| *term == state(at));
    rebuilt(term, &mut |term| Ok(position(term).map(|at| inits[at].clone())))
}

/// What stands in the place of a read, if anything does.
type Replace<'r> = dyn FnMut(&Name, &[Dim]) -> Known<Option<Term>> + 'r;

/// A term with others in the place of some reads.
fn mapped(term: &Term, replace: &mut Replace) -> Known<Term> {
    rebuilt(term, &mut |term| match term {
        Term::Read(name, at) => replace(name, at),
        _ => Ok(None),
    })
}

/// A term with parts of it replaced, outer ones first.
pub(crate) fn rebuilt(
    term: &Term,
    replace: &mut dyn FnMut(&Term) -> Known<Option<Term>>,
) -> Known<Term> {
    fuel::spend(1)?;
    if let Some(other) = replace(term)? {
        return Ok(other);
    }
    let mut inner = |term: &Term| rebuilt(term, replace);
    Ok(match term {
        Term::Read(..) | Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => term.clone(),
        Term::Apply(domain, name, args) => {
            let others = args.iter().map(inner).collect::<Known<Vec<_>>>()?;
            // A function of real numbers is the same for numbers of every dtype.
            let name = match domain {
                Domain::Real => name.clone(),
                _ => replaced(name, args, &others, || None)?,
            };
            Term::Apply(*domain, name, others)
        }
        Term::If(test, then, otherwise) => {
            let test = match test {
                Test::Dims(_) => test.clone(),
                Test::Element(term) => Test::Element(Box::new(inner(term)?)),
            };
            Term::If(test, Box::new(inner(then)?), Box::new(inner(otherwise)?))
        }
        Term::Fold(domain, op, binders, body) => {
            Term::Fold(*domain, op.clone(), binders.clone(), Box::new(inner(body)?))
        }
        Term::Lookup(index, binder, body) => {
            Term::Lookup(Box::new(inner(index)?), binder.clone(), Box::new(inner(body)?))
        }
    })
}

/// The buffers that statements store to, but for those that they allocate.
pub(super) fn stored(body: &[Stmt]) -> Vec<BufferId> {
    let mut found = Vec::new();
    note_stored(body, &mut found);
    found
}

fn note_stored(body: &[Stmt], found: &mut Vec<BufferId>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Store { buffer, .. } => {
                if !found.contains(buffer) {
                    found.push(*buffer);
                }
            }
            StmtKind::For { body, .. } => note_stored(body, found),
            StmtKind::Block { init, body, .. } => {
                note_stored(init, found);
                note_stored(body, found);
            }
            StmtKind::If { then, otherwise, .. } => {
                note_stored(then, found);
                note_stored(otherwise, found);
            }
            StmtKind::Let { .. } | StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => {}
        }
    }
    let own = |id: &BufferId| body.iter().any(|stmt| stmt.kind == StmtKind::Alloc(*id));
    found.retain(|id| !own(id));
}
