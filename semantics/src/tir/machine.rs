//! Runs flat code: one frame at a time, until it halts, forks, or reaches a barrier.

use super::bind::bind;
use super::code::{LoopCode, Op, Pc, Range};
use super::compile::Compiled;
use super::kernels::Fault;
use super::races::{Access, Node, Races};
use super::scalar::number;
use super::storage::Storage;
use super::{Mode, Options};
use crate::ops::Limits;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use relax_syntax::ir::tensor::Param;

/// A thread of execution.
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) pc: Pc,
    pub(super) registers: Vec<u64>,
    /// Which storage each buffer is at present.
    pub(super) buffers: Vec<u32>,
    /// The storages that this frame allocated.
    pub(super) owned: Vec<u32>,
    /// The iterations it is in, where races are watched.
    pub(super) path: Node,
}

/// Why a frame does not go on by itself.
pub(super) enum Event {
    Halt,
    Exit,
    Barrier,
    Fork(LoopCode, Pc),
}

/// The state that all frames share.
pub(super) struct Machine<'c> {
    pub(super) code: &'c Compiled,
    pub(super) limits: &'c Limits,
    pub(super) steps: &'c mut u64,
    pub(super) races: Races,
    storages: Vec<Option<Storage>>,
    free: Vec<u32>,
    allocated: u64,
    dims: std::collections::BTreeMap<relax_syntax::Name, i64>,
}

/// No storage yet.
const NOWHERE: u32 = u32::MAX;

impl Compiled {
    /// Runs on tensors; see [`super::run`]. Takes the steps it needs from `steps`.
    ///
    /// # Errors
    /// Traps, `Exhausted`, and `Unsupported` for an external program.
    pub fn run(
        &self,
        buffers: Vec<Tensor>,
        scalars: &[i64],
        options: &Options,
        steps: &mut u64,
    ) -> Result<Vec<Tensor>, Stop> {
        let program = &self.program;
        if program.body.is_none() {
            return Err(Stop::Unsupported(format!(
                "`{}` is external: it has no body",
                program.name
            )));
        }
        let bound = bind(program, &buffers, scalars).map_err(|stop| self.named(stop))?;
        let mut frame = Frame {
            pc: 0,
            registers: self.initial.clone(),
            buffers: vec![NOWHERE; program.buffers.len()],
            owned: Vec::new(),
            path: Node::ROOT,
        };
        for (name, &register) in &self.dims {
            frame.registers[register as usize] = bound.dims[name] as u64;
        }
        let mut values = bound.scalars.iter();
        let mut handles = 0..;
        for param in &program.params {
            match param {
                Param::Scalar(id) => {
                    let value = *values.next().expect("invariant: one value a scalar");
                    frame.registers[self.scalar(*id) as usize] = value as u64;
                }
                Param::Buffer(id) => {
                    frame.buffers[id.0 as usize] =
                        handles.next().expect("invariant: an endless range");
                }
                Param::Dim(_) => {}
            }
        }
        let mut machine = Machine {
            code: self,
            limits: &options.limits,
            steps,
            races: Races::new(buffers.iter().map(Tensor::len)),
            storages: buffers.iter().map(|tensor| Some(Storage::from_tensor(tensor))).collect(),
            free: Vec::new(),
            allocated: 0,
            dims: bound.dims,
        };
        match options.mode {
            Mode::Sequential => machine.run_root::<false>(&mut frame),
            Mode::LockStep => machine.run_root::<true>(&mut frame),
        }
        .map_err(|stop| self.named(stop))?;
        let left = machine.storages.into_iter().flatten().zip(buffers);
        Ok(left.map(|(storage, original)| storage.into_tensor(original)).collect())
    }

    /// Says which program a trap is in.
    fn named(&self, mut stop: Stop) -> Stop {
        if let Stop::Trap(trap) = &mut stop {
            trap.function = Some(self.program.name.clone());
        }
        stop
    }

    /// A trap of the statement that an operation is a part of.
    #[cold]
    pub(super) fn trap(&self, pc: Pc, id: impl Into<String>, message: String) -> Stop {
        let mut stop = Stop::trap(id, message);
        if let Stop::Trap(trap) = &mut stop {
            trap.span = self.spans[pc as usize];
        }
        stop
    }
}

