//! Tensor programs, statement by statement, in the order of their text.

use super::{Request, TensorSpec};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Intrinsic, Loop, LoopKind, Param, ScalarId, ScalarInfo, Scope,
    Stmt, StmtKind, TExpr,
};
use relax_syntax::ir::{DimVar, TensorProgram};
use relax_syntax::span::Span;

/// A program that is being written.
pub(super) struct Builder {
    program: TensorProgram,
    body: Vec<Stmt>,
    /// Its inputs, in the order of the call.
    pub(super) inputs: Vec<BufferId>,
    /// What it writes.
    pub(super) output: BufferId,
}

impl Builder {
    /// With a buffer for each operand, then one for the result.
    pub(super) fn new(request: &Request) -> Self {
        let program = TensorProgram {
            name: Name::new(format!("legal_{}", request.row.short_name())),
            span: Span::default(),
            params: Vec::new(),
            attrs: Vec::new(),
            dims: Vec::new(),
            body: None,
            buffers: Vec::new(),
            scalars: Vec::new(),
        };
        let mut builder =
            Self { program, body: Vec::new(), inputs: Vec::new(), output: BufferId(0) };
        for (at, operand) in request.operands.iter().enumerate() {
            let input = builder.parameter(&format!("X{at}"), operand);
            builder.inputs.push(input);
        }
        builder.output = builder.parameter("Y", &request.out);
        builder
    }

    fn parameter(&mut self, name: &str, tensor: &TensorSpec) -> BufferId {
        for dim in &tensor.dims {
            if let Dim::Var(name) = dim {
                self.declare(name);
            }
        }
        let id = self.buffer(name, tensor);
        self.program.params.push(Param::Buffer(id));
        id
    }

    fn declare(&mut self, name: &Name) {
        if !self.program.dims.iter().any(|dim| dim.name == *name) {
            let mut dim = DimVar::new(name.clone(), Span::default());
            dim.in_signature = true;
            self.program.dims.push(dim);
        }
    }

    fn buffer(&mut self, name: &str, tensor: &TensorSpec) -> BufferId {
        let id = u32::try_from(self.program.buffers.len()).expect("invariant: few buffers");
        self.program.buffers.push(BufferInfo {
            name: Name::new(name),
            shape: tensor.dims.clone(),
            dtype: tensor.dtype,
            scope: Scope::Global,
            span: Span::default(),
        });
        BufferId(id)
    }

    /// A buffer of its own.
    pub(super) fn allocate(&mut self, name: &str, dims: Vec<Dim>, dtype: DType) -> BufferId {
        let id = self.buffer(name, &TensorSpec { dims, dtype });
        self.push(StmtKind::Alloc(id));
        id
    }

    /// Stores to `buffer` for every index of `dims`: `store` gives the indices and the value.
    pub(super) fn for_each(
        &mut self,
        dims: &[Dim],
        buffer: BufferId,
        update: Option<BinOp>,
        store: impl FnOnce(&[TExpr]) -> (Vec<TExpr>, TExpr),
    ) {
        let loops: Vec<Loop> =
            dims.iter().enumerate().map(|(at, dim)| self.counted(at, dim)).collect();
        let variables: Vec<TExpr> = loops.iter().map(|each| TExpr::Scalar(each.var)).collect();
        let (indices, value) = store(&variables);
        let kind = StmtKind::Store { buffer, indices, update, value };
        if loops.is_empty() {
            self.push(kind);
        } else {
            let body = vec![Stmt { kind, span: Span::default() }];
            self.push(StmtKind::For { loops, kind: LoopKind::Grid, body });
        }
    }

    fn counted(&mut self, at: usize, dim: &Dim) -> Loop {
        let id = u32::try_from(self.program.scalars.len()).expect("invariant: few scalars");
        let name = Name::new(format!("i{at}"));
        let dtype = Some(DType::I64);
        self.program.scalars.push(ScalarInfo { name, dtype, span: Span::default() });
        Loop { var: ScalarId(id), start: TExpr::Int(0), stop: extent(dim) }
    }

