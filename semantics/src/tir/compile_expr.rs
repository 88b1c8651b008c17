//! Expressions to flat code: each node writes a register of its own, literals are registers that
//! are set before anything runs, and scalars are used where they are.

use super::code::{Op, Reg};
use super::compile::{Compiler, index};
use super::kernels::{self, Kernel1, Kernel2, Origin};
use super::scalar::register;
use super::typing::{Typed, cast_source, is_comparison, symbol};
use crate::tensor::Number;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};

const CHECKED: &str = "invariant: the checker accepted this operation";

impl Compiler<'_> {
    /// A register of its own.
    pub(super) fn fresh(&mut self) -> Reg {
        self.code.initial.push(0);
        index(self.code.initial.len() - 1)
    }

    /// A register that always holds `bits`.
    pub(super) fn constant(&mut self, bits: u64) -> Reg {
        if let Some(&register) = self.constants.get(&bits) {
            return register;
        }
        let register = self.fresh();
        self.code.initial[register as usize] = bits;
        self.constants.insert(bits, register);
        register
    }

    /// The same value in a register that nothing else writes to.
    pub(super) fn copy(&mut self, from: Reg) -> Reg {
        let to = self.fresh();
        self.emit(Op::Move { to, from });
        to
    }

    fn typed(&self, expr: &TExpr) -> Typed {
        self.types.infer(expr, self.span).expect(CHECKED)
    }

    /// The dtype of an expression that nothing else gives one.
    pub(super) fn dtype(&self, expr: &TExpr) -> DType {
        self.typed(expr).dtype()
    }

    /// An integer as an i64: a `u64` beyond it becomes the largest, which is out of any range.
    pub(super) fn as_index(&mut self, expr: &TExpr) -> Reg {
        let dtype = self.dtype(expr);
        let from = self.expr(expr, dtype);
        if dtype != DType::U64 {
            return from;
        }
        let to = self.fresh();
        self.emit(Op::Pure1 { f: |a| a.min(i64::MAX as u64), to, a: from });
        to
    }

    /// The value of an expression that has, or as a literal takes, the dtype `want`.
    pub(super) fn expr(&mut self, expr: &TExpr, want: DType) -> Reg {
        match expr {
            TExpr::Int(value) => self.constant(register(want, Number::Int(i128::from(*value)))),
            TExpr::Float(value) => self.constant(register(want, Number::Float(*value))),
            TExpr::Bool(value) => self.constant(u64::from(*value)),
            TExpr::Scalar(id) => self.code.scalar(*id),
            TExpr::Dim(name) => self.code.dims[name],
            TExpr::Load { buffer, indices } => {
                let at = self.indices(indices);
                let to = self.fresh();
                self.emit(Op::Load { to, buffer: buffer.0, at });
                to
            }
            TExpr::Unary(op, operand) => self.unary(*op, operand, want),
            TExpr::Binary(op, operands) => self.binary(*op, operands, want),
            TExpr::Select(parts) => {
                let condition = self.expr(&parts.0, DType::Bool);
                let skip = self.emit(Op::JumpUnless { condition, to: 0 });
                let taken = self.expr(&parts.1, want);
                let to = self.copy(taken);
                let jump = self.emit(Op::Jump { to: 0 });
                self.land(skip);
                let from = self.expr(&parts.2, want);
                self.emit(Op::Move { to, from });
                self.land(jump);
                to
            }
            TExpr::Cast(target, operand) => {
                let source = cast_source(self.typed(operand).ty, *target);
                let a = self.expr(operand, source);
                if source == *target {
                    return a;
                }
                let to = self.fresh();
                self.emit(Op::Pure1 { f: kernels::cast(source, *target), to, a });
                to
            }
            TExpr::Call(function, operands) => self.call(*function, operands, want),
        }
    }

    fn unary(&mut self, op: UnOp, operand: &TExpr, want: DType) -> Reg {
        let dtype = if op == UnOp::Not { DType::Bool } else { want };
        let origin = self.typed(operand).origin;
        let a = self.expr(operand, dtype);
        let kernel = kernels::unary(op, dtype, origin).expect(CHECKED);
        self.apply1(kernel, "-", dtype, a)
    }

    fn apply1(&mut self, kernel: Kernel1, symbol: &'static str, dtype: DType, a: Reg) -> Reg {
        let to = self.fresh();
        match kernel {
            Kernel1::Pure(f) => self.emit(Op::Pure1 { f, to, a }),
            Kernel1::Checked(f) => {
                let at = self.emit(Op::Checked1 { f, to, a });
                self.code.symbols.insert(at, (symbol, dtype));
                at
            }
        };
        to
    }

    fn binary(&mut self, op: BinOp, operands: &(TExpr, TExpr), want: DType) -> Reg {
        if matches!(op, BinOp::And | BinOp::Or) {
            return self.short_circuit(op, operands);
        }
        let (left, right) = (self.typed(&operands.0), self.typed(&operands.1));
        let data = left.origin == Origin::Data || right.origin == Origin::Data;
        let dtype = if is_comparison(op) { compared(left, right) } else { want };
        let a = self.expr(&operands.0, dtype);
        let b = self.expr(&operands.1, dtype);
        let origin = if data { Origin::Data } else { Origin::Index };
        self.operation(op, dtype, origin, a, b)
    }

    /// `a op b` on operands of one dtype.
    pub(super) fn operation(
        &mut self,
        op: BinOp,
        dtype: DType,
        origin: Origin,
        a: Reg,
        b: Reg,
    ) -> Reg {
        let to = self.fresh();
        match kernels::binary(op, dtype, origin).expect(CHECKED) {
            Kernel2::Pure(f) => {
                self.emit(Op::Pure2 { f, to, a, b });
            }
            Kernel2::Checked(f) => {
                let at = self.emit(Op::Checked2 { f, to, a, b });
                self.code.symbols.insert(at, (symbol(op), dtype));
            }
        }
        to
    }

    fn short_circuit(&mut self, op: BinOp, operands: &(TExpr, TExpr)) -> Reg {
        let first = self.expr(&operands.0, DType::Bool);
        let to = self.copy(first);
        let skip = if op == BinOp::And {
            self.emit(Op::JumpUnless { condition: to, to: 0 })
        } else {
            self.emit(Op::JumpIf { condition: to, to: 0 })
        };
        let from = self.expr(&operands.1, DType::Bool);
        self.emit(Op::Move { to, from });
        self.land(skip);
        to
    }

    fn call(&mut self, function: Intrinsic, operands: &[TExpr], want: DType) -> Reg {
        let origin = self.typed(&operands[0]).origin;
        let registers: Vec<Reg> = operands.iter().map(|operand| self.expr(operand, want)).collect();
        match registers[..] {
            [a] => {
                let kernel = kernels::call1(function, want, origin).expect(CHECKED);
                self.apply1(kernel, function.name(), want, a)
            }
            [a, b] => match kernels::call2(function, want).expect(CHECKED) {
                Kernel2::Pure(f) => {
                    let to = self.fresh();
                    self.emit(Op::Pure2 { f, to, a, b });
                    to
                }
                Kernel2::Checked(_) => unreachable!("invariant: functions of two floats are total"),
            },
            [a, b, c] => {
                let to = self.fresh();
                let f = kernels::call3(function, want).expect(CHECKED);
                self.emit(Op::Pure3 { f, to, a, b, c });
                to
            }
            _ => unreachable!("invariant: functions of scalars take one to three operands"),
        }
    }
}

/// The dtype in which two operands are compared.
pub(super) fn compared(left: Typed, right: Typed) -> DType {
    use super::typing::Ty;
    match (left.ty, right.ty) {
        (Ty::Of(dtype), _) | (_, Ty::Of(dtype)) => dtype,
        (Ty::Int, Ty::Int) => DType::I64,
        _ => DType::F32,
    }
}
