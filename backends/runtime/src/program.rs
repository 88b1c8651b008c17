//! A compiled program: functions of register code, the signatures of kernels, constants and texts.

use crate::dtype::DType;
use crate::instruction::Instruction;
use crate::stop::Span;
use crate::value::{Number, Output};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A whole program. The elements of constants, the text of the source and the machine code of kernels
/// stand beside it in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Every function.
    pub functions: Vec<Function>,
    /// Every kernel that the code calls.
    pub kernels: Vec<Kernel>,
    /// Operands that do not change.
    pub constants: Vec<Constant>,
    /// Texts that instructions name.
    pub texts: Vec<String>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// As in the source.
    pub name: String,
    /// Under which an embedder calls it; `None`: only the program does.
    pub symbol: Option<String>,
    /// How many arguments it takes; they are in the first registers.
    pub params: u32,
    /// Parameters whose tensors a caller gives up: the function may overwrite their memory.
    pub donated: Vec<u32>,
    /// How many registers a call of it has.
    pub registers: u32,
    /// What it does.
    pub code: Vec<Instruction>,
    /// The place in the source of each instruction.
    pub spans: Vec<Span>,
    /// The place of its header.
    pub span: Span,
}

/// What is known of a kernel outside of its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// As in the source.
    pub name: String,
    /// In order.
    pub params: Vec<Param>,
    /// The function of the machine code; `None` where there is none for this kernel.
    pub symbol: Option<String>,
    /// What it can stop with: the kernel gives the number of one.
    pub sites: Vec<Site>,
    /// The same kernel for calls with tensors that have elements which nothing wrote; `None` where no call needs it.
    pub watched: Option<Watched>,
    /// How much a call computes and moves; `None` where elements decide that.
    pub work: Option<Work>,
    /// The place of its header.
    pub span: Span,
}

/// How much a call of a kernel computes and moves, at most: texts of the language over the dims of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Arithmetic and functions on floats; a fused multiply-add is two, a comparison or cast none.
    pub operations: String,
    /// Elements of each buffer that are read or written.
    pub elements: Vec<String>,
    /// The dims in these.
    pub dims: Vec<(String, Given)>,
}

/// Where a call gives a dim of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Given {
    /// As an extent.
    Extent(Extent),
    /// As one of its integers, in their order.
    Int(u32),
}

/// Code that takes a map beside each tensor, a byte for each element: 1 if something was written to it. It stops where
/// it reads another one, and notes what it writes, but for tensors that it writes whole before it reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The function of the machine code; `None` where a device has the kernel.
    pub symbol: Option<String>,
    /// What it can stop with.
    pub sites: Vec<Site>,
    /// What the other code does, for each buffer.
    pub elements: Vec<Elements>,
}

/// What a kernel does to the elements of a buffer that it writes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elements {
    /// It may read one that it has not written before.
    pub are_read_first: bool,
    /// It writes all of them where these extents are at least 1; `None`: nobody knows when it does.
    pub are_written_where: Option<Vec<Extent>>,
}

/// An extent of a tensor of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Which buffer.
    pub buffer: u32,
    /// Which dim of it.
    pub axis: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Param {
    /// A dense tensor.
    Buffer {
        /// As in the source.
        name: String,
        /// Its element type.
        dtype: DType,
        /// Its number of dims.
        rank: u32,
        /// Whether the kernel writes to it.
        is_written: bool,
    },
    /// An integer.
    Int,
}

/// A check in a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The id of the trap.
    pub id: String,
    /// What it says, with `{}` for each value.
    pub message: String,
    /// How many values the kernel notes for it.
    pub values: u32,
    /// The statement.
    pub span: Span,
}

/// An operand that does not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Constant {
    /// Elements in the section of constants, from byte `at` on, which is aligned.
    Tensor {
        /// The element type.
        dtype: DType,
        /// The dims.
        shape: Vec<i64>,
        /// Where.
        at: u64,
    },
    /// A shape.
    Shape(Vec<i64>),
    /// A scalar.
    Scalar(DType, Number),
    /// A text.
    Str(String),
    /// Nothing.
    None,
    /// A tuple of nothing.
    Unit,
    /// For a host function.
    Output(Output),
    /// A function of the module.
    Function(u32),
    /// A kernel of the module, for a host function.
    Kernel(u32),
}

/// What an embedder may want to know of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// What made the file.
    pub producer: String,
    /// The signatures of the functions that the module offers, as text of the language: each an
    /// external function.
    pub signatures: String,
    /// The tensor programs that host functions are called with, as text of the language.
    pub programs: String,
    /// The name of the source.
    pub source_name: String,
    /// Results of the kernel check; `None` where there was none.
    pub kernel_check: Option<KernelCheck>,
    /// What kernels may do with sums of floats.
    pub numerics: Numerics,
    /// How many kernels call functions that are right within some units in the last place only.
    pub rounded: u64,
    /// Values that were built in, by the names under which they are stored: a digest of dtype, dims and elements.
    pub weights: Vec<(String, [u8; 32])>,
}

/// What kernels may do with sums of floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Numerics {
    /// They are formed in the order and dtypes of the text: results are those of the interpreter, bit for bit where
    /// no function of the C library is called.
    #[default]
    Exact,
    /// They are formed in any order, and those of f32 in f32: with `s` the sum of the magnitudes of `k` terms, a sum is off by at
    /// most `(k + 2) * 2^-24 * s`; products of matrices are called as such. What is computed in f64
    /// and ends in f32 or in a sum is computed in f32, where each operation rounds, with `exp`, `sigmoid` and `tanh`
    /// right within 2 units in the last place; with `erf`, `erfc` or `log` in f64, those right to 2^-30. Shares of a
    /// sum are multiplied by its inverse.
    Reassociated,
}

impl Numerics {
    /// The word for tools.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Reassociated => "reassociated",
        }
    }
}

/// Results of the kernel check: when kernels are compiled, each is compared with the interpreter of its tensor program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCheck {
    /// How many agree.
    pub agree: u64,
    /// Kernels that were not compared, each with the reason.
    pub unchecked: Vec<(String, String)>,
    /// Kernels that the C compiler miscompiled, so that all were compiled with fewer optimizations: each with the first
    /// difference and the compiler's version.
    pub miscompiled: Vec<(String, String)>,
}

impl Program {
    /// The names of the host functions that it calls, each once.
    #[must_use]
    pub fn host_functions(&self) -> Vec<&str> {
        let code = self.functions.iter().flat_map(|function| &function.code);
        let names = code.filter_map(|instruction| match instruction {
            Instruction::CallHost { name, .. } => self.texts.get(name.0 as usize),
            _ => None,
        });
        names.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Function {
    /// The place of an instruction.
    #[must_use]
    pub fn span_at(&self, at: usize) -> Span {
        self.spans.get(at).copied().unwrap_or_default()
    }
}
