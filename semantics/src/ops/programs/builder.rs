//! Tensor programs, statement by statement, in the order of their text.

use super::{Request, Sums, TensorSpec};
use crate::formula::Scalar;
use crate::tir::walk::loaded;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Check, Loop, LoopKind, Param, ScalarId, ScalarInfo, Scope, Stmt,
    StmtKind, TExpr,
};
use relax_syntax::ir::{DimVar, TensorProgram};
use relax_syntax::span::Span;

/// A buffer of the program that is being written.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    id: BufferId,
    pub(super) dims: Vec<Dim>,
    pub(super) dtype: DType,
}

impl Buffer {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// `B[i, j]`
    pub(super) fn at(&self, indices: &[Scalar]) -> Scalar {
        let indices = indices.iter().map(|index| index.0.clone()).collect();
        Scalar(TExpr::Load { buffer: self.id, indices })
    }

    /// `f64(B[i, j])`
    pub(super) fn wide(&self, indices: &[Scalar]) -> Scalar {
        self.at(indices).cast(self.dtype, DType::F64)
    }

    /// An element as an index, limited to `0..=most`; what is beyond i64 is far beyond that.
    pub(super) fn limited(&self, indices: &[Scalar], most: Scalar) -> Scalar {
        let element = self.at(indices);
        if self.dtype == DType::U64 {
            return element.min(most.into_dtype(DType::U64)).into_dtype(DType::I64);
        }
        element.cast(self.dtype, DType::I64).clamped(0, most)
    }
}

/// A program that is being written.
pub struct Builder {
    program: TensorProgram,
    body: Vec<Stmt>,
    /// Loops around the statement that is written next.
    depth: usize,
    /// Loops so far.
    counted: usize,
    /// Its inputs, each with the parameter of the operator that it is for.
    inputs: Vec<(&'static str, Buffer)>,
    /// What it writes.
    pub(super) outputs: Vec<Buffer>,
    /// Whether the error of each addition is carried along in sums of f64.
    pub(super) compensates: bool,
}

impl Builder {
    /// With a scalar for each unknown of the call, a buffer for each operand, then those of the result.
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
        let (inputs, outputs) = (Vec::new(), Vec::new());
        let compensates = request.sums == Sums::Compensated;
        let body = Vec::new();
        let mut builder =
            Self { program, body, depth: 0, counted: 0, inputs, outputs, compensates };
        for name in &request.scalars {
            builder.scalar(name.clone(), Some(DType::I64));
        }
        let mut taken = 0;
        for input in &request.inputs {
            let buffer = if input.is_passed {
                taken += 1;
                builder.parameter(&format!("X{}", taken - 1), &input.spec)
            } else {
                let TensorSpec { dims, dtype } = input.spec.clone();
                Buffer { id: BufferId(u32::MAX), dims, dtype }
            };
            builder.inputs.push((input.param, buffer));
        }
        for (at, out) in request.outs.iter().enumerate() {
            let name = if request.outs.len() == 1 { "Y".to_owned() } else { format!("Y{at}") };
            let buffer = builder.parameter(&name, out);
            builder.outputs.push(buffer);
        }
        for at in 0..request.scalars.len() {
            let id = u32::try_from(at).expect("invariant: few scalars");
            builder.program.params.push(Param::Scalar(ScalarId(id)));
        }
        builder
    }

    fn parameter(&mut self, name: &str, tensor: &TensorSpec) -> Buffer {
        for dim in &tensor.dims {
            dim.visit_vars(&mut |name| {
                if !self.program.dims.iter().any(|dim| dim.name == *name) {
                    let mut dim = DimVar::new(name.clone(), Span::default());
                    dim.in_signature = true;
                    self.program.dims.push(dim);
                }
            });
        }
        let buffer = self.buffer(name, tensor);
        self.program.params.push(Param::Buffer(buffer.id));
        buffer
    }

