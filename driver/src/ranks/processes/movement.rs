//! The bytes of collectives between processes. Each rank gets what it needs and nothing else; reductions are formed in the order of
//! the ranks, so that results have the bits of ranks in one process.

use super::super::shared::{Shared, folding, reduce_in_blocks};
use super::super::transport::{Addressed, Transport};
use super::Counts;
use relax_runtime::Tensor;
use relax_semantics::ops::{Combined, Described, Movement, Passed, own_rows};
use relax_semantics::stop::Stop;
use relax_syntax::annotation::Reduction;
use std::ops::Range;

/// Bytes up to which all ranks reduce all elements: one exchange takes less time than two of fewer bytes.
const SMALL: usize = 8 << 10;

/// A collective of a group that is there, whose parts fit.
pub(super) struct Collective<'a> {
    pub(super) transport: &'a dyn Transport,
    /// The ranks of the group, and the place of this one among them.
    pub(super) group: &'a [usize],
    pub(super) at: usize,
    /// What each rank of the group passes.
    pub(super) parts: &'a [Described],
    pub(super) counts: &'a mut Counts,
    /// Called while nothing moves.
    pub(super) idle: &'a mut dyn FnMut(&[usize]),
}

impl Collective<'_> {
    /// The result of this rank.
    pub(super) fn result(&mut self, movement: Movement, own: &Shared) -> Result<Shared, Stop> {
        if self.group.len() == 1 {
            return movement.result(vec![own.clone()], (1, 0));
        }
        match (movement.cut, movement.combined) {
            (None, Combined::Joined(axis)) => self.gathered(axis, own),
            (None, Combined::Reduced(reduction)) => self.reduced(reduction, own),
            (Some(cut), combined) => {
                let taken = self.exchanged(cut, own)?;
                self.counts.copied += taken.iter().map(|part| part.0.bytes().len()).sum::<usize>();
                match combined {
                    Combined::Joined(axis) => Shared::joined(taken, axis),
                    Combined::Reduced(reduction) => Shared::reduced(taken, reduction),
                }
            }
        }
    }

    /// The others of the group with what is said for each, in order.
    fn others<T>(&self, each: impl IntoIterator<Item = T>) -> Vec<Addressed<T>> {
        let with_ranks = self.group.iter().copied().zip(each).enumerate();
        with_ranks.filter(|(at, _)| *at != self.at).map(|(_, one)| one).collect()
    }

    fn transfer(&mut self, sends: &[Addressed<&[u8]>], receives: &mut [Addressed<&mut [u8]>]) {
        for (_, bytes) in sends.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            self.counts.messages += 1;
            self.counts.bytes += bytes.len();
        }
        self.transport.transfer(sends, receives, self.idle);
    }

    /// The whole parts of all ranks, each in memory of its own.
    fn wholes(&mut self, own: &Shared) -> Result<Vec<Shared>, Stop> {
        let mut received = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            received.push(if at == self.at {
                Vec::new()
            } else {
                vec![0; own.bytes_of(&part.dims)]
            });
        }
        let sends = self.others(self.group.iter().map(|_| own.0.bytes()));
        let mut receives = self.others(received.iter_mut().map(Vec::as_mut_slice));
        self.transfer(&sends, &mut receives);
        self.tensors(own, received, |part| part.dims.clone(), own.clone())
    }

    /// Tensors of what was received, with what this rank has itself in its place.
    fn tensors(
        &mut self,
        own: &Shared,
        received: Vec<Vec<u8>>,
        dims: impl Fn(&Described) -> Vec<i64>,
        kept: Shared,
    ) -> Result<Vec<Shared>, Stop> {
        let mut tensors = Vec::new();
        for (at, bytes) in received.into_iter().enumerate() {
            if at == self.at {
                tensors.push(kept.clone());
                continue;
            }
            let tensor = Tensor::from_bytes(own.0.dtype(), &dims(&self.parts[at]), &bytes);
            self.counts.copied += bytes.len();
            tensors.push(Shared(tensor.map_err(no_memory)?));
        }
        Ok(tensors)
    }

    /// All parts, one after the other along an axis.
    fn gathered(&mut self, axis: usize, own: &Shared) -> Result<Shared, Stop> {
        if own.0.shape()[..axis].iter().any(|&extent| extent != 1) {
            let parts = self.wholes(own)?;
            self.counts.copied += parts.iter().map(|part| part.0.bytes().len()).sum::<usize>();
            return Shared::joined(parts, axis);
        }
        // The parts lie in one piece each, and are received where they belong.
        let sizes: Vec<usize> = self.parts.iter().map(|part| own.bytes_of(&part.dims)).collect();
        let extent = self.parts.iter().map(|part| part.dims[axis]).sum();
        own.like((axis, extent), |bytes| {
            let mut rooms = cut(bytes, &sizes);
            rooms[self.at].copy_from_slice(own.0.bytes());
            self.counts.copied += sizes[self.at];
            let sends = self.others(sizes.iter().map(|_| own.0.bytes()));
            let mut receives = self.others(rooms);
            self.transfer(&sends, &mut receives);
        })
    }

    /// The shard of this rank of every part.
    fn exchanged(&mut self, axis: usize, own: &Shared) -> Result<Vec<Shared>, Stop> {
        let workers = self.group.len();
        let shard = |dims: &[i64], rank: usize| own_rows(dims[axis], (workers, rank));
        let mut sent = Vec::new();
        for rank in 0..workers {
            let (begin, rows) = shard(own.0.shape(), rank);
            sent.push(own.rows(axis, begin, rows)?);
        }
        self.counts.copied += own.0.bytes().len();
        let at = self.at;
        let dims = |part: &Described| {
            let mut dims = part.dims.clone();
            dims[axis] = shard(&dims, at).1;
            dims
        };
        let mut received: Vec<Vec<u8>> =
            self.parts.iter().map(|part| vec![0; own.bytes_of(&dims(part))]).collect();
        let sends = self.others(sent.iter().map(|part| part.0.bytes()));
        let mut receives = self.others(received.iter_mut().map(Vec::as_mut_slice));
        self.transfer(&sends, &mut receives);
        self.tensors(own, received, dims, sent[at].clone())
    }

    /// All parts reduced. Each rank reduces a block of the elements, and gets the other blocks of the ranks that reduce them.
    fn reduced(&mut self, reduction: Reduction, own: &Shared) -> Result<Shared, Stop> {
        let (bytes, workers) = (own.0.bytes().len(), self.group.len());
        if bytes <= SMALL {
            let parts = self.wholes(own)?;
            return Shared::reduced(parts, reduction);
        }
        let size = own.0.dtype().size();
        let each = (bytes / size).div_ceil(workers) * size;
        let blocks: Vec<Range<usize>> =
            (0..workers).map(|at| (at * each).min(bytes)..((at + 1) * each).min(bytes)).collect();
        let fold = folding(own.dtype(), reduction);
        let mine = blocks[self.at].clone();
        let mut scratch = std::mem::take(&mut self.counts.scratch);
        scratch.resize(mine.len() * (workers - 1), 0);
        let extent = own.0.shape().first().copied().unwrap_or(0);
        let result = own.like((0, extent), |to| {
            let sends = self.others(blocks.iter().map(|block| &own.0.bytes()[block.clone()]));
            let sizes = vec![mine.len(); workers - 1];
            let others = self.others(self.group).into_iter().map(|(rank, _)| rank);
            let mut receives: Vec<_> = others.zip(cut(&mut scratch, &sizes)).collect();
            self.transfer(&sends, &mut receives);
            let sizes: Vec<usize> = blocks.iter().map(Range::len).collect();
            let mut rooms = cut(to, &sizes);
            let part = |at: usize| match at.cmp(&self.at) {
                std::cmp::Ordering::Equal => &own.0.bytes()[mine.clone()],
                std::cmp::Ordering::Less => &scratch[at * mine.len()..][..mine.len()],
                std::cmp::Ordering::Greater => &scratch[(at - 1) * mine.len()..][..mine.len()],
            };
            reduce_in_blocks(rooms[self.at], workers, &part, fold);
            self.counts.copied += mine.len();
            let (before, rest) = rooms.split_at_mut(self.at);
            let Some((reduced, after)) = rest.split_first_mut() else { return };
            let sends = self.others(self.group.iter().map(|_| &**reduced));
            let rooms = before.iter_mut().chain(after).map(|room| &mut **room);
            let others = self.others(self.group).into_iter().map(|(rank, _)| rank);
            self.transfer(&sends, &mut others.zip(rooms).collect::<Vec<_>>());
        });
        self.counts.scratch = scratch;
        result
    }
}

/// Memory as consecutive pieces.
fn cut<'b>(mut bytes: &'b mut [u8], sizes: &[usize]) -> Vec<&'b mut [u8]> {
    let mut pieces = Vec::new();
    for &size in sizes {
        let (piece, rest) = bytes.split_at_mut(size);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

fn no_memory(detail: String) -> Stop {
    Stop::Exhausted { resource: "memory", detail }
}
