//! Elementwise operators: an element of the result is a scalar formula over one element of each operand.
//!
//! The formula is stated once, in the row. Evaluation runs it as a tensor program, legalization writes
//! it into the program of a call, and proofs take its denotation.

use super::broadcast::broadcast_to;
use super::{Eval, Evaluate, Infer, Kind, Known, Limits, Operand, Operator, Traps, normalize_axis};
use crate::concrete::Concrete;
use crate::formula::Scalar;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, indices, strided_positions};
use crate::tir::{self, Options};
use crate::value::Value;
use ndarray::IxDyn;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    BufferId, BufferInfo, Intrinsic, Loop, LoopKind, Param, ScalarId, ScalarInfo, Scope, Stmt,
    StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::BTreeMap;

/// How an elementwise operator is computed.
#[derive(Clone, Copy)]
pub struct Elementwise {
    /// An element of the result, rounded or wrapped once.
    pub formula: Formula,
    /// Which element of each operand it reads.
    pub layout: Layout,
    /// The integers that its second operand may be; `None` where every element has a result.
    pub partial: Option<Partial>,
    /// Evaluation: [`evaluate`], except where the formula does not say all.
    pub(super) eval: fn(&Eval, &Elementwise) -> Result<Value, Stop>,
}

/// How indices of the result are indices of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All operands broadcast.
    Broadcast,
    /// The first operand has the shape of the result. Each other one is a vector along the axis that the
    /// parameter `axis` names, or has one element.
    Channels,
}

/// An element of the result; `None` where no scalar expression gives it.
pub type Formula = fn(&Element) -> Option<Scalar>;

/// What a formula is made of.
pub struct Element<'a> {
    /// An element of each tensor operand, in the order of the parameters.
    pub operands: &'a [Scalar],
    /// The dtype of each.
    pub dtypes: &'a [DType],
    /// The dtype of the first.
    pub dtype: DType,
    /// The dtype of the result.
    pub out: DType,
    /// The parameters that are no tensors.
    pub attrs: &'a BTreeMap<&'static str, Known>,
}

impl Element<'_> {
    /// The first operand.
    pub fn x(&self) -> Scalar {
        self.operands[0].clone()
    }

    /// The operands of a row that has two.
    ///
    /// # Panics
    /// When there is only one.
    #[must_use]
    pub fn pair(&self) -> (Scalar, Scalar) {
        (self.operands[0].clone(), self.operands[1].clone())
    }

    /// A function of all operands.
    #[must_use]
    pub fn call(&self, function: Intrinsic) -> Option<Scalar> {
        Some(self.x().call_with(function, &self.operands[1..]))
    }

    /// All operands in f64.
    #[must_use]
    pub fn in_f64(&self) -> Vec<Scalar> {
        let each = self.operands.iter().zip(self.dtypes);
        each.map(|(operand, &dtype)| operand.clone().cast(dtype, DType::F64)).collect()
    }

    /// A function of the first operand that is computed in f64 and rounded last.
    #[must_use]
    pub fn wide(&self, function: impl FnOnce(&Scalar) -> Scalar) -> Option<Scalar> {
        let wide = self.x().cast(self.dtype, DType::F64);
        Some(function(&wide).cast(DType::F64, self.dtype))
    }

    /// A float of the text; an integer is taken for one.
    #[must_use]
    pub fn float(&self, param: &str) -> Option<f64> {
        match self.attrs.get(param)? {
            Known::Float(value) => Some(*value),
            Known::Dim(dim) => dim.as_int().map(|value| value as f64),
            _ => None,
        }
    }

    /// 0 in the dtype of the operands, which are numbers.
    pub fn zero(&self) -> Scalar {
        if self.dtype.is_float() { 0.0.into() } else { 0.into() }
    }

    /// Whether an operand counts as true: a number does unless it is 0, and so does NaN.
    pub fn truth(&self, operand: Scalar) -> Scalar {
        if self.dtype == DType::Bool { operand } else { operand.differs(self.zero()) }
    }
}

/// An operation on integers that has no result for some of its second operand. Those are a trap under `C3`.
#[derive(Clone, Copy)]
pub struct Partial {
    /// The integers that it may be.
    pub defined: Defined,
    /// What the message says of the first operand and the second: `has no quotient by`.
    pub relation: &'static str,
}

/// Integers for which a partial operation has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defined {
    /// Divisors: all but 0.
    Nonzero,
    /// Exponents: from 0 on.
    NotNegative,
    /// Counts of a shift: at least 0 and below the number of bits of the dtype.
    BelowWidth,
}

