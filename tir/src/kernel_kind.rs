//! Kernel kinds: the kind of computation of a tensor program, inferred from its loops and accesses alone (paper,
//! Algorithm 1; `OpPatternKind` of TVM). Fusion groups programs by it.
//!
//! A program has a kind other than [`KernelKind::Opaque`] only when it is one nest of loops that writes one
//! output, its last buffer, each element at its own place of the spatial loops ([`nest`]), or a
//! reduction whose steps are statements of their own ([`stages`]). The kind then follows from where the nest reads ([`reads`]).

mod nest;
mod product;
mod reads;
mod reshape;
mod rows;
mod stages;
mod values;

pub use nest::{Nest, output_of};
pub use product::MatrixProduct;
pub(crate) use reads::reads_of;
pub use reshape::only_reshapes;
pub use rows::Rows;
pub use values::Scalars;

use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{AttrValue, TensorProgram, attr};
use stages::staged;
use std::collections::BTreeMap;

/// The attribute of a tensor program that records its kind.
pub const ATTRIBUTE: &str = "compute_pattern";

/// Kinds of tensor programs, each more conservative than those before it: less is promised of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelKind {
    /// Some input is read at the place that is written, others at a part of its indices.
    ElementWise,
    /// Inputs are read at some of the indices that are written, in their order.
    Broadcast,
    /// Inputs are read anywhere that the indices which are written tell.
    Injective,
    /// Elements are combined along reduction axes.
    Reduction,
    /// Products of inputs are summed along reduction axes: what follows element by element can be done
    /// to each sum.
    OutputEwiseFusible,
    /// Every other program: not one loop nest, or more than one output.
    Opaque,
}

impl KernelKind {
    const ALL: [KernelKind; 6] = [
        KernelKind::ElementWise,
        KernelKind::Broadcast,
        KernelKind::Injective,
        KernelKind::Reduction,
        KernelKind::OutputEwiseFusible,
        KernelKind::Opaque,
    ];

    /// As it is written in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KernelKind::ElementWise => "ElementWise",
            KernelKind::Broadcast => "Broadcast",
            KernelKind::Injective => "Injective",
            KernelKind::Reduction => "Reduction",
            KernelKind::OutputEwiseFusible => "OutputEwiseFusible",
            KernelKind::Opaque => "Opaque",
        }
    }

    /// The kind that a tensor program records; `None` when it records none that there is.
    #[must_use]
    pub fn recorded(program: &TensorProgram) -> Option<KernelKind> {
        let AttrValue::Str(text) = attr(&program.attrs, ATTRIBUTE)? else { return None };
        KernelKind::ALL.into_iter().find(|kind| text == kind.name())
    }
}

/// The result of the analysis of a tensor program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// The kind that loops and accesses tell.
    pub kind: KernelKind,
    /// How each input is read; of an opaque program nothing.
    pub reads: BTreeMap<BufferId, Read>,
}

/// Where an input is read, the most conservative of its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// At the place that is written, and the shapes are the same.
    Same,
    /// At some of the indices that are written, in their order, or at 0 where the extent is 1.
    Part,
    /// Anywhere that the indices which are written tell.
    Mapped,
    /// Where a reduction axis tells.
    Reduced,
}

impl Analysis {
    /// Of one tensor program.
    #[must_use]
    pub fn of(program: &TensorProgram) -> Self {
        analyse(program).unwrap_or(Analysis { kind: KernelKind::Opaque, reads: BTreeMap::new() })
    }
}

/// The analysis of a program; `None` if its kind is `Opaque`.
fn analyse(program: &TensorProgram) -> Option<Analysis> {
    let nest = Nest::of(program).or_else(|| staged(program))?;
    let found = reads_of(program, &nest)?;
    let mut reads: BTreeMap<BufferId, Read> = BTreeMap::new();
    for &(buffer, read) in &found {
        let worst = reads.entry(buffer).or_insert(read);
        *worst = read.max(*worst);
    }
    let kind = match nest.is_reduction() {
        true if nest.sums_products() => KernelKind::OutputEwiseFusible,
        true => KernelKind::Reduction,
        false => spatial_kind(found.iter().map(|&(_, read)| read))?,
    };
    Some(Analysis { kind, reads })
}

/// The kind of a program without reduction axes (Algorithm 1, lines 9 to 20). One that reads nothing
/// spreads constants.
fn spatial_kind(reads: impl Iterator<Item = Read>) -> Option<KernelKind> {
    let (mut same, mut worst) = (false, Read::Same);
    let mut any = false;
    for read in reads {
        any = true;
        same |= read == Read::Same;
        worst = worst.max(read);
    }
    match worst {
        _ if !any => Some(KernelKind::Broadcast),
        Read::Same => Some(KernelKind::ElementWise),
        Read::Part if same => Some(KernelKind::ElementWise),
        Read::Part => Some(KernelKind::Broadcast),
        Read::Mapped => Some(KernelKind::Injective),
        Read::Reduced => None,
    }
}

#[cfg(test)]
mod tests;
