//! What kind of computation a tensor program is, told from its loops and accesses alone (paper,
//! Algorithm 1): fusion groups programs by it.
//!
//! A program has a kind other than [`Pattern::Opaque`] only when it is one nest of loops that writes one
//! output, its last buffer, each element at its own place of the spatial loops ([`nest`]), or a
//! reduction whose steps are statements of their own ([`stages`]). The kind then follows from where the nest reads ([`reads`]).

mod nest;
mod product;
mod reads;
mod reshape;
mod rows;
mod stages;
mod totals;
mod values;

pub(crate) use nest::{Nest, output_of};
pub(crate) use product::MatrixProduct;
pub use relax_semantics::tir::walk::visit;
pub(crate) use reshape::only_reshapes;
pub(crate) use rows::Rows;
pub use totals::{Elements, Slice, covered_where, initializes, written_slices};
pub(crate) use totals::{Totals, is_covered, never_stops, writes_output};

use reads::reads_of;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{AttrValue, TensorProgram, attr};
use stages::staged;
use std::collections::BTreeMap;

/// The attribute of a tensor program that records its kind.
pub const ATTRIBUTE: &str = "compute_pattern";

/// Kinds of tensor programs, each more conservative than those before it: less is promised of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
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
    /// Anything else.
    Opaque,
}

impl Pattern {
    const ALL: [Pattern; 6] = [
        Pattern::ElementWise,
        Pattern::Broadcast,
        Pattern::Injective,
        Pattern::Reduction,
        Pattern::OutputEwiseFusible,
        Pattern::Opaque,
    ];

    /// As it is written in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pattern::ElementWise => "ElementWise",
            Pattern::Broadcast => "Broadcast",
            Pattern::Injective => "Injective",
            Pattern::Reduction => "Reduction",
            Pattern::OutputEwiseFusible => "OutputEwiseFusible",
            Pattern::Opaque => "Opaque",
        }
    }

    /// The kind that a tensor program records; `None` when it records none that there is.
    #[must_use]
    pub fn recorded(program: &TensorProgram) -> Option<Pattern> {
        let AttrValue::Str(text) = attr(&program.attrs, ATTRIBUTE)? else { return None };
        Pattern::ALL.into_iter().find(|pattern| text == pattern.name())
    }
}

/// What is told from a tensor program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// Its kind.
    pub pattern: Pattern,
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
        analyse(program).unwrap_or(Analysis { pattern: Pattern::Opaque, reads: BTreeMap::new() })
    }
}

/// `None`: opaque.
fn analyse(program: &TensorProgram) -> Option<Analysis> {
    let nest = Nest::of(program).or_else(|| staged(program))?;
    let found = reads_of(program, &nest)?;
    let mut reads: BTreeMap<BufferId, Read> = BTreeMap::new();
    for &(buffer, read) in &found {
        let worst = reads.entry(buffer).or_insert(read);
        *worst = read.max(*worst);
    }
    let pattern = match nest.is_reduction() {
        true if nest.sums_products() => Pattern::OutputEwiseFusible,
        true => Pattern::Reduction,
        false => spatial_pattern(found.iter().map(|&(_, read)| read))?,
    };
    Some(Analysis { pattern, reads })
}

/// The kind of a program without reduction axes (Algorithm 1, lines 9 to 20). One that reads nothing
/// spreads constants.
fn spatial_pattern(reads: impl Iterator<Item = Read>) -> Option<Pattern> {
    let (mut same, mut worst) = (false, Read::Same);
    let mut any = false;
    for read in reads {
        any = true;
        same |= read == Read::Same;
        worst = worst.max(read);
    }
    match worst {
        _ if !any => Some(Pattern::Broadcast),
        Read::Same => Some(Pattern::ElementWise),
        Read::Part if same => Some(Pattern::ElementWise),
        Read::Part => Some(Pattern::Broadcast),
        Read::Mapped => Some(Pattern::Injective),
        Read::Reduced => None,
    }
}

#[cfg(test)]
mod tests;