impl Machine<'_> {
    fn run_root<const RACES: bool>(&mut self, frame: &mut Frame) -> Result<(), Stop> {
        loop {
            match self.exec::<RACES>(frame)? {
                Event::Halt => return Ok(()),
                Event::Fork(of, end) => {
                    self.run_threads::<RACES>(frame, of)?;
                    frame.pc = end;
                }
                Event::Exit | Event::Barrier => {
                    unreachable!("invariant: the checker puts barriers into threads")
                }
            }
        }
    }

    /// Runs a frame to its next event.
    pub(super) fn exec<const RACES: bool>(&mut self, frame: &mut Frame) -> Result<Event, Stop> {
        let code = self.code;
        loop {
            let pc = frame.pc;
            frame.pc += 1;
            let registers = &mut frame.registers;
            match code.ops[pc as usize] {
                Op::Pure1 { f, to, a } => registers[to as usize] = f(registers[a as usize]),
                Op::Pure2 { f, to, a, b } => {
                    registers[to as usize] = f(registers[a as usize], registers[b as usize]);
                }
                Op::Pure3 { f, to, a, b, c } => {
                    registers[to as usize] =
                        f(registers[a as usize], registers[b as usize], registers[c as usize]);
                }
                Op::Checked1 { f, to, a } => {
                    let a = registers[a as usize];
                    registers[to as usize] =
                        f(a).map_err(|fault| self.fault(pc, fault, a, None))?;
                }
                Op::Checked2 { f, to, a, b } => {
                    let (a, b) = (registers[a as usize], registers[b as usize]);
                    registers[to as usize] =
                        f(a, b).map_err(|fault| self.fault(pc, fault, a, Some(b)))?;
                }
                Op::Move { to, from } => registers[to as usize] = registers[from as usize],
                Op::Load { to, buffer, at } => {
                    let value = self.load::<RACES>(frame, pc, buffer, at)?;
                    frame.registers[to as usize] = value;
                }
                Op::Store { from, buffer, at } => {
                    self.step()?;
                    self.store::<RACES>(frame, pc, buffer, at, frame.registers[from as usize])?;
                }
                Op::Alloc { buffer } => {
                    self.step()?;
                    self.alloc(frame, pc, buffer)?;
                }
                Op::Jump { to } => frame.pc = to,
                Op::Branch { condition, otherwise } => {
                    if registers[condition as usize] == 0 {
                        frame.pc = otherwise;
                    }
                    self.step()?;
                }
                Op::JumpUnless { condition, to } => {
                    if registers[condition as usize] == 0 {
                        frame.pc = to;
                    }
                }
                Op::JumpIf { condition, to } => {
                    if registers[condition as usize] != 0 {
                        frame.pc = to;
                    }
                }
                Op::JumpUnlessEqual { a, b, to } => {
                    if registers[a as usize] != registers[b as usize] {
                        frame.pc = to;
                    }
                }
                Op::Enter { of, end } => {
                    let start = registers[of.start as usize];
                    registers[of.var as usize] = start;
                    if start as i64 >= registers[of.stop as usize] as i64 {
                        frame.pc = end;
                    } else if RACES && code.loops[of.info as usize].concurrent {
                        frame.path = self.races.enter(frame.path, of.info, start as i64);
                    }
                    self.step()?;
                }
                Op::Next { of, body } => {
                    let next = (registers[of.var as usize] as i64) + 1;
                    let goes_on = next < registers[of.stop as usize] as i64;
                    if goes_on {
                        registers[of.var as usize] = next as u64;
                        frame.pc = body;
                    }
                    if RACES && code.loops[of.info as usize].concurrent {
                        frame.path = self.races.next(frame.path, goes_on.then_some(next));
                    }
                    self.step()?;
                }
                Op::AxisInRange { value, extent, axis } => {
                    let (value, extent) =
                        (registers[value as usize] as i64, registers[extent as usize] as i64);
                    if !(0..extent).contains(&value) {
                        let message = format!(
                            "the axis `{}` is {value}, outside of 0..{extent}",
                            code.axes[axis as usize]
                        );
                        return Err(code.trap(pc, "tir/axis_range", message));
                    }
                }
                Op::Fork { of, end } => return Ok(Event::Fork(of, end)),
                Op::Fail { check, values } => {
                    let (id, message) = &code.checks[check as usize];
                    let values = code.operands
                        [values.first as usize..(values.first + values.count) as usize]
                        .iter();
                    let values = values.map(|&value| registers[value as usize] as i64);
                    return Err(code.trap(pc, id.to_string(), filled(message, values)));
                }
                Op::Exit => return Ok(Event::Exit),
                Op::Barrier => return Ok(Event::Barrier),
                Op::Halt => return Ok(Event::Halt),
            }
        }
    }

    #[inline]
    pub(super) fn step(&mut self) -> Result<(), Stop> {
        if *self.steps == 0 {
            return Err(self.out_of_steps());
        }
        *self.steps -= 1;
        Ok(())
    }

    #[cold]
    fn out_of_steps(&self) -> Stop {
        Stop::Exhausted {
            resource: "steps",
            detail: format!("the limit is {} steps", self.limits.steps),
        }
    }

    #[inline]
    fn load<const RACES: bool>(
        &mut self,
        frame: &Frame,
        pc: Pc,
        buffer: u32,
        at: Range,
    ) -> Result<u64, Stop> {
        let handle = frame.buffers[buffer as usize];
        let storage = live(&self.storages, handle);
        let Some(position) = position(self.code, storage, frame, at) else {
            return Err(self.out_of_bounds(frame, pc, buffer, at));
        };
        let Some(value) = storage.load(position) else {
            return Err(self.uninitialized(frame, pc, buffer, at));
        };
        if RACES {
            let access = Access { node: frame.path, pc, write: false };
            self.races.access(self.code, (buffer, handle), position, access, || {
                index(self.code, frame, at)
            })?;
        }
        Ok(value)
    }

    #[inline]
    fn store<const RACES: bool>(
        &mut self,
        frame: &Frame,
        pc: Pc,
        buffer: u32,
        at: Range,
        value: u64,
    ) -> Result<(), Stop> {
        let handle = frame.buffers[buffer as usize];
        let storage = self.storages[handle as usize].as_mut().expect(LIVE);
        let Some(position) = position(self.code, storage, frame, at) else {
            return Err(self.out_of_bounds(frame, pc, buffer, at));
        };
        storage.store(position, value);
        if RACES {
            let access = Access { node: frame.path, pc, write: true };
            self.races.access(self.code, (buffer, handle), position, access, || {
                index(self.code, frame, at)
            })?;
        }
        Ok(())
    }

    /// A fresh instance, in place of the one that this statement made before in the same frame.
    fn alloc(&mut self, frame: &mut Frame, pc: Pc, buffer: u32) -> Result<(), Stop> {
        let info = &self.code.program.buffers[buffer as usize];
        let mut extents = Vec::with_capacity(info.shape.len());
        for dim in &info.shape {
            extents.push(dim.eval(&|name| self.dims.get(name).copied()).map_err(|error| {
                self.code.trap(pc, "tir/overflow", format!("a dim of `{}`: {error}", info.name))
            })?);
        }
        if let Some(negative) = extents.iter().find(|&&extent| extent < 0) {
            let message = format!("a dim of `{}` is {negative}: it may not be negative", info.name);
            return Err(self.code.trap(pc, "shape/negative", message));
        }
        let extents = self.limits.checked_shape(&extents, info.dtype)?;
        let old = frame.buffers[buffer as usize];
        if old != NOWHERE {
            frame.owned.retain(|&handle| handle != old);
            self.release(old);
        }
        let storage = Storage::fresh(info.dtype, extents);
        self.allocated += storage.bytes;
        if self.allocated > self.limits.tensor_bytes {
            let detail = format!(
                "the buffers of `{}` take more than the limit of {} bytes",
                self.code.program.name, self.limits.tensor_bytes
            );
            return Err(Stop::Exhausted { resource: "memory", detail });
        }
        let handle = self.place(storage);
        frame.buffers[buffer as usize] = handle;
        frame.owned.push(handle);
        Ok(())
    }

    fn place(&mut self, storage: Storage) -> u32 {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.storages.push(None);
            super::compile::index(self.storages.len() - 1)
        });
        self.races.forget(handle, storage.len());
        self.storages[handle as usize] = Some(storage);
        handle
    }

    /// Gives back what a frame allocated.
    pub(super) fn release(&mut self, handle: u32) {
        let storage = self.storages[handle as usize].take().expect(LIVE);
        self.allocated -= storage.bytes;
        self.free.push(handle);
    }

    #[cold]
    fn fault(&self, pc: Pc, fault: Fault, a: u64, b: Option<u64>) -> Stop {
        let (symbol, dtype) = self.code.symbols[&pc];
        let shown = |bits: u64| match number(dtype, bits) {
            Number::Int(value) => value.to_string(),
            Number::Float(value) => value.to_string(),
        };
        let operation = match b {
            Some(b) => format!("{} {symbol} {}", shown(a), shown(b)),
            None => format!("{symbol}({})", shown(a)),
        };
        let (id, what) = match fault {
            Fault::DivisionByZero => ("tir/division_by_zero", "divides by zero".to_owned()),
            Fault::Overflow => ("tir/overflow", "leaves the range of i64".to_owned()),
            Fault::Shift => {
                let last = dtype.size() * 8 - 1;
                ("tir/shift", format!("shifts {dtype} by a count outside of 0 to {last}"))
            }
        };
        self.code.trap(pc, id, format!("`{operation}` {what}"))
    }

    #[cold]
    fn out_of_bounds(&self, frame: &Frame, pc: Pc, buffer: u32, at: Range) -> Stop {
        let storage = live(&self.storages, frame.buffers[buffer as usize]);
        let name = &self.code.program.buffers[buffer as usize].name;
        let indices = index(self.code, frame, at);
        let outside = indices.iter().zip(&storage.extents).position(|(&index, &extent)| {
            usize::try_from(index).map_or(true, |index| index >= extent)
        });
        let axis = outside.expect("invariant: some index is out of bounds");
        let message = format!(
            "index {} is outside of 0..{} in dim {axis} of `{name}`, at {}",
            indices[axis],
            storage.extents[axis],
            element(name, &indices)
        );
        self.code.trap(pc, "tir/out_of_bounds", message)
    }

    #[cold]
    fn uninitialized(&self, frame: &Frame, pc: Pc, buffer: u32, at: Range) -> Stop {
        let name = &self.code.program.buffers[buffer as usize].name;
        let element = element(name, &index(self.code, frame, at));
        self.code.trap(
            pc,
            "tir/uninitialized",
            format!("nothing was written to `{element}` before"),
        )
    }
}

