//! A tensor program called in destination-passing style, on a line of its own: it writes to what it
//! is passed.
//!
//! A tensor in a storage is written where it lies, so that every other name of it sees the new
//! elements. Of any other tensor, the variable that was passed holds a new one afterwards.

use super::graphs::{Launch, Operand};
use super::{Frame, Interpreter};
use crate::check::Phase;
use crate::memory::Memory;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::{Placed, Value};
use relax_syntax::Name;
use relax_syntax::ir::{Atom, VarId};
use std::collections::BTreeSet;

/// Where a buffer of the call comes from.
enum Source {
    Storage(Placed),
    Variable(VarId, Tensor),
    Literal(Tensor),
}

impl Source {
    fn operand(&self, memory: &Memory) -> Result<Operand, Stop> {
        match self {
            Source::Storage(placed) => Operand::placed(memory, placed),
            Source::Variable(_, tensor) | Source::Literal(tensor) => {
                Ok(Operand::Elements(tensor.clone()))
            }
        }
    }
}

impl<'m> Interpreter<'m> {
    pub(super) fn run_in_place(
        &mut self,
        frame: &mut Frame<'m>,
        name: &Name,
        args: &[Atom],
        values: Vec<Value>,
    ) -> Result<Value, Stop> {
        let (sources, scalars) = arguments(name, args, values)?;
        let written = self.compiled(name)?.writes();
        self.refuse_shared(name, &sources, &written)?;
        if self.graphs.is_recording() {
            let buffers = sources.iter().map(|source| source.operand(&self.memory));
            let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
            let launch = Launch { program: name.clone(), buffers, scalars: scalars.clone() };
            self.graphs.launch(launch, &written)?;
        }
        let buffers = sources.iter().enumerate().map(|(at, source)| match source {
            Source::Storage(placed) if is(&written, at) => self.memory.destination(placed),
            Source::Storage(placed) => self.memory.read(placed),
            Source::Variable(_, tensor) | Source::Literal(tensor) => Ok(tensor.clone()),
        });
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        let results = self.run_buffers(name, buffers, scalars)?;
        for (at, (source, tensor)) in sources.into_iter().zip(results).enumerate() {
            match source {
                _ if !is(&written, at) => {}
                Source::Storage(placed) => {
                    self.memory.write(&placed, tensor, &format!("`{name}`"))?;
                }
                Source::Variable(var, _) => {
                    frame.values[var.0 as usize] = Some(Value::Tensor(tensor));
                }
                Source::Literal(_) => {}
            }
        }
        Ok(Value::Tuple(Vec::new()))
    }

    /// Where memory is explicit, a tensor that the caller gave up lies in a storage of its own: a call that writes to it is
    /// seen by all names.
    pub(super) fn place_donated(&mut self, name: &str, args: &mut [Value]) -> Result<(), Stop> {
        let Some(function) = self.module.function(name) else { return Ok(()) };
        if Phase::of_module(self.module).is_ok_and(|phase| phase < Phase::P21) {
            return Ok(());
        }
        let donated: BTreeSet<VarId> = function.donated().collect();
        for (param, arg) in function.lambda.params.iter().zip(args) {
            let Value::Tensor(tensor) = &*arg else { continue };
            if !donated.contains(param) {
                continue;
            }
            let dtype = tensor.dtype();
            let bytes = tensor.len().saturating_mul(dtype.size());
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let storage = self.memory.allocate(bytes, dtype);
            let placed = self.memory.place(&storage, 0..bytes, dtype, tensor.shape().to_vec())?;
            self.memory.write(&placed, tensor.clone(), "the caller")?;
            *arg = Value::Placed(placed);
        }
        Ok(())
    }

    /// A program that writes to one of two buffers which share bytes would see its own writes in the
    /// other, which its text does not say.
    fn refuse_shared(&self, name: &str, sources: &[Source], written: &[bool]) -> Result<(), Stop> {
        for (at, source) in sources.iter().enumerate().filter(|(at, _)| is(written, *at)) {
            let Source::Storage(target) = source else { continue };
            for (other, source) in sources.iter().enumerate().filter(|(other, _)| *other != at) {
                let Source::Storage(source) = source else { continue };
                if let Some(both) = self.memory.shared(target, source)? {
                    let message = format!(
                        "`{name}` writes to buffer {at}, which shares bytes with buffer {other}: {both}"
                    );
                    return Err(Stop::trap("memory/shared", message));
                }
            }
        }
        Ok(())
    }
}

/// A buffer that the program does not have is refused at its boundary.
fn is(written: &[bool], at: usize) -> bool {
    written.get(at).copied().unwrap_or(false)
}

/// The buffers of a call, and its scalars.
fn arguments(
    name: &str,
    args: &[Atom],
    values: Vec<Value>,
) -> Result<(Vec<Source>, Vec<i64>), Stop> {
    let (mut sources, mut scalars) = (Vec::new(), Vec::new());
    for (atom, value) in args.iter().zip(values) {
        match (value, atom) {
            (Value::Placed(placed), _) => sources.push(Source::Storage(placed)),
            (Value::Tensor(tensor), Atom::Var(var)) => sources.push(Source::Variable(*var, tensor)),
            (Value::Tensor(tensor), _) => sources.push(Source::Literal(tensor)),
            (Value::Prim(_, Number::Int(value)), _) => {
                scalars.push(i64::try_from(value).unwrap_or(i64::MAX));
            }
            (other, _) => {
                let message =
                    format!("`{name}` takes tensors and integers, found {}", other.kind());
                return Err(Stop::trap("call_tir/kind", message));
            }
        }
    }
    Ok((sources, scalars))
}
