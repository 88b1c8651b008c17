//! Collectives of ranks between devices. That all ranks of a group are there and pass what fits is known before, so here nothing is left
//! to agree on: memory is taken first, and then all ranks of the group ask for the same transfers.
//!
//! Shards differ in length, so they go by grouped sends and receives; equal ones of an all-gather by the library's. Reductions are those
//! of the ranks in their order, formed by kernels of ours ([`crate::fold`]), unless [`is_any_order`] allows the library's.

use crate::Error;
use crate::fold::Fold;
use crate::links::{Group, Linked, Reduced, Rows, Transfer};
use crate::queue::Step;
use crate::resident::{Own, Resident};
use relax_runtime::{DType, TensorArg};
use relax_semantics::ops::{Combined, Movement, own_rows};
use relax_syntax::annotation::Reduction;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where memory of a part begins: vectors are loaded from there.
const ALIGNED: usize = 256;

/// What a rank takes part in.
#[derive(Clone, Copy, Debug)]
pub struct Collective {
    /// The ranks that take part.
    pub group: Group,
    /// What becomes of what they pass, by their numbers in the group.
    pub movement: Movement,
    /// Whether sums are formed in the order of the ranks.
    pub is_exact: bool,
}

/// Kernels that were made, by what they reduce.
pub(crate) type Folds = BTreeMap<(&'static str, Reduction), Arc<Fold>>;

/// Some rows along an axis of a tensor: as rows of bytes.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: usize,
    pitch: usize,
    width: usize,
    count: usize,
}

impl Piece {
    fn bytes(&self) -> usize {
        self.width * self.count
    }

    fn is_dense(&self) -> bool {
        self.count <= 1 || self.width == self.pitch || self.width == 0
    }

    fn rows(&self, base: u64) -> Rows {
        Rows { address: base + self.offset as u64, pitch: self.pitch }
    }
}

/// A tensor without its elements.
#[derive(Clone, Copy, Debug)]
struct Layout<'d> {
    dims: &'d [i64],
    /// Bytes of an element.
    size: usize,
}

fn extent(dim: i64) -> usize {
    usize::try_from(dim).unwrap_or(0)
}

impl Layout<'_> {
    fn elements(&self) -> usize {
        self.dims.iter().map(|&dim| extent(dim)).product()
    }

    fn bytes(&self) -> usize {
        self.elements() * self.size
    }

    /// The rows `begin..begin + count` along an axis.
    fn piece(&self, axis: usize, (begin, count): (usize, usize)) -> Piece {
        let product = |dims: &[i64]| dims.iter().map(|&dim| extent(dim)).product::<usize>();
        let row = product(&self.dims[axis + 1..]) * self.size;
        Piece {
            offset: begin * row,
            pitch: extent(self.dims[axis]) * row,
            width: count * row,
            count: product(&self.dims[..axis]),
        }
    }

    /// The rows of a rank along an axis.
    fn shard(&self, axis: usize, of: (usize, usize)) -> Piece {
        self.piece(axis, self.own(axis, of))
    }

    fn own(&self, axis: usize, of: (usize, usize)) -> (usize, usize) {
        let (begin, count) = own_rows(self.dims[axis], of);
        (extent(begin), extent(count))
    }

    fn whole(&self) -> Piece {
        Piece { offset: 0, pitch: self.bytes(), width: self.bytes(), count: 1 }
    }
}

/// Whether a library may reduce in an order of its own, so that all ranks get the same bits.
///
/// Sums of integers wrap, and are the same in any order. A sum of floats is not: it is left to the library where numerics allow it, and
/// where no other group forms the same sum. Copies of a result along another axis of the mesh are compared bit by bit, and a library may
/// order the ranks of two groups in two ways; of two ranks there is one order. Maxima and minima of floats are never left to it: ours are
/// NaN where an operand is, and NCCL's pass NaN over.
fn is_any_order(dtype: DType, reduction: Reduction, of: &Collective) -> bool {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    match (dtype, reduction) {
        (I8 | I32 | I64 | U8 | U32 | U64, _) => true,
        (F16 | BF16 | F32 | F64, Reduction::Sum) => {
            !of.is_exact && (of.group.groups == 1 || of.group.size == 2)
        }
        // NCCL has no integers of 16 bits.
        (F16 | BF16 | F32 | F64 | I16 | U16 | Bool, _) => false,
    }
}

