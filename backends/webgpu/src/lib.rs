//! Floor 5: tensor programs as WGSL for WebGPU, and, with the feature `wgpu`, a device that runs them. [`print_wgsl`] gives one
//! text for each tensor program, right for every shape, and says how it is launched; [`Kernel::launch`] computes that for
//! the dims of a call, without a device.
//!
//! **Stages.** A nest bound to `blockIdx` and `threadIdx` is a stage: an entry of the text, launched for itself, so that a
//! later stage sees what an earlier one wrote. What stands beside such nests, and a program without any, is run by one
//! thread. Blocks and threads beyond what a device has at a time take several values of their variable in turn.
//!
//! **Meaning.** Values are those of `docs/LANGUAGE.md`, as far as the device lets them be:
//! - An integer of at most 32 bits wraps in its width; one of 64 bits is two words, with all its operations. Elements of less
//!   than 32 bits take a word each in memory, so that threads never share one.
//! - Index arithmetic is done in 32 bits. [`Kernel::launch`] knows the dims, follows the ranges of all index expressions, and
//!   says [`Refused::Wide`] where one might leave 32 bits. What a literal beyond them takes part in is computed in 64 bits.
//! - f16 and bf16 are computed in f32 and rounded after every operation. Where the device has f16 ([`Halves::Native`]) elements of it take
//!   16 bits in memory. WebGPU lets a device flush subnormal numbers, divide
//!   f32 within 2.5 units in the last place, and contract `a * b + c`. It also lets it ignore the sign of a zero and take it that
//!   there are neither infinities nor NaN: what a compiler could fold with that is printed so that it knows nothing of it (`rx_keep`,
//!   `rx_truth`), and quotients of such numbers are written out (`rx_div_f32`).
//! - f64 ([`Doubles::Native`]) needs a feature that no browser has; then functions of all floats are computed in f64 and rounded.
//!   Without it ([`Doubles::Narrowed`]) f64 that a program uses for itself is f32 (sums of `k` terms of magnitude `s` in all
//!   are off by at most `(k + 2) * 2^-24 * s`), and functions are those of f32, right within some units in the last
//!   place, and workspaces of f64 are memory of the launch; other buffers of f64 are refused.
//! - What may stop the program sets a word of the status buffer and goes on with a harmless value; results are then given up.
//!   Which trap it is, with its words, is said by the interpreter on the same inputs.
//! - To read what nothing wrote stops it. [`print_wgsl`] watches that for memory of the program itself, and takes tensors as written as a
//!   whole or not at all; [`print_watched`] gives the text for calls where the machine knows otherwise.
//!
//! **Limits** are the portable ones: 8 storage buffers (where there are more, the last ones share one, and those of f64 and of f16 others),
//! 16 KiB of workgroup memory, 256 invocations, 65,535 workgroups in a dimension, 128 MiB a binding. Where not all threads of a block reach a
//! barrier for certain, one thread runs the program from barrier to barrier. Refused are buffers of a thread without a constant size, and
//! what [`print_wgsl`] says.

mod access;
#[cfg(feature = "wgpu")]
mod device;
mod dtypes;
#[cfg(feature = "wgpu")]
mod elements;
mod expressions;
mod integers;
mod intervals;
mod iterations;
#[cfg(feature = "wgpu")]
mod kernels;
mod launch;
mod names;
mod operations;
mod prelude;
mod printer;
#[cfg(feature = "wgpu")]
mod resident;
mod stages;
mod statements;
mod threads;
#[cfg(feature = "wgpu")]
mod work;

#[cfg(feature = "wgpu")]
pub use device::{Device, DeviceError, devices};
#[cfg(feature = "wgpu")]
pub use kernels::{Calls, Ran, WgpuKernels};
pub use launch::{Launch, Refused};

use iterations::Threads;
use printer::{How, print_program};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, ScalarId, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;
use std::collections::BTreeSet;

/// How numbers of f64 are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Doubles {
    /// As f32: every device can.
    #[default]
    Narrowed,
    /// As f64: the device must have `SHADER_F64`.
    Native,
}

/// How elements of f16 lie in memory. They are computed with in f32 either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Halves {
    /// In a word each: every device can.
    #[default]
    Words,
    /// As f16: the device must have `SHADER_F16`.
    Native,
}