    /// The buffer of a parameter that was given.
    pub(super) fn input(&self, param: &str) -> Option<Buffer> {
        self.list(param).into_iter().next()
    }

    /// The buffers of a parameter that takes several tensors.
    pub(super) fn list(&self, param: &str) -> Vec<Buffer> {
        let own = self.inputs.iter().filter(|(name, _)| *name == param);
        own.map(|(_, buffer)| buffer.clone()).collect()
    }

    /// The one output.
    pub(super) fn output(&self) -> Buffer {
        self.outputs[0].clone()
    }

    fn buffer(&mut self, name: &str, tensor: &TensorSpec) -> Buffer {
        let id = u32::try_from(self.program.buffers.len()).expect("invariant: few buffers");
        self.program.buffers.push(BufferInfo {
            name: Name::new(name),
            shape: tensor.dims.clone(),
            dtype: tensor.dtype,
            scope: Scope::Global,
            span: Span::default(),
        });
        Buffer { id: BufferId(id), dims: tensor.dims.clone(), dtype: tensor.dtype }
    }

    fn scalar(&mut self, name: Name, dtype: Option<DType>) -> ScalarId {
        let id = u32::try_from(self.program.scalars.len()).expect("invariant: few scalars");
        self.program.scalars.push(ScalarInfo { name, dtype, span: Span::default() });
        ScalarId(id)
    }

    /// A buffer of its own, under a name that is used once.
    pub(super) fn allocate(&mut self, name: &str, dims: &[Dim], dtype: DType) -> Buffer {
        let buffer = self.buffer(name, &TensorSpec { dims: dims.to_vec(), dtype });
        self.push(StmtKind::Alloc(buffer.id));
        buffer
    }

    /// Statements for every index of `dims`. An outermost nest is one computation, a block.
    pub(super) fn nest(&mut self, dims: &[Dim], body: impl FnOnce(&mut Self, &[Scalar])) {
        let ranges: Vec<_> = dims.iter().map(|dim| (0.into(), dim.into())).collect();
        self.ranges(&ranges, body);
    }

    /// The same for ranges that may depend on loops around them.
    pub(super) fn ranges(
        &mut self,
        ranges: &[(Scalar, Scalar)],
        body: impl FnOnce(&mut Self, &[Scalar]),
    ) {
        let is_outermost = self.depth == 0;
        let loops: Vec<Loop> = ranges.iter().map(|range| self.counted(range)).collect();
        let variables: Vec<Scalar> = loops.iter().map(|each| each.var.into()).collect();
        // A statement of rank 0 is inside of its block, too.
        self.depth += loops.len().max(1);
        let mut inside = self.inside(|builder| body(builder, &variables));
        self.depth -= loops.len().max(1);
        if is_outermost {
            let name = self.program.name.trim_start_matches("legal_").replace('.', "_");
            let (axes, init) = (Vec::new(), Vec::new());
            let block = StmtKind::Block { name: Some(name.into()), axes, init, body: inside };
            inside = vec![Stmt { kind: block, span: Span::default() }];
        }
        if loops.is_empty() {
            self.body.extend(inside);
        } else {
            self.push(StmtKind::For { loops, kind: LoopKind::Grid, body: inside });
        }
    }

    fn counted(&mut self, (start, stop): &(Scalar, Scalar)) -> Loop {
        let name = Name::new(format!("i{}", self.counted));
        self.counted += 1;
        let var = self.scalar(name, Some(DType::I64));
        Loop { var, start: start.0.clone(), stop: stop.0.clone() }
    }

    /// What `write` writes, by itself.
    fn inside(&mut self, write: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let before = std::mem::take(&mut self.body);
        write(self);
        std::mem::replace(&mut self.body, before)
    }

    /// Statements for where a condition holds.
    pub(super) fn when(&mut self, condition: Scalar, then: impl FnOnce(&mut Self)) {
        let then = self.inside(then);
        self.push(StmtKind::If { condition: condition.0, then, otherwise: Vec::new() });
    }

