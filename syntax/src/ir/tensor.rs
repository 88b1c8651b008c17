//! Tensor programs: loops over buffers, in destination-passing style.
//!
//! A kernel is a tensor program with scheduling annotations (loop kinds) and memory scopes; there is
//! no second kernel language.

use super::{Attrs, DimVar};
use crate::Name;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::span::Span;

mod loops;

pub use loops::{Loop, LoopKind};

/// A buffer of one tensor program: an index into [`TensorProgram::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A scalar variable of one tensor program: an index into [`TensorProgram::scalars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(pub u32);

/// A function marked `@tensorir_function`.
#[derive(Clone, Debug)]
pub struct TensorProgram {
    /// Its name, unique in the module.
    pub name: Name,
    /// The place of its header.
    pub span: Span,
    /// Buffers (inputs, then outputs) and extra scalars, in order.
    pub params: Vec<Param>,
    /// `func_attr` lines.
    pub attrs: Attrs,
    /// Symbolic variables, in order of declaration.
    pub dims: Vec<DimVar>,
    /// `None` for an external program (`...`).
    pub body: Option<Vec<Stmt>>,
    /// Every buffer: parameters and allocations.
    pub buffers: Vec<BufferInfo>,
    /// Every scalar: parameters, loop variables, block axes, bindings. Names may repeat.
    pub scalars: Vec<ScalarInfo>,
}

/// Equality of what the text says; places do not count.
impl PartialEq for TensorProgram {
    fn eq(&self, other: &Self) -> bool {
        (
            &self.name,
            &self.params,
            &self.attrs,
            &self.dims,
            &self.body,
            &self.buffers,
            &self.scalars,
        ) == (
            &other.name,
            &other.params,
            &other.attrs,
            &other.dims,
            &other.body,
            &other.buffers,
            &other.scalars,
        )
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// `X: Buffer(("n", 4), "f32")`
    Buffer(BufferId),
    /// `m: int` where `m` is no symbolic variable.
    Scalar(ScalarId),
    /// `n: int` where `n` is a symbolic variable of the program: binds it.
    Dim(Name),
}

/// What is declared of a buffer.
#[derive(Clone, Debug)]
pub struct BufferInfo {
    /// As written.
    pub name: Name,
    /// Its dims.
    pub shape: Vec<Dim>,
    /// Its element type.
    pub dtype: DType,
    /// Where it lives; parameters live in global memory.
    pub scope: Scope,
    /// Where it was declared.
    pub span: Span,
}

/// Equality of what the text says; places do not count.
impl PartialEq for BufferInfo {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.shape, self.dtype, self.scope)
            == (&other.name, &other.shape, other.dtype, other.scope)
    }
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Seen by everyone.
    Global,
    /// One a thread block.
    Shared,
    /// One a thread.
    Local,
}

impl Scope {
    /// As written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scope::Global => "global",
            Scope::Shared => "shared",
            Scope::Local => "local",
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Scope> {
        [Scope::Global, Scope::Shared, Scope::Local].into_iter().find(|scope| scope.name() == text)
    }
}

/// What is declared of a scalar.
#[derive(Clone, Debug)]
pub struct ScalarInfo {
    /// As written.
    pub name: Name,
    /// Declared (`m: int` is i64; loop variables are i64); `None` for a binding `t = e`, whose dtype
    /// follows from `e`.
    pub dtype: Option<DType>,
    /// Where it was bound.
    pub span: Span,
}

/// Equality of what the text says; places do not count.
impl PartialEq for ScalarInfo {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.dtype) == (&other.name, other.dtype)
    }
}

/// A statement with its place.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it stands (of a compound statement: its header).
    pub span: Span,
}

