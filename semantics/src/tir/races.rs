//! Data races: two iterations that may run at the same time touch one element, one of them writes,
//! and no barrier lies between.
//!
//! Every iteration of a concurrent loop is a node of a tree; an access carries the node it happens
//! in. Of two accesses the paths part at some node: within one loop instance their iterations may
//! run at the same time (unless they are threads with a barrier in between), else program order
//! separates them. An element remembers its last write and enough of the reads since.

use super::code::{LoopInfo, Pc};
use super::compile::Compiled;
use super::machine::element;
use crate::stop::Stop;

/// A position in the tree of iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(u32);

impl Node {
    /// Outside of every concurrent loop.
    pub(super) const ROOT: Node = Node(0);
}

/// One read or write.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) node: Node,
    pub(super) pc: Pc,
    pub(super) write: bool,
}

struct Iteration {
    parent: u32,
    depth: u32,
    /// One number for each time a loop is entered.
    instance: u32,
    /// Which loop.
    info: u32,
    value: i64,
}

#[derive(Clone, Copy)]
struct Seen {
    access: Access,
    /// How many barriers were passed before.
    epoch: u32,
}

#[derive(Clone, Default)]
struct Element {
    /// Accesses of an earlier tree are forgotten.
    generation: u32,
    write: Option<Seen>,
    reads: Vec<Seen>,
}

/// What is remembered of a run.
pub(super) struct Races {
    tree: Vec<Iteration>,
    instances: u32,
    epoch: u32,
    generation: u32,
    /// One a storage.
    elements: Vec<Vec<Element>>,
    lengths: Vec<usize>,
}

/// Where two paths part: the iterations of one loop.
struct Parting {
    a: u32,
    b: u32,
}