const LIVE: &str = "invariant: a visible buffer is allocated";

fn live(storages: &[Option<Storage>], handle: u32) -> &Storage {
    storages[handle as usize].as_ref().expect(LIVE)
}

/// Where an element lies; `None` out of bounds.
#[inline]
fn position(code: &Compiled, storage: &Storage, frame: &Frame, at: Range) -> Option<usize> {
    let operands = &code.operands[at.first as usize..(at.first + at.count) as usize];
    let mut position = 0;
    for (&operand, &extent) in operands.iter().zip(&storage.extents) {
        // A negative index is a huge unsigned one.
        let index = frame.registers[operand as usize] as usize;
        if index >= extent {
            return None;
        }
        position = position * extent + index;
    }
    Some(position)
}

/// The indices of an access.
fn index(code: &Compiled, frame: &Frame, at: Range) -> Vec<i64> {
    let operands = &code.operands[at.first as usize..(at.first + at.count) as usize];
    operands.iter().map(|&operand| frame.registers[operand as usize] as i64).collect()
}

/// `B[1, 2]`
pub(super) fn element(name: &str, indices: &[i64]) -> String {
    let indices: Vec<String> = indices.iter().map(i64::to_string).collect();
    format!("{name}[{}]", indices.join(", "))
}

/// The message with each `{}` replaced by a value.
#[cold]
fn filled(message: &str, mut values: impl Iterator<Item = i64>) -> String {
    let mut parts = message.split("{}");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.extend(values.next().map(|value| value.to_string()));
        text.push_str(part);
    }
    text
}