/// Equality of what the text says; places do not count.
impl PartialEq for Stmt {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// A loop, or a nest of them (`grid`), the first outermost.
    For {
        /// Variables with their ranges.
        loops: Vec<Loop>,
        /// How it is scheduled; never changes the meaning.
        kind: LoopKind,
        /// The body.
        body: Vec<Stmt>,
    },
    /// Statements that are one computation.
    Block {
        /// `block("mm")`
        name: Option<Name>,
        /// Explicit axes; empty when the loop variables themselves are the axes.
        axes: Vec<Axis>,
        /// Runs when every reduction axis is at its first value.
        init: Vec<Stmt>,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `B[i, j] = e`, or with an operation `B[i, j] += e`.
    Store {
        /// Written to.
        buffer: BufferId,
        /// One a dim.
        indices: Vec<TExpr>,
        /// `+ - * /`, or plain.
        update: Option<BinOp>,
        /// The value.
        value: TExpr,
    },
    /// `t = e`
    Let {
        /// What is bound; visible to the end of the enclosing body.
        var: ScalarId,
        /// To what.
        value: TExpr,
    },
    /// `if c: … else: …`
    If {
        /// A bool.
        condition: TExpr,
        /// When true.
        then: Vec<Stmt>,
        /// When false.
        otherwise: Vec<Stmt>,
    },
    /// `T = alloc_buffer(shape, dtype, scope)`: fresh, every element unwritten.
    Alloc(BufferId),
    /// Every thread of the block reaches this point before one goes on.
    Barrier,
    /// `check(condition, "take/C4", "… {}, found {}", n, i)`: where the condition is false the program stops with this
    /// trap, whose message says the values in the places of `{}`.
    Check(Box<Check>),
}

/// A condition that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// A bool.
    pub condition: TExpr,
    /// The trap id.
    pub trap: Name,
    /// What it says; each `{}` stands for a value.
    pub message: Name,
    /// Integers.
    pub values: Vec<TExpr>,
}

/// `vi = spatial(n, i)` or `vk = reduce(128, k)` at the head of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The axis variable, an i64.
    pub var: ScalarId,
    /// Spatial or reduction.
    pub kind: AxisKind,
    /// Values are 0 up to this.
    pub extent: TExpr,
    /// The value in terms of loop variables.
    pub value: TExpr,
}

/// What an axis of a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AxisKind {
    /// Distinct values write distinct elements.
    Spatial,
    /// Values are combined.
    Reduce,
}

/// A scalar expression.
#[derive(Clone, Debug)]
pub enum TExpr {
    /// An integer literal: takes the dtype of the other side, else i64.
    Int(i64),
    /// A float literal: takes the dtype of the other side, else f32.
    Float(f64),
    /// `True`, `False`
    Bool(bool),
    /// A scalar variable.
    Scalar(ScalarId),
    /// A symbolic variable, an i64.
    Dim(Name),
    /// `B[i, j]`
    Load {
        /// Read from.
        buffer: BufferId,
        /// One a dim.
        indices: Vec<TExpr>,
    },
    /// `-a`, `not a`, `~a`
    Unary(UnOp, Box<TExpr>),
    /// `a + b`, `a < b`, `a and b`, `min(a, b)`
    Binary(BinOp, Box<(TExpr, TExpr)>),
    /// `select(c, a, b)`: evaluates only the side it takes.
    Select(Box<(TExpr, TExpr, TExpr)>),
    /// `f16(x)`
    Cast(DType, Box<TExpr>),
    /// `exp(x)`, `pow(x, y)`, `fma(x, y, z)`
    Call(Intrinsic, Vec<TExpr>),
}

impl TExpr {
    /// `a + b` and its like.
    #[must_use]
    pub fn binary(op: BinOp, a: TExpr, b: TExpr) -> TExpr {
        TExpr::Binary(op, Box::new((a, b)))
    }

    /// The variable that it is, if it is one.
    #[must_use]
    pub fn as_scalar(&self) -> Option<ScalarId> {
        if let TExpr::Scalar(id) = self { Some(*id) } else { None }
    }
}

/// Prefix operators of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as their names say
pub enum UnOp {
    Negate,
    Not,
    Invert,
}

/// Infix operators of scalars, and `min` and `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as their names say
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Min,
    Max,
}

