//! The machine: frames of registers, and the loop over instructions.
//!
//! Calls are frames on a list, not calls of the host, so that the depth of a recursion is a limit and no
//! question of stack. An operand is a register of the frame or a constant; there is nothing to look up by
//! name but host functions.

mod allocation;
mod calls;
mod checks;
mod graphs;
mod kernel_call;
pub(crate) mod memory;
mod origins;
pub(crate) mod resident;
mod slots;

use crate::block::Pool;
use crate::instruction::{Instruction, Operand, Register, Text};
use crate::module::Loaded;
use crate::program::Function;
use crate::steps::out_of_steps;
use crate::stop::{Span, Stop, place};
use crate::value::{Kept, Machine, Tuple, Value};
use std::sync::Arc;

/// What a call may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all tensors that are in use at once.
    pub bytes: usize,
    /// Calls within calls.
    pub depth: usize,
    /// Instructions, and iterations of the loops of kernels with machine code; [`u64::MAX`] for no limit.
    pub steps: u64,
    /// Threads that work on a kernel; 0 for as many as `RELAX_THREADS` says, or as the machine has. Results do
    /// not depend on it.
    pub threads: usize,
}

impl Default for Limits {
    /// 8 GiB, 1,000 nested calls, no limit on steps, the threads of the machine.
    fn default() -> Self {
        Self { bytes: 8 << 30, depth: 1000, steps: u64::MAX, threads: 0 }
    }
}

/// One call from outside.
pub(crate) struct Run<'m> {
    module: &'m Loaded,
    pool: &'m Arc<Pool>,
    limits: Limits,
    frames: Vec<Frame<'m>>,
    registers: Vec<Value>,
    /// Storages made so far.
    storages: u64,
    graphs: graphs::Graphs,
}

struct Frame<'m> {
    function: &'m Function,
    /// Of the next instruction.
    next: usize,
    /// Its first register.
    base: usize,
    /// Where its result goes, in the frame below.
    to: Register,
    end: End,
}

/// What is done with the value that a frame gives.
enum End {
    Call,
    /// The launches since it began are a graph.
    Graph(graphs::Key),
    /// It is kept for the whole run.
    Memory(u32),
}

/// What an instruction did.
enum Flow {
    Next,
    Jump(u32),
    Enter,
    Return(Value),
}

impl<'m> Run<'m> {
    pub(crate) fn new(module: &'m Loaded, pool: &'m Arc<Pool>, limits: Limits) -> Self {
        Self {
            module,
            pool,
            limits,
            frames: Vec::with_capacity(1),
            registers: Vec::new(),
            storages: 0,
            graphs: graphs::Graphs::default(),
        }
    }

    /// Calls a function of the module and frees its result of the machine. Where it stops, `back` has the donated tensors.
    pub(crate) fn call(
        mut self,
        function: u32,
        mut args: Vec<Value>,
        back: Option<&mut Vec<Value>>,
    ) -> Result<Value, Stop> {
        let called = &self.module.program.functions[function as usize];
        self.registers.reserve_exact((called.registers as usize).max(args.len()));
        let mut given = back.is_some().then(Vec::new);
        let entered = self.place_all(&called.donated, &mut args, &mut given);
        let entered = entered.and_then(|()| self.enter(function, args.into_iter(), Register(0)));
        let outermost = |stop| place(stop, &called.name, called.span, called.span);
        let result = entered.map_err(outermost).and_then(|()| self.run());
        match (result, back) {
            (Ok(value), _) => {
                drop(given);
                calls::freed(&value, &self).map_err(outermost)
            }
            (Err(stop), back) => {
                self.abandon_graph();
                if let (Some(back), Some(given)) = (back, given) {
                    *back = self.brought_back(given);
                }
                Err(stop)
            }
        }
    }

    fn run(&mut self) -> Result<Value, Stop> {
        loop {
            let Some(frame) = self.frames.last_mut() else {
                return Err(Stop::Unsupported("a run without a function".to_owned()));
            };
            let function: &'m Function = frame.function;
            let at = frame.next;
            let Some(instruction) = function.code.get(at) else {
                return Err(Stop::Unsupported("code that has no end".to_owned()));
            };
            frame.next = at + 1;
            if self.limits.steps == 0 {
                return Err(out_of_steps());
            }
            if self.limits.steps != u64::MAX {
                self.limits.steps -= 1;
            }
            match self.step(instruction) {
                Ok(Flow::Next | Flow::Enter) => {}
                Ok(Flow::Jump(target)) => {
                    if let Some(frame) = self.frames.last_mut() {
                        frame.next = target as usize;
                    }
                }
                Ok(Flow::Return(value)) => {
                    if let Some(result) = self.leave(value)? {
                        return Ok(result);
                    }
                }
                Err(stop) => return Err(self.placed(stop)),
            }
        }
    }

