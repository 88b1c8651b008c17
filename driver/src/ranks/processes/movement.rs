//! The bytes of collectives between processes. Each rank gets what it needs and nothing else; reductions are formed in the order of
//! the ranks, so that results have the bits of ranks in one process.

use super::super::shared::{Shared, folding, join, reduce_in_blocks};
use super::super::transport::{Addressed, Transport};
use super::Counts;
use relax_runtime::Scratch;
use relax_semantics::ops::{Combined, Described, Movement, Passed, own_rows, without_rows};
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
        let workers = self.group.len();
        if workers == 1 {
            return movement.result(vec![own.clone()], (1, 0));
        }
        let mut dims: Vec<Vec<i64>> = self.parts.iter().map(|part| part.dims.clone()).collect();
        let Some(cut) = movement.cut else {
            let sent = vec![own.bytes(); workers];
            return match movement.combined {
                Combined::Joined(axis) => self.joined(axis, own, (&dims, &sent)),
                Combined::Reduced(reduction) if own.bytes().len() <= SMALL => {
                    self.reduced(reduction, own, (&dims, &sent))
                }
                Combined::Reduced(reduction) => self.reduced_in_blocks(reduction, own),
                Combined::Sent { .. } => movement.result(vec![own.clone()], (1, 0)),
            };
        };
        for part in &mut dims {
            part[cut] = own_rows(part[cut], (workers, self.at)).1;
        }
        let shards: Vec<(i64, i64)> =
            (0..workers).map(|rank| own_rows(own.tensor.shape()[cut], (workers, rank))).collect();
        let packed = self.packed(cut, own, &shards)?;
        let row = own.bytes_of(&own.tensor.shape()[cut + 1..]);
        let at = |rows: i64| usize::try_from(rows).unwrap_or(0) * row;
        let lying = shards.iter().map(|&(begin, rows)| &own.bytes()[at(begin)..at(begin + rows)]);
        let sent: Vec<&[u8]> = match &packed {
            Some(packed) => packed.iter().map(Shared::bytes).collect(),
            None => lying.collect(),
        };
        match movement.combined {
            Combined::Joined(axis) => self.joined(axis, own, (&dims, &sent)),
            Combined::Reduced(reduction) => self.reduced(reduction, own, (&dims, &sent)),
            Combined::Sent { .. } => {
                Err(Stop::Unsupported("shards that one rank sends".to_owned()))
            }
        }
    }

    /// What the rank at the place `source` of the group has, on the others. That rank keeps it, unless `is_moved`.
    pub(super) fn sent(
        &mut self,
        source: usize,
        is_moved: bool,
        own: &Shared,
    ) -> Result<Shared, Stop> {
        if self.at == source {
            let sends = self.others(self.group.iter().map(|_| own.bytes()));
            self.transfer(&sends, &mut []);
            return if is_moved { without_rows(own) } else { Ok(own.clone()) };
        }
        let from = self.group[source];
        own.made(&self.parts[source].dims, |bytes| self.transfer(&[], &mut [(from, bytes)]))
    }

    /// What this rank passes as the shards of all ranks, in memory of their own; `None` where each lies in one piece.
    fn packed(
        &mut self,
        cut: usize,
        own: &Shared,
        shards: &[(i64, i64)],
    ) -> Result<Option<Vec<Shared>>, Stop> {
        if own.tensor.shape()[..cut].iter().all(|&extent| extent == 1) {
            return Ok(None);
        }
        self.counts.copied += own.bytes().len();
        shards
            .iter()
            .map(|&(begin, rows)| own.rows(cut, begin, rows))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The others of the group with what is said for each, in order.
    fn others<T>(&self, each: impl IntoIterator<Item = T>) -> Vec<Addressed<T>> {
        let with_ranks = self.group.iter().copied().zip(each).enumerate();
        with_ranks.filter(|(at, _)| *at != self.at).map(|(_, one)| one).collect()
    }

    fn transfer(&mut self, sends: &[Addressed<&[u8]>], receives: &mut [Addressed<&mut [u8]>]) {
        self.transfer_beside(sends, receives, || {});
    }

    /// The same, while `work` is done as soon as nothing moves.
    fn transfer_beside(
        &mut self,
        sends: &[Addressed<&[u8]>],
        receives: &mut [Addressed<&mut [u8]>],
        work: impl FnOnce(),
    ) {
        for (_, bytes) in sends.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            self.counts.messages += 1;
            self.counts.bytes += bytes.len();
        }
        let mut work = Some(work);
        self.transport.transfer(sends, receives, &mut |missing| match work.take() {
            Some(work) => work(),
            None => (self.idle)(missing),
        });
        if let Some(work) = work {
            work();
        }
    }

    /// What the ranks send this one, of these dims, one after the other along an axis. `sent` is what this rank sends each.
    fn joined(
        &mut self,
        axis: usize,
        own: &Shared,
        (dims, sent): (&[Vec<i64>], &[&[u8]]),
    ) -> Result<Shared, Stop> {
        let sizes: Vec<usize> = dims.iter().map(|dims| own.bytes_of(dims)).collect();
        let mut whole = dims[self.at].clone();
        whole[axis] = dims.iter().map(|dims| dims[axis]).sum();
        if whole[..axis].iter().all(|&extent| extent == 1) {
            // The parts lie in one piece each, and are received where they belong.
            return own.made(&whole, |bytes| {
                let rooms = cut(bytes, &sizes);
                let (mut others, mut place) = (Vec::new(), None);
                for (at, room) in rooms.into_iter().enumerate() {
                    if at == self.at {
                        place = Some(room);
                    } else {
                        others.push((self.group[at], room));
                    }
                }
                self.counts.copied += sizes[self.at];
                let (sends, mine) = (self.others(sent.iter().copied()), sent[self.at]);
                self.transfer_beside(&sends, &mut others, || {
                    if let Some(place) = place {
                        place.copy_from_slice(mine);
                    }
                });
            });
        }
        let scratch = self.received(own, &sizes, sent)?;
        let pieces = self.pieces(&scratch, &sizes, sent[self.at]);
        let rows = dims.iter().map(|dims| own.bytes_of(&dims[axis..]));
        let pieces: Vec<(&[u8], usize)> = pieces.into_iter().zip(rows).collect();
        self.counts.copied += sizes.iter().sum::<usize>();
        own.made(&whole, |bytes| join(bytes, &pieces))
    }

    /// What the ranks send this one, of these dims, reduced. `sent` is what this rank sends each.
    fn reduced(
        &mut self,
        reduction: Reduction,
        own: &Shared,
        (dims, sent): (&[Vec<i64>], &[&[u8]]),
    ) -> Result<Shared, Stop> {
        let sizes: Vec<usize> = dims.iter().map(|dims| own.bytes_of(dims)).collect();
        let scratch = self.received(own, &sizes, sent)?;
        let pieces = self.pieces(&scratch, &sizes, sent[self.at]);
        let fold = folding(own.dtype(), reduction);
        self.counts.copied += sizes[self.at];
        own.made(&dims[self.at], |bytes| {
            reduce_in_blocks(bytes, pieces.len(), &|at| pieces[at], fold);
        })
    }

    /// Receives so many bytes from each of the others, one after the other.
    fn received(&mut self, own: &Shared, sizes: &[usize], sent: &[&[u8]]) -> Result<Scratch, Stop> {
        let sizes = self.others(sizes.iter().copied());
        let sizes: Vec<usize> = sizes.into_iter().map(|(_, size)| size).collect();
        let mut scratch = own.scratch(sizes.iter().sum())?;
        let ranks = self.others(sent.iter().copied());
        let rooms = ranks.iter().map(|(rank, _)| *rank).zip(cut(&mut scratch, &sizes));
        self.transfer(&ranks, &mut rooms.collect::<Vec<_>>());
        Ok(scratch)
    }

    /// What was received from each rank, and in the place of this one what is its own.
    fn pieces<'b>(&self, mut bytes: &'b [u8], sizes: &[usize], own: &'b [u8]) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        for (at, &size) in sizes.iter().enumerate() {
            if at == self.at {
                pieces.push(own);
                continue;
            }
            let (piece, rest) = bytes.split_at(size);
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }

    /// All parts reduced. Each rank reduces a block of the elements, and gets the other blocks of the ranks that reduce them.
    fn reduced_in_blocks(&mut self, reduction: Reduction, own: &Shared) -> Result<Shared, Stop> {
        let (bytes, workers) = (own.bytes().len(), self.group.len());
        let size = own.tensor.dtype().size();
        let each = (bytes / size).div_ceil(workers) * size;
        let blocks: Vec<Range<usize>> =
            (0..workers).map(|at| (at * each).min(bytes)..((at + 1) * each).min(bytes)).collect();
        let fold = folding(own.dtype(), reduction);
        let mine = blocks[self.at].clone();
        let sent: Vec<&[u8]> = blocks.iter().map(|block| &own.bytes()[block.clone()]).collect();
        let sizes = vec![mine.len(); workers];
        let scratch = self.received(own, &sizes, &sent)?;
        let pieces = self.pieces(&scratch, &sizes, sent[self.at]);
        own.made(own.tensor.shape(), |to| {
            let sizes: Vec<usize> = blocks.iter().map(Range::len).collect();
            let mut rooms = cut(to, &sizes);
            reduce_in_blocks(rooms[self.at], workers, &|at| pieces[at], fold);
            self.counts.copied += mine.len();
            let (before, rest) = rooms.split_at_mut(self.at);
            let Some((reduced, after)) = rest.split_first_mut() else { return };
            let sends = self.others(self.group.iter().map(|_| &**reduced));
            let rooms = before.iter_mut().chain(after).map(|room| &mut **room);
            let others = self.others(self.group).into_iter().map(|(rank, _)| rank);
            self.transfer(&sends, &mut others.zip(rooms).collect::<Vec<_>>());
        })
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
