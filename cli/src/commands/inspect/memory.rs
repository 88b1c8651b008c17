//! The memory plan of a compiled function, as terms over its dims, read off the instructions of the VM.

use relax_runtime::instruction::{Code, DimOp as Op, Instruction, Operand};
use relax_runtime::program::{Constant, Function, Program};
use relax_runtime::{Number, dense_bytes};
use relax_symbolic::Prover;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::Facts;
use std::collections::BTreeMap;

/// The storages of a function in the order of its code, in bytes; `None` for a size that is computed otherwise.
pub(super) struct Plan {
    pub(super) storages: Vec<Option<Dim>>,
    /// Tensors in them.
    pub(super) tensors: usize,
}

impl Plan {
    /// All storages together.
    pub(super) fn total(&self) -> Option<Dim> {
        let sizes = self.storages.iter().cloned().collect::<Option<Vec<Dim>>>()?;
        let sum = |sum: Dim, size| Dim::op(DimOp::Add, sum, size);
        Some(simple(&sizes.into_iter().fold(Dim::Int(0), sum)))
    }
}

/// What is known of dims and registers at a place of the code.
#[derive(Default)]
struct Terms {
    slots: BTreeMap<i64, Dim>,
    shapes: BTreeMap<u32, Vec<Dim>>,
}

pub(super) fn plan(program: &Program, function: &Function) -> Plan {
    let mut terms = Terms::default();
    let mut plan = Plan { storages: Vec::new(), tensors: 0 };
    for instruction in &function.code {
        match instruction {
            Instruction::AllocStorage { size, dtype, .. } => {
                let elements = terms.dims(program, *size);
                let bytes = dense_bytes(*dtype, &[1]).and_then(|bytes| i64::try_from(bytes).ok());
                let size = elements.zip(bytes).map(|(dims, bytes)| {
                    simple(&Dim::op(DimOp::Mul, Dim::product(&dims), Dim::Int(bytes)))
                });
                plan.storages.push(size);
            }
            Instruction::AllocTensor { .. } => plan.tensors += 1,
            other => terms.step(program, other),
        }
    }
    plan
}

impl Terms {
    fn step(&mut self, program: &Program, instruction: &Instruction) {
        match instruction {
            Instruction::MatchShape { codes, terms, .. } => {
                for (code, term) in codes.iter().zip(terms) {
                    if let (Code::Store(slot), Some(name)) =
                        (code, program.texts.get(term.0 as usize))
                    {
                        self.slots.insert(*slot, Dim::var(name.as_str()));
                    }
                }
            }
            Instruction::ComputeDim { slot, op, a, b, .. } => {
                let value = self.code(*a).zip(self.code(*b));
                match value.map(|(a, b)| Dim::op(operation(*op), a, b)) {
                    Some(value) => self.slots.insert(*slot, value),
                    None => self.slots.remove(slot),
                };
            }
            Instruction::LoadDim { to, slot, .. } => {
                let value = self.slots.get(slot).map(|dim| vec![dim.clone()]);
                self.set(to.0, value);
            }
            Instruction::MakeShape { to, codes, .. } => {
                let dims = codes.iter().map(|code| self.code(*code)).collect();
                self.set(to.0, dims);
            }
            Instruction::Tuple { to, items } => {
                let one = |item: &Operand| match self.dims(program, *item)?.as_slice() {
                    [dim] => Some(dim.clone()),
                    _ => None,
                };
                let dims = items.iter().map(one).collect();
                self.set(to.0, dims);
            }
            Instruction::Copy { to, value } => {
                let dims = self.dims(program, *value);
                self.set(to.0, dims);
            }
            _ => {}
        }
    }

    fn set(&mut self, register: u32, dims: Option<Vec<Dim>>) {
        match dims {
            Some(dims) => self.shapes.insert(register, dims),
            None => self.shapes.remove(&register),
        };
    }

    fn code(&self, code: Code) -> Option<Dim> {
        match code {
            Code::Literal(value) => Some(Dim::Int(value)),
            Code::Slot(slot) => self.slots.get(&slot).cloned(),
            Code::Skip | Code::Store(_) => None,
        }
    }

    /// A shape or an integer.
    fn dims(&self, program: &Program, operand: Operand) -> Option<Vec<Dim>> {
        let constant = match operand {
            Operand::Register(register) => return self.shapes.get(&register).cloned(),
            Operand::Constant(index) => program.constants.get(index as usize)?,
        };
        match constant {
            Constant::Shape(dims) => Some(dims.iter().map(|&dim| Dim::Int(dim)).collect()),
            Constant::Scalar(_, Number::Int(value)) => {
                Some(vec![Dim::Int(i64::try_from(*value).ok()?)])
            }
            Constant::Unit => Some(Vec::new()),
            _ => None,
        }
    }
}

fn operation(op: Op) -> DimOp {
    match op {
        Op::Add => DimOp::Add,
        Op::Sub => DimOp::Sub,
        Op::Mul => DimOp::Mul,
        Op::FloorDiv => DimOp::FloorDiv,
        Op::FloorMod => DimOp::FloorMod,
        Op::Min => DimOp::Min,
        Op::Max => DimOp::Max,
        Op::CeilDiv => DimOp::CeilDiv,
    }
}

fn simple(dim: &Dim) -> Dim {
    Prover::new().simplify(dim)
}