impl Defined {
    /// The least and greatest of them, where they are a range.
    fn range(self, dtype: DType) -> Option<(i128, i128)> {
        match self {
            Defined::Nonzero => None,
            Defined::NotNegative => Some((0, i128::MAX)),
            Defined::BelowWidth => Some((0, bits(dtype) - 1)),
        }
    }

    /// Whether they contain all integers from `low` to `high`.
    #[must_use]
    pub fn covers(self, dtype: DType, low: i128, high: i128) -> bool {
        match self.range(dtype) {
            Some((least, most)) => least <= low && high <= most,
            None => low > 0 || high < 0,
        }
    }

    /// The same as a condition on an element.
    pub fn condition(self, dtype: DType, element: &Scalar) -> Scalar {
        match self {
            Defined::Nonzero => element.differs(0),
            Defined::NotNegative => element.at_least(0),
            Defined::BelowWidth => element.at_least(0).and(element.less(bits(dtype) as i64)),
        }
    }
}

fn bits(dtype: DType) -> i128 {
    dtype.size() as i128 * 8
}

impl Elementwise {
    pub(super) const fn of(formula: Formula) -> Self {
        Self { formula, layout: Layout::Broadcast, partial: None, eval: evaluate }
    }

    /// With operands that are vectors along one axis.
    pub(super) const fn by_channel(formula: Formula) -> Self {
        Self { layout: Layout::Channels, ..Self::of(formula) }
    }

    /// A tensor program without broadcasting: operands and result have these dims.
    #[must_use]
    pub fn program(
        &self,
        dtypes: &[DType],
        out: DType,
        attrs: &BTreeMap<&'static str, Known>,
        dims: &[Dim],
    ) -> Option<TensorProgram> {
        let ids = 0..u32::try_from(dims.len()).ok()?;
        let indices: Vec<TExpr> = ids.map(|id| TExpr::Scalar(ScalarId(id))).collect();
        let buffers = dtypes.iter().chain([&out]).enumerate().map(|(at, &dtype)| BufferInfo {
            name: Name::new(format!("B{at}")),
            shape: dims.to_vec(),
            dtype,
            scope: Scope::Global,
            span: Span::default(),
        });
        let buffers: Vec<BufferInfo> = buffers.collect();
        let ids = (0..u32::try_from(buffers.len()).ok()?).map(BufferId);
        let load = |buffer| Scalar(TExpr::Load { buffer, indices: indices.clone() });
        let operands: Vec<Scalar> = ids.clone().take(dtypes.len()).map(load).collect();
        let dtype = *dtypes.first()?;
        let element = Element { operands: &operands, dtypes, dtype, out, attrs };
        let Scalar(value) = (self.formula)(&element)?;
        let buffer = BufferId(u32::try_from(dtypes.len()).ok()?);
        let store = StmtKind::Store { buffer, indices: indices.clone(), update: None, value };
        let loops = dims.iter().zip(0..).map(|(dim, id)| Loop {
            var: ScalarId(id),
            start: TExpr::Int(0),
            stop: Scalar::from(dim).0,
        });
        let loops: Vec<Loop> = loops.collect();
        let statement = |kind| vec![Stmt { kind, span: Span::default() }];
        let body = match loops.is_empty() {
            true => statement(store),
            false => {
                let (kind, body) = (LoopKind::Grid, statement(store));
                statement(StmtKind::For { loops, kind, body })
            }
        };
        let scalars = (0..dims.len()).map(|at| ScalarInfo {
            name: Name::new(format!("i{at}")),
            dtype: Some(DType::I64),
            span: Span::default(),
        });
        Some(TensorProgram {
            name: Name::new("elementwise"),
            span: Span::default(),
            params: ids.map(Param::Buffer).collect(),
            attrs: Vec::new(),
            dims: Vec::new(),
            body: Some(body),
            scalars: scalars.collect(),
            buffers,
        })
    }
}

impl Operator {
    /// The formula of a row of which each element is one.
    #[must_use]
    pub fn elementwise(&self) -> Option<&Elementwise> {
        match &self.eval {
            Evaluate::Elementwise(own) => Some(own),
            Evaluate::Values(_) | Evaluate::Machine(_) => None,
        }
    }