/// Memory of a collective, taken before anything is asked for.
struct Scratch {
    next: u64,
    end: u64,
}

impl Scratch {
    fn take(&mut self, bytes: usize) -> Result<u64, Error> {
        let address = self.next;
        self.next += bytes.next_multiple_of(ALIGNED) as u64;
        match self.next <= self.end {
            true => Ok(address),
            false => Err(Error::Driver("a collective takes more memory than it said".to_owned())),
        }
    }
}

/// What a collective works on.
struct Job<'j> {
    of: &'j Collective,
    dtype: DType,
    x: (u64, Layout<'j>),
    out: (u64, Layout<'j>),
    scratch: Scratch,
    fold: Option<Arc<Fold>>,
    status: u64,
}

impl<D: Linked> Resident<D> {
    /// Rows along an axis of a tensor as another one, of which they are all.
    pub(crate) fn rows(
        &mut self,
        x: &TensorArg<'_>,
        out: &TensorArg<'_>,
        (axis, begin): (usize, i64),
    ) -> Result<(), Error> {
        let mut own = Own::default();
        let (from, to) = (self.bring(x, &mut own)?, self.bring(out, &mut own)?);
        let layout = Layout { dims: x.shape(), size: x.dtype().size() };
        let piece = match out.shape().get(axis) {
            Some(&count) => layout.piece(axis, (extent(begin), extent(count))),
            None => layout.whole(),
        };
        if piece.bytes() > 0 {
            let target = Rows { address: to, pitch: piece.width };
            let (width, count) = (piece.width, piece.count);
            self.queue.direct(|device| device.copy_rows(piece.rows(from), target, width, count))?;
        }
        self.has(out);
        self.give_back(own)
    }

    /// Takes part in a collective. `meet` waits for all ranks of the group, and says which dims each of them passes; the memory is taken
    /// before, so that a rank which has none stops where no other one waits for it on its device.
    pub(crate) fn collective<E>(
        &mut self,
        of: &Collective,
        (x, out): (&TensorArg<'_>, &TensorArg<'_>),
        meet: impl FnOnce() -> Result<Vec<Vec<i64>>, E>,
    ) -> Result<Result<(), E>, Error> {
        let mut own = Own::default();
        let job = self.prepared(of, (x, out), &mut own);
        let done = job.and_then(|mut job| match meet() {
            Err(stop) => Ok(Err(stop)),
            Ok(parts) => {
                let asked = self.ask(&mut job, &parts);
                if let Err(error) = &asked {
                    self.queue.device().fail(&error.to_string());
                }
                self.has(out);
                asked.map(Ok)
            }
        });
        let given = self.give_back(own);
        done.and_then(|done| given.map(|()| done))
    }

    fn prepared<'j>(
        &mut self,
        of: &'j Collective,
        (x, out): (&TensorArg<'j>, &TensorArg<'j>),
        own: &mut Own,
    ) -> Result<Job<'j>, Error> {
        let dtype = x.dtype();
        let layout = |tensor: &TensorArg<'j>| Layout { dims: tensor.shape(), size: dtype.size() };
        let (of_x, of_out) = (layout(x), layout(out));
        let fold = match of.movement.combined {
            Combined::Reduced(reduction) => {
                // The library has no reductions of shards that differ in length.
                let axis = of.movement.cut.and_then(|axis| of_x.dims.get(axis));
                let alike =
                    axis.is_none_or(|&dim| extent(dim).is_multiple_of(of.group.size.max(1)));
                let is_ours = !alike || !is_any_order(dtype, reduction, of);
                is_ours.then(|| self.fold(dtype, reduction)).transpose()?
            }
            Combined::Joined(_) | Combined::Sent { .. } => None,
        };
        let (from, to) = (self.bring(x, own)?, self.bring(out, own)?);
        // What is sent and what is received, each part where it is aligned.
        let parts = match (of.movement.combined, of.movement.cut) {
            (Combined::Reduced(_), Some(_)) => of_out.bytes().saturating_mul(of.group.size),
            _ => of_out.bytes(),
        };
        let bytes = of_x.bytes() + parts + (4 * of.group.size + 4) * ALIGNED;
        let next = self.take(bytes, own)?;
        let scratch = Scratch { next, end: next + bytes as u64 };
        let status = self.status()?;
        Ok(Job { of, dtype, x: (from, of_x), out: (to, of_out), scratch, fold, status })
    }

    /// The kernel of a reduction that a library does not form.
    fn fold(&mut self, dtype: DType, reduction: Reduction) -> Result<Arc<Fold>, Error> {
        if let Some(known) = self.folds.get(&(dtype.name(), reduction)) {
            return Ok(Arc::clone(known));
        }
        let fold = Arc::new(Fold::new(dtype, reduction)?);
        self.queue.direct(|device| device.load(&fold.text, &fold.symbol))?;
        self.folds.insert((dtype.name(), reduction), Arc::clone(&fold));
        Ok(fold)
    }

    fn ask(&mut self, job: &mut Job<'_>, parts: &[Vec<i64>]) -> Result<(), Error> {
        match (job.of.movement.combined, job.of.movement.cut) {
            (Combined::Joined(axis), cut) => self.joined(job, parts, (axis, cut)),
            (Combined::Sent { source, target }, _) => self.sent(job, parts, (source, target)),
            (Combined::Reduced(reduction), None) => self.all_reduced(job, reduction),
            (Combined::Reduced(reduction), Some(axis)) => {
                self.reduced_shard(job, (reduction, axis))
            }
        }
    }

    /// Some rows of a tensor where they lie side by side: where they are, or in a copy.
    fn dense(&mut self, base: u64, piece: Piece, to: &mut Scratch) -> Result<u64, Error> {
        if piece.is_dense() {
            return Ok(base + piece.offset as u64);
        }
        let address = to.take(piece.bytes())?;
        self.copied(piece.rows(base), Rows { address, pitch: piece.width }, piece)?;
        Ok(address)
    }

    fn copied(&mut self, from: Rows, to: Rows, piece: Piece) -> Result<(), Error> {
        if piece.bytes() == 0 {
            return Ok(());
        }
        self.queue.direct(|device| device.copy_rows(from, to, piece.width, piece.count))
    }

    /// A send and a broadcast.
    fn sent(
        &mut self,
        job: &mut Job<'_>,
        parts: &[Vec<i64>],
        (source, target): (usize, Option<usize>),
    ) -> Result<(), Error> {
        let group = job.of.group;
        let ((x, of_x), (out, of_out)) = (job.x, job.out);
        let gets = |rank: usize| target.is_none_or(|target| target == rank);
        let mut transfers = Vec::new();
        if group.rank == source {
            let others = (0..group.size).filter(|&rank| rank != source && gets(rank));
            let bytes = of_x.bytes();
            transfers.extend(others.map(|to| Transfer::Send { to, address: x, bytes }));
            // It keeps what all get, and a scalar.
            if of_out.bytes() > 0 {
                fits(of_out.bytes() == bytes)?;
                self.queue.step(Step::Copy { from: x, to: out, bytes })?;
            }
        } else if gets(group.rank) {
            let sent = Layout { dims: &parts[source], size: job.dtype.size() };
            let bytes = of_out.bytes();
            fits(sent.bytes() == bytes)?;
            transfers.push(Transfer::Receive { from: source, address: out, bytes });
        }
        self.transfer(&group, transfers)
    }

    /// All-gather and all-to-all.
    fn joined(
        &mut self,
        job: &mut Job<'_>,
        parts: &[Vec<i64>],
        (axis, cut): (usize, Option<usize>),
    ) -> Result<(), Error> {
        let group = job.of.group;
        let (p, me, size) = (group.size, group.rank, job.dtype.size());
        let (of_x, of_out) = (job.x.1, job.out.1);
        let lengths: Vec<usize> = parts.iter().map(|dims| extent(dims[axis])).collect();
        fits(lengths.iter().sum::<usize>() == extent(of_out.dims[axis]))?;
        let begins = |rank: usize| lengths[..rank].iter().sum::<usize>();
        let place = |rank: usize| of_out.piece(axis, (begins(rank), lengths[rank]));
        let alike = lengths.iter().all(|length| *length == lengths[0]);
        if cut.is_none() && alike && of_x.bytes() > 0 {
            return self.gathered(job, &place);
        }
        let mut transfers = Vec::new();
        let mut own = None;
        for to in 0..p {
            let piece = cut.map_or_else(|| of_x.whole(), |cut| of_x.shard(cut, (p, to)));
            let address = self.dense(job.x.0, piece, &mut job.scratch)?;
            match to == me {
                true => own = Some((address, piece.bytes())),
                false => transfers.push(Transfer::Send { to, address, bytes: piece.bytes() }),
            }
        }
        let mut received = Vec::new();
        for from in (0..p).filter(|from| *from != me) {
            let mut dims = parts[from].clone();
            if let Some(cut) = cut {
                let of_part = Layout { dims: &parts[from], size };
                dims[cut] = i64::try_from(of_part.own(cut, (p, me)).1).unwrap_or(i64::MAX);
            }
            let (piece, bytes) = (place(from), Layout { dims: &dims, size }.bytes());
            fits(piece.bytes() == bytes)?;
            let address = match piece.is_dense() {
                true => job.out.0 + piece.offset as u64,
                false => job.scratch.take(bytes)?,
            };
            transfers.push(Transfer::Receive { from, address, bytes });
            received.push((address, piece));
        }
        self.transfer(&group, transfers)?;
        if let Some((address, bytes)) = own {
            fits(bytes == place(me).bytes())?;
            received.push((address, place(me)));
        }
        self.spread(job.out.0, received)
    }

    /// An all-gather of shards that are equally long.
    fn gathered(&mut self, job: &mut Job<'_>, place: &dyn Fn(usize) -> Piece) -> Result<(), Error> {
        let (group, bytes) = (job.of.group, job.x.1.bytes());
        let all = bytes * group.size;
        let to = match place(0).is_dense() {
            true => job.out.0,
            false => job.scratch.take(all)?,
        };
        let from = job.x.0;
        self.queue.direct(|device| device.all_gather(&group, from, to, bytes))?;
        let parts = (0..group.size).map(|rank| (to + (rank * bytes) as u64, place(rank)));
        self.spread(job.out.0, parts.collect())
    }

    /// Copies parts to where they belong in a tensor, unless they lie there.
    fn spread(&mut self, base: u64, parts: Vec<(u64, Piece)>) -> Result<(), Error> {
        for (address, piece) in parts {
            if address != piece.rows(base).address || !piece.is_dense() {
                self.copied(Rows { address, pitch: piece.width }, piece.rows(base), piece)?;
            }
        }
        Ok(())
    }

    /// Each rank reduces a block of the elements, and all get the blocks of all.
    fn all_reduced(&mut self, job: &mut Job<'_>, reduction: Reduction) -> Result<(), Error> {
        let (group, dtype, size) = (job.of.group, job.dtype, job.dtype.size());
        let (x, out, count) = (job.x.0, job.out.0, job.x.1.elements());
        fits(count == job.out.1.elements())?;
        if count == 0 {
            return Ok(());
        }
        if job.fold.is_none() {
            let what = Reduced { dtype, reduction, count };
            return self.queue.direct(|device| device.all_reduce(&group, x, out, what));
        }
        let block = (count.div_ceil(group.size) * size).next_multiple_of(ALIGNED);
        let begin = |rank: usize| (rank * block).min(count * size);
        let bytes = |rank: usize| begin(rank + 1) - begin(rank);
        let others = || (0..group.size).filter(|rank| *rank != group.rank);
        let sends = others().map(|to| Transfer::Send {
            to,
            address: x + begin(to) as u64,
            bytes: bytes(to),
        });
        let (own, place) = (x + begin(group.rank) as u64, out + begin(group.rank) as u64);
        self.reduced(job, sends.collect(), (own, place, bytes(group.rank)))?;
        let sends =
            others().map(|to| Transfer::Send { to, address: place, bytes: bytes(group.rank) });
        let receives = others().map(|from| Transfer::Receive {
            from,
            address: out + begin(from) as u64,
            bytes: bytes(from),
        });
        self.transfer(&group, sends.chain(receives).collect())
    }

    /// Each rank reduces its shard along an axis.
    fn reduced_shard(
        &mut self,
        job: &mut Job<'_>,
        (reduction, axis): (Reduction, usize),
    ) -> Result<(), Error> {
        let (group, dtype) = (job.of.group, job.dtype);
        let (x, of_x, out) = (job.x.0, job.x.1, job.out.0);
        let shard = |rank: usize| of_x.shard(axis, (group.size, rank));
        let own = shard(group.rank);
        fits(own.bytes() == job.out.1.bytes())?;
        if job.fold.is_none() {
            if own.bytes() == 0 {
                return Ok(());
            }
            let from = if own.is_dense() { x } else { job.scratch.take(of_x.bytes())? };
            for rank in (0..group.size).filter(|_| !own.is_dense()) {
                let address = from + (rank * own.bytes()) as u64;
                let to = Rows { address, pitch: own.width };
                self.copied(shard(rank).rows(x), to, shard(rank))?;
            }
            let what = Reduced { dtype, reduction, count: job.out.1.elements() };
            return self.queue.direct(|device| device.reduce_scatter(&group, from, out, what));
        }
        let mut sends = Vec::new();
        for to in (0..group.size).filter(|to| *to != group.rank) {
            let address = self.dense(x, shard(to), &mut job.scratch)?;
            sends.push(Transfer::Send { to, address, bytes: shard(to).bytes() });
        }
        let from = self.dense(x, own, &mut job.scratch)?;
        self.reduced(job, sends, (from, out, own.bytes()))
    }

    /// Gets from all ranks what this one reduces, and reduces it in their order.
    fn reduced(
        &mut self,
        job: &mut Job<'_>,
        mut transfers: Vec<Transfer>,
        (own, place, bytes): (u64, u64, usize),
    ) -> Result<(), Error> {
        let group = job.of.group;
        let mut parts = Vec::new();
        for from in 0..group.size {
            // The first part is where the result will be.
            let address = if from == 0 { place } else { job.scratch.take(bytes)? };
            match from == group.rank {
                true if bytes > 0 => {
                    self.queue.step(Step::Copy { from: own, to: address, bytes })?;
                }
                true => {}
                false => transfers.push(Transfer::Receive { from, address, bytes }),
            }
            parts.push(address);
        }
        self.transfer(&group, transfers)?;
        let (Some(fold), Ok(count)) = (&job.fold, i64::try_from(bytes / job.dtype.size())) else {
            return Err(Error::Driver("a reduction without a kernel".to_owned()));
        };
        let plan = fold.kernel.plan(&[&[count], &[count]], &[]);
        let plan = plan.map_err(|why| Error::Driver(format!("a reduction: {why:?}")))?;
        for part in parts.into_iter().skip(1).filter(|_| bytes > 0) {
            let mut arguments = vec![job.status, place, part];
            // The same bits.
            arguments.extend(plan.integers.iter().map(|&value| value as u64));
            let (symbol, sizes) = (Arc::clone(&fold.symbol), plan.sizes[0]);
            self.queue.step(Step::Launch { symbol, sizes, arguments })?;
        }
        Ok(())
    }

    /// Those that move something.
    fn transfer(&mut self, group: &Group, transfers: Vec<Transfer>) -> Result<(), Error> {
        let some = transfers.into_iter().filter(|transfer| match transfer {
            Transfer::Send { bytes, .. } | Transfer::Receive { bytes, .. } => *bytes > 0,
        });
        let some: Vec<Transfer> = some.collect();
        self.queue.direct(|device| device.transfer(group, &some))
    }
}

/// What all ranks of a group said before they met.
fn fits(holds: bool) -> Result<(), Error> {
    match holds {
        true => Ok(()),
        false => Err(Error::Driver("the shards of a collective do not fit its result".to_owned())),
    }
}