/// How floats are held, where devices differ. By default as every device can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Formats {
    /// Those of 64 bits.
    pub doubles: Doubles,
    /// Those of 16 bits.
    pub halves: Halves,
}

impl Formats {
    /// With all that a device may have.
    pub const NATIVE: Self = Self { doubles: Doubles::Native, halves: Halves::Native };
}

/// The tensor programs of a module as WGSL.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    /// In the order of the module.
    pub kernels: Vec<Kernel>,
    /// Programs that are not there, each with the reason.
    pub left_out: Vec<(Name, String)>,
}

/// One tensor program.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What was printed.
    pub program: TensorProgram,
    /// A whole WGSL module.
    pub text: String,
    /// Its entries, in the order in which they are launched.
    pub stages: Vec<Stage>,
    /// Storage buffers beside the status, each a binding of its own; they begin at binding 2.
    pub bindings: Vec<Binding>,
    /// Words of the uniform buffer at binding 0.
    pub words: Vec<Word>,
    /// How floats are held.
    pub formats: Formats,
    /// Whether something in it may stop the program.
    pub can_stop: bool,
    /// For each stage, who goes through its loops.
    pub(crate) threads: Vec<Threads>,
    /// Buffers of which the text notes which elements were written.
    pub(crate) watched: BTreeSet<BufferId>,
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The entry of the text.
    pub entry: String,
    /// Loops over blocks, x first: a launch has as many workgroups as there are iterations, up to the limit.
    pub blocks: [Option<(TExpr, TExpr)>; 3],
    /// Scalars that are bound before it, which its bounds may use.
    pub bound: Vec<(ScalarId, TExpr)>,
}

/// A storage buffer of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What lies in it, one after the other.
    pub parts: Vec<Part>,
    /// Whether the kernel writes to it.
    pub is_written: bool,
}

/// A buffer of the program in a storage buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The buffer of the program.
    pub buffer: BufferId,
    /// What of it.
    pub content: Content,
}

/// What a part of a storage buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The elements of the parameter of this number among the buffers.
    Parameter(usize),
    /// The elements of a buffer of the program's own.
    Scratch,
    /// For each element of such a buffer whether it was written.
    Written,
    /// The same for the parameter of this number.
    Given(usize),
}

/// A word that a launch gives to a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A symbolic variable.
    Dim(Name),
    /// A scalar parameter.
    Scalar(ScalarId),
    /// An extent that is an expression.
    Extent(Dim),
    /// Where a part begins in the storage buffer that it shares, in words, or in elements where they are f64 or f16.
    Base(Part),
}

impl Content {
    /// Whether it says what was written.
    pub(crate) fn is_of_writing(self) -> bool {
        matches!(self, Content::Written | Content::Given(_))
    }
}

impl Part {
    pub(crate) fn kind(&self, program: &TensorProgram, formats: Formats) -> Kind {
        let dtype = program.buffer(self.buffer).dtype;
        match dtypes::stored(dtype, formats) {
            _ if self.content.is_of_writing() => Kind::Words,
            "f64" => Kind::Doubles,
            "f16" => Kind::Halves,
            _ => Kind::Words,
        }
    }
}

/// What elements of memory are. Types that have no bits which another type could read share a buffer with their own alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Words,
    Doubles,
    Halves,
}

impl Kernel {
    /// The dtype of a buffer.
    pub(crate) fn dtype(&self, buffer: BufferId) -> DType {
        self.program.buffer(buffer).dtype
    }
}

/// Prints every tensor program of a checked module that has a body. `facts` answers which checks can never fail; of `source`
/// the lines are quoted.
#[must_use]
pub fn print_wgsl(
    module: &Module,
    facts: &mut dyn Facts,
    formats: Formats,
    source: Option<&Source>,
) -> Printed {
    let mut printed = Printed::default();
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let how = How { formats, source, has_maps: false };
        match print_program(program, facts, how) {
            Ok(kernel) => printed.kernels.push(kernel),
            Err(reason) => printed.left_out.push((program.name.clone(), reason)),
        }
    }
    printed
}

/// A tensor program for calls with elements that nothing wrote: with [`Content::Given`] beside each of its tensors, but workspaces.
/// It stops where it reads such an element, and notes what it writes.
///
/// # Errors
/// What is in the way.
pub fn print_watched(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    formats: Formats,
) -> Result<Kernel, String> {
    print_program(program, facts, How { formats, source: None, has_maps: true })
}