    /// Ends the frame on top; gives the value when it was the last one.
    fn leave(&mut self, value: Value) -> Result<Option<Value>, Stop> {
        let Some(frame) = self.frames.pop() else { return Ok(Some(value)) };
        self.registers.truncate(frame.base);
        if self.frames.is_empty() {
            return Ok(Some(value));
        }
        self.ended(frame.end, &value).map_err(|stop| self.placed(stop))?;
        self.set(frame.to, value);
        Ok(None)
    }

    /// Says of a stop where it happened, and from where that was called.
    fn placed(&self, stop: Stop) -> Stop {
        let mut stop = self.with_variables(stop);
        for frame in self.frames.iter().rev() {
            let function = frame.function;
            let span = function.span_at(frame.next.saturating_sub(1));
            stop = place(stop, &function.name, function.span, span);
        }
        stop
    }

    /// The place in the source of the instruction that is carried out.
    fn span(&self) -> Span {
        let frame = self.frames.last();
        frame.map(|frame| frame.function.span_at(frame.next.saturating_sub(1))).unwrap_or_default()
    }

    fn step(&mut self, instruction: &'m Instruction) -> Result<Flow, Stop> {
        use Instruction as I;
        self.refuse_recorded(instruction)?;
        match instruction {
            I::Copy { to, value } => self.set(*to, self.value(*value).clone()),
            I::Drop(registers) => {
                registers.iter().for_each(|&register| self.set(register, Value::EMPTY));
            }
            I::Tuple { to, items } => {
                let tuple = Value::Tuple(Tuple::new(self.values(items)?)?);
                self.set(*to, tuple);
            }
            I::Field { to, value, index } => {
                let field = self.field(*value, *index)?;
                self.set(*to, field);
            }
            I::Jump(target) => return Ok(Flow::Jump(*target)),
            I::Branch { condition, otherwise } => {
                if !self.truth(*condition)? {
                    return Ok(Flow::Jump(*otherwise));
                }
            }
            I::Return(value) => return Ok(Flow::Return(self.given(*value)?.clone())),
            I::Fail { id, message } => return Err(Stop::trap(self.text(*id), self.text(*message))),
            I::Call { to, function, args } => {
                let args = self.values(args)?;
                self.enter(*function, args.into_iter(), *to)?;
                return Ok(Flow::Enter);
            }
            I::CallValue { to, function, args } => {
                let args = self.values(args)?;
                let function = self.given(*function)?.clone();
                self.enter_value(&function, args, *to)?;
                return Ok(Flow::Enter);
            }
            I::Invoke { to, function, args } => {
                self.invoke(*to, *function, *args)?;
                return Ok(Flow::Enter);
            }
            I::MakeClosure { to, function, last } => {
                let closure = self.closure(*function, *last)?;
                self.set(*to, closure);
            }
            I::CallKernel { kernel, args } => self.call_kernel(*kernel, args)?,
            I::CallHost { to, name, args, keywords } => {
                let value = self.call_host(*name, args, keywords)?;
                self.set(*to, value);
            }
            I::RunGraph { to, function, args } => {
                self.run_graph(*to, *function, args)?;
                return Ok(Flow::Enter);
            }
            I::KeepMemory { to, function } => {
                if self.keep_memory(*to, *function)? {
                    return Ok(Flow::Enter);
                }
            }
            I::Assert { condition, message } => self.assert(*condition, *message)?,
            I::AllocStorage { .. }
            | I::AllocTensor { .. }
            | I::KillStorage(_)
            | I::KillTensor(_)
            | I::KillObject(_)
            | I::View { .. } => self.memory(instruction)?,
            _ => self.built_in(instruction)?,
        }
        Ok(Flow::Next)
    }

    fn base(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.base)
    }

    /// The value of an operand; a register that holds nothing has one that no instruction takes.
    #[inline]
    fn value(&self, operand: Operand) -> &Value {
        const NOTHING: &Value = &Value::EMPTY;
        let found = match operand {
            Operand::Register(at) => self.registers.get(self.base() + at as usize),
            Operand::Constant(at) => self.module.constants.get(at as usize),
        };
        found.unwrap_or(NOTHING)
    }

    /// The value of an operand, which must hold one; one that somebody still computes is waited for.
    #[inline]
    fn given(&self, operand: Operand) -> Result<&Value, Stop> {
        match self.value(operand) {
            Value::Machine(Machine(Kept::Empty)) => {
                Err(Stop::trap("variable/unbound", "a variable has no value here"))
            }
            Value::Machine(Machine(Kept::Promised(promise))) => promise.wait(),
            value => Ok(value),
        }
    }

    fn values(&self, operands: &[Operand]) -> Result<Vec<Value>, Stop> {
        operands.iter().map(|&operand| self.given(operand).cloned()).collect()
    }

    #[inline]
    fn set(&mut self, register: Register, value: Value) {
        let at = self.base() + register.0 as usize;
        if let Some(held) = self.registers.get_mut(at) {
            *held = value;
        }
    }

    fn text(&self, text: Text) -> &'m str {
        self.module.program.texts.get(text.0 as usize).map_or("", String::as_str)
    }
}
