//! What a program must be before it runs: every number in it names something that is there. A program
//! that passes cannot make the machine read out of bounds; what it computes is checked as it runs.

use crate::block::ALIGNMENT;
use crate::dtype::dense_bytes;
use crate::instruction::{Code, Instruction, Operand, Register};
use crate::program::{Constant, Function, Program};
use crate::value::is_allocatable;
use std::collections::BTreeSet;

/// Registers of one function.
const MAX_REGISTERS: u32 = 1 << 20;

impl Program {
    /// Looks at everything; `data` is the length of the section of constants.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn validate(&self, data: u64) -> Result<(), String> {
        for (at, constant) in self.constants.iter().enumerate() {
            self.constant(constant, data).map_err(|why| format!("constant {at}: {why}"))?;
        }
        let mut symbols = BTreeSet::new();
        for function in &self.functions {
            let wrong = |why: String| format!("function `{}`: {why}", function.name);
            self.function(function).map_err(wrong)?;
            if let Some(symbol) = &function.symbol
                && !symbols.insert(symbol)
            {
                return Err(format!("two functions are offered as `{symbol}`"));
            }
        }
        Ok(())
    }

    fn constant(&self, constant: &Constant, data: u64) -> Result<(), String> {
        match constant {
            Constant::Tensor { dtype, shape, at } => {
                let bytes = dense_bytes(*dtype, shape).ok_or("its shape is none")?;
                let end = at.checked_add(bytes as u64);
                if end.is_none_or(|end| end > data) {
                    return Err("it lies outside of the section of constants".to_owned());
                }
                if at % ALIGNMENT as u64 != 0 {
                    return Err("it is not aligned".to_owned());
                }
            }
            Constant::Shape(dims) if dims.iter().any(|&dim| dim < 0) => {
                return Err("a dim is negative".to_owned());
            }
            Constant::Function(function) if *function as usize >= self.functions.len() => {
                return Err("it names a function that is not there".to_owned());
            }
            Constant::Kernel(kernel) if *kernel as usize >= self.kernels.len() => {
                return Err("it names a kernel that is not there".to_owned());
            }
            Constant::Output(output) => {
                let dtype = output.dtype.unwrap_or(crate::dtype::DType::U8);
                if !is_allocatable(dtype, &output.dims) {
                    return Err("its shape is none".to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn function(&self, function: &Function) -> Result<(), String> {
        if function.registers > MAX_REGISTERS {
            return Err(format!("more than {MAX_REGISTERS} registers"));
        }
        if function.params > function.registers {
            return Err("more parameters than registers".to_owned());
        }
        if function.donated.iter().any(|&at| at >= function.params) {
            return Err("a donated parameter is not there".to_owned());
        }
        if function.spans.len() != function.code.len() {
            return Err("places and instructions differ in number".to_owned());
        }
        let ends = matches!(
            function.code.last(),
            Some(Instruction::Return(_) | Instruction::Fail { .. } | Instruction::Jump(_))
        );
        if !ends {
            return Err("it runs past its end".to_owned());
        }
        for (at, instruction) in function.code.iter().enumerate() {
            self.instruction(function, instruction)
                .map_err(|why| format!("instruction {at}: {why}"))?;
        }
        Ok(())
    }

    fn instruction(&self, function: &Function, instruction: &Instruction) -> Result<(), String> {
        let mut wrong = None;
        let register = |Register(at): Register| at < function.registers;
        instruction.operands(&mut |operand| {
            let is_there = match operand {
                Operand::Register(at) => register(Register(at)),
                Operand::Constant(at) => (at as usize) < self.constants.len(),
            };
            if !is_there {
                wrong = Some("an operand is not there");
            }
        });
        instruction.texts(&mut |text| {
            if text.0 as usize >= self.texts.len() {
                wrong = Some("a text is not there");
            }
        });
        if !instruction.target().is_none_or(register) {
            wrong = Some("the register of the result is not there");
        }
        let holds = match instruction {
            Instruction::Drop(registers) => registers.iter().all(|&at| register(at)),
            Instruction::Jump(target) | Instruction::Branch { otherwise: target, .. } => {
                (*target as usize) < function.code.len()
            }
            Instruction::Call { function, .. } => (*function as usize) < self.functions.len(),
            Instruction::CallKernel { kernel, .. } => (*kernel as usize) < self.kernels.len(),
            Instruction::ComputeDim { a, b, .. } => [a, b].into_iter().all(is_operand),
            _ => true,
        };
        match wrong {
            Some(why) => Err(why.to_owned()),
            None if holds => Ok(()),
            None => Err("it names what is not there".to_owned()),
        }
    }
}

/// What a dim is computed from.
fn is_operand(code: &Code) -> bool {
    matches!(code, Code::Literal(_) | Code::Slot(_))
}