    fn push(&mut self, kind: StmtKind) {
        self.body.push(Stmt { kind, span: Span::default() });
    }

    /// The program.
    pub(super) fn finish(mut self) -> TensorProgram {
        self.program.body = Some(self.body);
        self.program
    }
}

/// A dim as a scalar.
pub(crate) fn extent(dim: &Dim) -> TExpr {
    match dim {
        Dim::Int(value) => TExpr::Int(*value),
        Dim::Var(name) => TExpr::Dim(name.clone()),
        Dim::Op(op, operands) => {
            let op = match op {
                DimOp::Add => BinOp::Add,
                DimOp::Sub => BinOp::Sub,
                DimOp::Mul => BinOp::Mul,
                DimOp::FloorDiv => BinOp::FloorDiv,
                DimOp::FloorMod => BinOp::Mod,
                DimOp::Min => BinOp::Min,
                DimOp::Max => BinOp::Max,
                DimOp::CeilDiv => unreachable!("invariant: renaming leaves no `ceildiv`"),
            };
            binary(op, extent(&operands.0), extent(&operands.1))
        }
    }
}

/// `a op b`
pub(super) fn binary(op: BinOp, a: TExpr, b: TExpr) -> TExpr {
    TExpr::Binary(op, Box::new((a, b)))
}

/// `B[i, j]`
pub(super) fn load(buffer: BufferId, indices: Vec<TExpr>) -> TExpr {
    TExpr::Load { buffer, indices }
}

/// `exp(x)`
pub(super) fn call(function: Intrinsic, operand: TExpr) -> TExpr {
    TExpr::Call(function, vec![operand])
}

/// `f32(x)`, where `x` is of another dtype.
pub(super) fn cast(from: DType, to: DType, value: TExpr) -> TExpr {
    if from == to { value } else { TExpr::Cast(to, Box::new(value)) }
}

/// `select(c, a, b)`
pub(super) fn select(condition: TExpr, then: TExpr, otherwise: TExpr) -> TExpr {
    TExpr::Select(Box::new((condition, then, otherwise)))
}

/// The greater (`BinOp::Max`) or lesser (`BinOp::Min`) of two, where of two zeros the positive is
/// the greater one: scalars of programs take the first of equals, operators do not.
pub(super) fn extremum(op: BinOp, dtype: DType, a: TExpr, b: TExpr) -> TExpr {
    let plain = binary(op, a.clone(), b.clone());
    if !dtype.is_float() {
        return plain;
    }
    // The sum of two zeros is negative only when both are; of equals, only zeros differ.
    let zeros = match op {
        BinOp::Max => binary(BinOp::Add, a.clone(), b.clone()),
        _ => negate(binary(BinOp::Add, negate(a.clone()), negate(b.clone()))),
    };
    let both = binary(
        BinOp::And,
        binary(BinOp::Equal, a, TExpr::Float(0.0)),
        binary(BinOp::Equal, b, TExpr::Float(0.0)),
    );
    select(both, zeros, plain)
}

/// `-x`
pub(super) fn negate(value: TExpr) -> TExpr {
    TExpr::Unary(relax_syntax::ir::tensor::UnOp::Negate, Box::new(value))
}

/// The index into a tensor of `from` dims for an index into one of `to` dims, to which it
/// broadcasts; none where a dim may be 1 only for some sizes.
pub(super) fn broadcast_index(from: &[Dim], to: &[Dim], indices: &[TExpr]) -> Option<Vec<TExpr>> {
    let skipped = to.len().checked_sub(from.len())?;
    let pairs = from.iter().zip(&to[skipped..]).zip(&indices[skipped..]);
    let each = pairs.map(|((own, wide), index)| match own {
        _ if own == wide => Some(index.clone()),
        Dim::Int(1) => Some(TExpr::Int(0)),
        _ => None,
    });
    each.collect()
}