    /// The dtype that an elementwise row deduces for tensors of these dtypes, of whatever shape; `None` where
    /// it rejects them. No other parameter but a dtype decides it.
    #[must_use]
    pub fn result_dtype(&'static self, dtypes: &[DType]) -> Option<DType> {
        let mut dtypes = dtypes.iter();
        let mut operands = Vec::new();
        for param in self.params {
            operands.push(match (param.kind, param.default) {
                (Kind::Tensor, _) => {
                    let (extents, dtype) = (Extents::Unknown, Some(*dtypes.next()?));
                    let annotation = Annotation::Tensor(TensorType { extents, dtype });
                    Operand { annotation, known: None }
                }
                (_, Some(default)) => Operand::of_known(default.known()),
                (_, None) => Operand::of_known(Known::Float(1.0)),
            });
        }
        let (facts, obligations) = (&mut Concrete, Vec::new());
        let mut infer = Infer { row: self, operands: &operands, facts, obligations, module: None };
        (self.infer)(&mut infer).ok()?.as_tensor()?.dtype
    }

    /// The row, of which some integers have no result.
    pub(super) const fn partial(mut self, defined: Defined, relation: &'static str) -> Self {
        self.traps = Traps::OnIntegers;
        if let Evaluate::Elementwise(own) = &mut self.eval {
            own.partial = Some(Partial { defined, relation });
        }
        self
    }

    /// The row, evaluated apart where the formula does not say all.
    pub(super) const fn evaluated(
        mut self,
        eval: fn(&Eval, &Elementwise) -> Result<Value, Stop>,
    ) -> Self {
        if let Evaluate::Elementwise(own) = &mut self.eval {
            own.eval = eval;
        }
        self
    }
}

/// Runs the formula on all elements.
pub(super) fn evaluate(eval: &Eval, own: &Elementwise) -> Result<Value, Stop> {
    let (out, shape) = eval.out_tensor()?;
    let tensors = operands(eval, own, &shape)?;
    let params = eval.row.params.iter().zip(eval.values);
    let attrs = params.filter_map(|(param, value)| match (param.kind, value) {
        (Kind::Float, Value::Prim(_, number)) => Some((param.name, Known::Float(number.as_f64()))),
        _ => None,
    });
    let attrs = attrs.collect();
    require(eval, own, &tensors, &shape)?;
    let count = tensors[0].len();
    let dtypes: Vec<DType> = tensors.iter().map(Tensor::dtype).collect();
    let dims = [Dim::Int(i64::try_from(count).expect("invariant: limits bound the elements"))];
    let program = own.program(&dtypes, out, &attrs, &dims).unwrap_or_else(|| {
        panic!("invariant: `{}` evaluates apart what has no formula", eval.row.name)
    });
    let mut buffers: Vec<Tensor> = tensors.iter().map(|own| own.reshaped(&[count])).collect();
    buffers.push(Tensor::full(out, &[count], Number::Int(0)));
    // A call is one step of the interpreter, however many elements there are; memory is bounded as around it.
    let limits = Limits { steps: u64::MAX, ..eval.limits.clone() };
    let left = tir::run(&program, buffers, &[], &Options { limits, ..Options::default() })?;
    let result = left.last().expect("invariant: the last buffer is the result");
    Ok(Value::Tensor(result.reshaped(&shape)))
}

/// The tensors, stretched to the shape of the result.
pub(super) fn operands(
    eval: &Eval,
    own: &Elementwise,
    shape: &[usize],
) -> Result<Vec<Tensor>, Stop> {
    let tensors = eval.row.params.iter().filter(|param| param.kind == Kind::Tensor).enumerate();
    let stretched = tensors.map(|(at, param)| {
        let tensor = eval.tensor(param.name)?;
        if own.layout == Layout::Broadcast || at == 0 {
            return Ok(broadcast_to(tensor, shape));
        }
        let mut steps = vec![0; shape.len()];
        if let Some(axis) = normalize_axis(eval.int("axis"), shape.len()) {
            steps[axis] = usize::from(tensor.len() != 1);
        }
        Ok(tensor.select(shape, &strided_positions(shape, &steps)))
    });
    stretched.collect()
}

/// Stops where there is no result of two integers.
pub(super) fn require(
    eval: &Eval,
    own: &Elementwise,
    tensors: &[Tensor],
    shape: &[usize],
) -> Result<(), Stop> {
    let (Some(partial), [a, b]) = (own.partial, tensors) else { return Ok(()) };
    if a.dtype().is_float() {
        return Ok(());
    }
    let (dtype, values) = (b.dtype(), b.to_ints());
    let undefined = values.iter().position(|&value| !partial.defined.covers(dtype, value, value));
    let Some(index) = undefined.and_then(|position| indices(shape).nth(position)) else {
        return Ok(());
    };
    let (a, b) = (a.to_ints()[IxDyn(&index)], values[IxDyn(&index)]);
    let message = format!("{a} {} {b}, at element {index:?} of the result", partial.relation);
    Err(eval.trap("C3", message))
}