/// Functions of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as their names say
pub enum Intrinsic {
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Tanh,
    Erf,
    Sigmoid,
    Floor,
    Ceil,
    Round,
    Sin,
    Cos,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cosh,
    Sinh,
    Tan,
    Trunc,
    Expm1,
    Log1p,
    Erfc,
    Atan2,
    Pow,
    Fma,
}

impl Intrinsic {
    /// All of them.
    pub const ALL: [Intrinsic; 29] = [
        Intrinsic::Abs,
        Intrinsic::Exp,
        Intrinsic::Log,
        Intrinsic::Sqrt,
        Intrinsic::Rsqrt,
        Intrinsic::Tanh,
        Intrinsic::Erf,
        Intrinsic::Sigmoid,
        Intrinsic::Floor,
        Intrinsic::Ceil,
        Intrinsic::Round,
        Intrinsic::Sin,
        Intrinsic::Cos,
        Intrinsic::Acos,
        Intrinsic::Acosh,
        Intrinsic::Asin,
        Intrinsic::Asinh,
        Intrinsic::Atan,
        Intrinsic::Atanh,
        Intrinsic::Cosh,
        Intrinsic::Sinh,
        Intrinsic::Tan,
        Intrinsic::Trunc,
        Intrinsic::Expm1,
        Intrinsic::Log1p,
        Intrinsic::Erfc,
        Intrinsic::Atan2,
        Intrinsic::Pow,
        Intrinsic::Fma,
    ];

    /// As written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Intrinsic::Abs => "abs",
            Intrinsic::Exp => "exp",
            Intrinsic::Log => "log",
            Intrinsic::Sqrt => "sqrt",
            Intrinsic::Rsqrt => "rsqrt",
            Intrinsic::Tanh => "tanh",
            Intrinsic::Erf => "erf",
            Intrinsic::Sigmoid => "sigmoid",
            Intrinsic::Floor => "floor",
            Intrinsic::Ceil => "ceil",
            Intrinsic::Round => "round",
            Intrinsic::Sin => "sin",
            Intrinsic::Cos => "cos",
            Intrinsic::Acos => "acos",
            Intrinsic::Acosh => "acosh",
            Intrinsic::Asin => "asin",
            Intrinsic::Asinh => "asinh",
            Intrinsic::Atan => "atan",
            Intrinsic::Atanh => "atanh",
            Intrinsic::Cosh => "cosh",
            Intrinsic::Sinh => "sinh",
            Intrinsic::Tan => "tan",
            Intrinsic::Trunc => "trunc",
            Intrinsic::Expm1 => "expm1",
            Intrinsic::Log1p => "log1p",
            Intrinsic::Erfc => "erfc",
            Intrinsic::Atan2 => "atan2",
            Intrinsic::Pow => "pow",
            Intrinsic::Fma => "fma",
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Intrinsic> {
        Intrinsic::ALL.into_iter().find(|intrinsic| intrinsic.name() == text)
    }

    /// How many operands it takes.
    #[must_use]
    pub fn arity(self) -> usize {
        match self {
            Intrinsic::Pow | Intrinsic::Atan2 => 2,
            Intrinsic::Fma => 3,
            _ => 1,
        }
    }
}

impl TensorProgram {
    /// What is declared of a buffer.
    #[must_use]
    pub fn buffer(&self, id: BufferId) -> &BufferInfo {
        &self.buffers[id.0 as usize]
    }

    /// What is declared of a scalar.
    #[must_use]
    pub fn scalar(&self, id: ScalarId) -> &ScalarInfo {
        &self.scalars[id.0 as usize]
    }

    /// Whether a buffer is a parameter, and no allocation.
    #[must_use]
    pub fn is_param(&self, id: BufferId) -> bool {
        self.params.contains(&Param::Buffer(id))
    }

    /// The buffers among the parameters, in their order.
    pub fn buffer_params(&self) -> impl DoubleEndedIterator<Item = BufferId> + Clone + '_ {
        let id = |param: &Param| if let Param::Buffer(id) = *param { Some(id) } else { None };
        self.params.iter().filter_map(id)
    }
}