impl Races {
    pub(super) fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let lengths: Vec<usize> = lengths.collect();
        let mut races = Self {
            tree: Vec::new(),
            instances: 0,
            epoch: 0,
            generation: 1,
            elements: vec![Vec::new(); lengths.len()],
            lengths,
        };
        races.plant();
        races
    }

    fn plant(&mut self) {
        self.tree.clear();
        self.tree.push(Iteration { parent: 0, depth: 0, instance: 0, info: 0, value: 0 });
    }

    /// A fresh storage.
    pub(super) fn forget(&mut self, handle: u32, length: usize) {
        let handle = handle as usize;
        if handle >= self.elements.len() {
            self.elements.resize_with(handle + 1, Vec::new);
            self.lengths.resize(handle + 1, 0);
        }
        self.elements[handle].clear();
        self.lengths[handle] = length;
    }

    fn child(&mut self, parent: u32, instance: u32, info: u32, value: i64) -> Node {
        let depth = self.tree[parent as usize].depth + 1;
        self.tree.push(Iteration { parent, depth, instance, info, value });
        Node(super::compile::index(self.tree.len() - 1))
    }

    /// The first iteration of a loop.
    pub(super) fn enter(&mut self, path: Node, info: u32, value: i64) -> Node {
        self.instances += 1;
        self.child(path.0, self.instances, info, value)
    }

    /// The next iteration of the innermost loop, or what is around it.
    pub(super) fn next(&mut self, path: Node, value: Option<i64>) -> Node {
        let Iteration { parent, instance, info, .. } = self.tree[path.0 as usize];
        match value {
            Some(value) => self.child(parent, instance, info, value),
            None => {
                if parent == Node::ROOT.0 {
                    // Whatever comes is ordered after all that was.
                    self.generation += 1;
                    self.plant();
                }
                Node(parent)
            }
        }
    }

    /// All threads have reached a barrier.
    pub(super) fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// Records an access.
    pub(super) fn access(
        &mut self,
        code: &Compiled,
        (buffer, handle): (u32, u32),
        position: usize,
        access: Access,
        indices: impl Fn() -> Vec<i64>,
    ) -> Result<(), Stop> {
        // Outside of concurrent loops nothing races, and nothing before matters later.
        if access.node == Node::ROOT {
            return Ok(());
        }
        let mut known = self.take(handle, position);
        let seen = Seen { access, epoch: self.epoch };
        let reads = if access.write { &known.reads[..] } else { &[] };
        let other = known.write.iter().chain(reads).find_map(|earlier| {
            self.concurrent(&code.loops, *earlier, seen).map(|parting| (*earlier, parting))
        });
        if let Some((earlier, parting)) = other {
            let name = &code.program.buffers[buffer as usize].name;
            return Err(self.report(code, &element(name, &indices()), earlier, access, &parting));
        }
        if access.write {
            known.write = Some(seen);
            known.reads.clear();
        } else {
            self.add_read(&code.loops, &mut known.reads, seen);
        }
        self.elements[handle as usize][position] = known;
        Ok(())
    }

    fn take(&mut self, handle: u32, position: usize) -> Element {
        let length = self.lengths[handle as usize];
        let elements = &mut self.elements[handle as usize];
        if elements.is_empty() {
            elements.resize_with(length, Element::default);
        }
        let mut known = std::mem::take(&mut elements[position]);
        if known.generation != self.generation {
            known = Element { generation: self.generation, ..Element::default() };
        }
        known
    }

    /// Two iterations of one loop instance in which the accesses happen, if there are.
    fn parting(&self, a: Node, b: Node) -> Option<Parting> {
        let (mut a, mut b) = (a.0, b.0);
        let at = |node: u32| &self.tree[node as usize];
        let (mut below_a, mut below_b) = (a, b);
        while at(a).depth > at(b).depth {
            (below_a, a) = (a, at(a).parent);
        }
        while at(b).depth > at(a).depth {
            (below_b, b) = (b, at(b).parent);
        }
        if a == b {
            return None;
        }
        while a != b {
            (below_a, a) = (a, at(a).parent);
            (below_b, b) = (b, at(b).parent);
        }
        let same = at(below_a).instance == at(below_b).instance;
        same.then_some(Parting { a: below_a, b: below_b })
    }

    fn threads(&self, loops: &[LoopInfo], parting: &Parting) -> bool {
        loops[self.tree[parting.a as usize].info as usize].threads
    }

    /// Where two accesses part, if nothing orders them.
    fn concurrent(&self, loops: &[LoopInfo], a: Seen, b: Seen) -> Option<Parting> {
        let parting = self.parting(a.access.node, b.access.node)?;
        let separated = self.threads(loops, &parting) && a.epoch != b.epoch;
        (!separated).then_some(parting)
    }

    /// Remembers a read, unless any later write that races with it also races with a read that is
    /// remembered already: that is so when two others part from it and from each other at the same
    /// loop. A read before a barrier gives way to one of the same thread block after it.
    fn add_read(&self, loops: &[LoopInfo], reads: &mut Vec<Seen>, new: Seen) {
        if reads.iter().any(|old| old.access.node == new.access.node && old.epoch == new.epoch) {
            return;
        }
        reads.retain(|old| {
            if old.epoch == new.epoch {
                return true;
            }
            let parting = self.parting(old.access.node, new.access.node);
            let within = parting.is_some_and(|parting| self.threads(loops, &parting));
            !within && old.access.node != new.access.node
        });
        let partings = reads.iter().filter_map(|old| {
            self.concurrent(loops, *old, new)
                .map(|parting| (self.tree[parting.a as usize].instance, parting.a))
        });
        let mut seen: Vec<(u32, u32)> = Vec::new();
        for (instance, iteration) in partings {
            if seen.iter().any(|&(other, sibling)| other == instance && sibling != iteration) {
                return;
            }
            seen.push((instance, iteration));
        }
        reads.push(new);
    }

    #[cold]
    fn report(
        &self,
        code: &Compiled,
        element: &str,
        earlier: Seen,
        access: Access,
        parting: &Parting,
    ) -> Stop {
        let what = |access: Access| if access.write { "writes" } else { "reads" };
        let one = self.iteration(code, parting.a);
        let other = self.iteration(code, parting.b);
        let message = format!(
            "iteration {other} {} `{element}`, and iteration {one}, which may run at the same time, \
             {} it",
            what(access),
            what(earlier.access)
        );
        let mut stop = code.trap(access.pc, "tir/race", message);
        if let Stop::Trap(trap) = &mut stop {
            let place = format!("iteration {one} {} it here", what(earlier.access));
            trap.places.push((code.spans[earlier.access.pc as usize], place));
            trap.notes.push("make one iteration own the element, or reduce serially".to_owned());
        }
        stop
    }

    /// `bx = 0, tx = 3`: the loops from the outermost on.
    fn iteration(&self, code: &Compiled, node: u32) -> String {
        let mut parts = Vec::new();
        let mut at = node;
        while at != Node::ROOT.0 {
            let iteration = &self.tree[at as usize];
            let name = &code.loops[iteration.info as usize].name;
            parts.push(format!("{name} = {}", iteration.value));
            at = iteration.parent;
        }
        parts.reverse();
        parts.join(", ")
    }
}