    /// A check with the trap of an operator's constraint.
    pub(super) fn check(&mut self, holds: Scalar, trap: &str, message: &str, values: &[Scalar]) {
        let values = values.iter().map(|value| value.0.clone()).collect();
        let (trap, message) = (Name::new(trap), Name::new(message));
        self.push(StmtKind::Check(Box::new(Check { condition: holds.0, trap, message, values })));
    }

    /// A check whose message shows elements of integer dtypes. A message holds numbers of i64: of an element
    /// beyond them it has the last digit after the others, in a check of its own.
    pub(super) fn check_elements(
        &mut self,
        holds: &Scalar,
        trap: &str,
        message: &str,
        elements: &[(Scalar, DType)],
    ) {
        let wide: Vec<usize> =
            (0..elements.len()).filter(|&at| elements[at].1 == DType::U64).collect();
        for chosen in (0..1_usize << wide.len()).rev() {
            let is_beyond = |at: usize| {
                wide.iter().position(|&own| own == at).is_some_and(|k| (chosen >> k) & 1 == 1)
            };
            let (mut condition, mut texts, mut values) = (holds.clone(), Vec::new(), Vec::new());
            for (at, (element, dtype)) in elements.iter().enumerate() {
                if is_beyond(at) {
                    let most = Scalar::from(i64::MAX).into_dtype(DType::U64);
                    condition = condition.or(element.at_most(most));
                    let (tens, ones) = (element.clone().floor_div(10), element.clone() % 10);
                    values.extend([tens, ones].map(|part| part.into_dtype(DType::I64)));
                    texts.push("{}{}");
                } else {
                    values.push(element.clone().cast(*dtype, DType::I64));
                    texts.push("{}");
                }
            }
            let mut parts = message.split("{}");
            let mut shown = parts.next().unwrap_or_default().to_owned();
            for (text, part) in texts.into_iter().zip(parts) {
                shown.push_str(text);
                shown.push_str(part);
            }
            self.check(condition, trap, &shown, &values);
        }
    }

    /// A name for a value.
    pub(super) fn bind(&mut self, value: Scalar) -> Scalar {
        let bound = self.program.scalars.iter().filter(|scalar| scalar.dtype.is_none());
        let name = Name::new(format!("t{}", bound.count()));
        let var = self.scalar(name, None);
        self.push(StmtKind::Let { var, value: value.0 });
        var.into()
    }

    /// `B[i, j] = e`
    pub(super) fn store(&mut self, to: &Buffer, indices: &[Scalar], value: impl Into<Scalar>) {
        self.write(to, indices, None, value.into());
    }

    /// `B[i, j] += e`, or with another operation.
    pub(super) fn update(&mut self, to: &Buffer, indices: &[Scalar], op: BinOp, value: Scalar) {
        self.write(to, indices, Some(op), value);
    }

    fn write(&mut self, to: &Buffer, indices: &[Scalar], update: Option<BinOp>, value: Scalar) {
        let indices = indices.iter().map(|index| index.0.clone()).collect();
        self.push(StmtKind::Store { buffer: to.id, indices, update, value: value.0 });
    }

    /// One store for each element of a buffer.
    pub(super) fn fill(&mut self, to: &Buffer, value: impl FnOnce(&[Scalar]) -> Scalar) {
        self.nest(&to.dims, |builder, at| builder.store(to, at, value(at)));
    }

    fn push(&mut self, kind: StmtKind) {
        self.body.push(Stmt { kind, span: Span::default() });
    }

    /// The program, and the positions of the inputs that it does not read.
    pub(super) fn finish(mut self) -> (TensorProgram, Vec<usize>) {
        let read = loaded(&self.body);
        let inputs = self.inputs.iter().enumerate();
        let unread = inputs.filter(|(_, (_, buffer))| !read.contains(&buffer.id));
        let unread = unread.map(|(at, _)| at).collect();
        self.program.body = Some(self.body);
        (self.program, unread)
    }
}
