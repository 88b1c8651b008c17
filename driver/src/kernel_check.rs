//! Kernel check: compares compiled kernels with the interpreter of their tensor programs, when they are compiled. C compilers
//! translate right C text into wrong code now and then (docs/FOUND-ELSEWHERE.md). Proofs and certificates end with the C text.
//!
//! Each kernel runs at small extents (0, 1, primes, sizes around those of vectors and tiles). Without reassociation, NaN,
//! infinities and -0.0 are among its inputs. The work is bounded in steps of the interpreter, not in time, so that the result is
//! the same everywhere. Where a static extent is too large, the interpreter computes slices ([`slices`]). A kernel without an
//! affordable case counts as unchecked, with the reason.
//!
//! Limits: instrumented variants, several threads and extents beyond 67 are not checked. A wrong kernel that crashes or hangs
//! takes the compiler with it.

mod agreement;
mod arguments;
mod call;
mod cost;
mod slices;

use agreement::Agreement;
use arguments::{Arguments, Elements, Extents, arguments_at, element_count, extents_to_try};
use call::{Fault, call};
use relax_cpu::Library;
use relax_emit::{Kernel, OUT_OF_MEMORY, Site};
use relax_runtime::program::Numerics;
use relax_semantics::ops::Limits;
use relax_semantics::stop::{Stop, Trap};
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Compiled, Options};
use relax_syntax::ir::TensorProgram;
use slices::{ITERATIONS, slice};

/// Elements that cost as much as one step.
const ELEMENTS_PER_STEP: u64 = 8;
/// Bytes of the buffers that a program allocates.
const ALLOCATED: u64 = 64 << 20;
/// Of the steps that are left, the share that one case may take: later cases have larger extents.
const SHARE: u64 = 2;
/// The trap of a read of an uninitialized element.
const UNINITIALIZED: &str = "tir/uninitialized";
/// The least number of slices that a case must afford.
const SLICES: u64 = 2;

/// Limit on the work for one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Steps of the interpreter (stores, branches, iterations) for all cases together.
    pub steps: u64,
}

impl Default for Budget {
    /// About 20 ms on a processor of 2024.
    fn default() -> Self {
        Self { steps: 400_000 }
    }
}

/// Result of the check of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In so many cases, at least 1, it gave the interpreter's results or trapped where the interpreter traps.
    Agrees {
        /// How many cases.
        cases: usize,
    },
    /// No case could be compared.
    Unchecked {
        /// What is in the way of a comparison.
        reason: String,
    },
    /// It gave something else.
    Differs {
        /// The extents, the element, both values.
        difference: String,
    },
}

/// Compares one kernel with the interpreter of its program.
#[must_use]
pub fn check(
    program: &TensorProgram,
    (kernel, library): (&Kernel, &Library),
    sums: Numerics,
    budget: Budget,
) -> Verdict {
    let Ok(compiled) = Compiled::new(program) else {
        let reason = "the interpreter does not take the program".to_owned();
        return Verdict::Unchecked { reason };
    };
    let agreement = Agreement::of(program, sums);
    let writes = compiled.writes();
    let code = (kernel, library);
    let mut check = Check { program, compiled, writes, code, agreement, steps: budget.steps };
    let (mut cases, mut reason) = (0, None);
    for (extents, seed) in extents_to_try(program).into_iter().zip(1..) {
        let elements = match sums {
            Numerics::Exact if seed % 2 == 0 => Elements::Edges,
            _ => Elements::Finite,
        };
        match check.case(&extents, (seed, elements)) {
            Ok(compared) => cases += compared,
            Err(Why::Skipped(why)) => _ = reason.get_or_insert(why),
            Err(Why::Differs(why)) => {
                return Verdict::Differs { difference: format!("{}{why}", extents.prefix()) };
            }
        }
    }
    match cases {
        0 => Verdict::Unchecked { reason: reason.unwrap_or_else(|| "it has no case".to_owned()) },
        cases => Verdict::Agrees { cases },
    }
}

/// Why a case was not compared to its end.
enum Why {
    Skipped(String),
    Differs(String),
}

/// The check of one kernel.
struct Check<'c> {
    program: &'c TensorProgram,
    compiled: Compiled,
    /// Of each parameter buffer: the program stores to it.
    writes: Vec<bool>,
    code: (&'c Kernel, &'c Library),
    agreement: Agreement,
    /// Left for the cases to come.
    steps: u64,
}

impl Check<'_> {
    /// Compares at these extents, whole or in slices; how many comparisons there were.
    fn case(&mut self, extents: &Extents, drawn: (u64, Elements)) -> Result<usize, Why> {
        let skipped = |why: &str| Why::Skipped(why.to_owned());
        let elements = element_count(self.program, extents);
        let elements = elements.ok_or_else(|| skipped("no tensors have these shapes"))?;
        let most = self.steps / SHARE;
        let large = elements as u64 / ELEMENTS_PER_STEP;
        let most = most.checked_sub(large).ok_or_else(|| skipped("its tensors are too large"))?;
        let steps = cost::steps(self.program, extents);
        // Where the count is not known, the interpreter stops at the limit.
        let is_whole = steps.is_none_or(|steps| steps <= most);
        let slices = if is_whole { Vec::new() } else { self.slices(extents, most) };
        if !is_whole && slices.is_empty() {
            return Err(skipped("interpreting it takes too many steps"));
        }
        let arguments = arguments_at(self.program, extents, drawn);
        let arguments = arguments.ok_or_else(|| skipped("no tensors have these shapes"))?;
        self.steps -= large;
        if is_whole { self.whole(&arguments, most) } else { self.sliced(&slices, &arguments) }
    }

    /// As many slices as fit into these steps, each with its steps.
    fn slices(&self, extents: &Extents, most: u64) -> Vec<(TensorProgram, u64)> {
        let (mut left, mut slices) = (most, Vec::new());
        for iteration in ITERATIONS {
            let Some(slice) = slice(self.program, extents, iteration) else { break };
            let Some(steps) = cost::steps(&slice, extents).filter(|steps| *steps <= left) else {
                break;
            };
            left -= steps;
            slices.push((slice, steps));
        }
        if (slices.len() as u64) < SLICES { Vec::new() } else { slices }
    }

    fn whole(&mut self, arguments: &Arguments, most: u64) -> Result<usize, Why> {
        let mut steps = most;
        let wanted = run(&self.compiled, arguments, &mut steps);
        self.steps -= most - steps;
        match wanted {
            Ok(wanted) => match self.call(arguments) {
                Ok(found) => {
                    let perturbed = || {
                        let mut steps = most;
                        run(&self.compiled, &arguments.perturbed(self.agreement.sums()), &mut steps)
                            .ok()
                    };
                    self.compare(&wanted, &found, (arguments.magnitude, &perturbed))
                }
                Err(fault) => Err(unexpected(fault, "a value")),
            },
            // The instrumented variant traps there; a product of matrices reads the elements at once.
            Err(Stop::Trap(trap))
                if self.agreement.is_reassociated() && trap.id == UNINITIALIZED =>
            {
                Err(Why::Skipped("it reads uninitialized elements".to_owned()))
            }
            Err(Stop::Trap(trap)) => match self.call(arguments) {
                Err(Fault::Trap(site)) if is_same_trap(&site, &trap) => Ok(1),
                Err(fault) => Err(unexpected(fault, &format!("the trap {}", trap.id))),
                Ok(_) => Err(Why::Differs(format!("expected the trap {}, found a value", trap.id))),
            },
            Err(stop) => Err(Why::Skipped(stop.to_string())),
        }
    }

    fn sliced(
        &mut self,
        slices: &[(TensorProgram, u64)],
        arguments: &Arguments,
    ) -> Result<usize, Why> {
        let blank = self.blank(arguments);
        let (mut found, mut compared, mut reason) = (None, 0, None);
        for (slice, most) in slices {
            let Ok(compiled) = Compiled::new(slice) else { continue };
            let mut steps = *most;
            let wanted = run(&compiled, &blank, &mut steps);
            self.steps -= most - steps;
            let wanted = match wanted {
                Ok(wanted) => wanted,
                // It reads what another iteration computes.
                Err(stop) => {
                    reason.get_or_insert(format!("a slice of it does not run: {stop}"));
                    break;
                }
            };
            let found = match &found {
                Some(found) => found,
                None => match self.call(arguments) {
                    Ok(values) => found.insert(values),
                    Err(Fault::Broken(why)) => return Err(Why::Differs(why)),
                    // Another iteration may trap.
                    Err(Fault::Trap(site)) => {
                        return Err(Why::Skipped(format!("it traps: {}", site.trap)));
                    }
                },
            };
            let perturbed = || {
                let mut steps = *most;
                run(&compiled, &self.blank(&arguments.perturbed(self.agreement.sums())), &mut steps)
                    .ok()
            };
            compared += self.compare(&wanted, found, (arguments.magnitude, &perturbed))?;
        }
        reason.filter(|_| compared == 0).map_or(Ok(compared), |why| Err(Why::Skipped(why)))
    }

    /// The arguments with undefined elements in what the program writes.
    fn blank(&self, arguments: &Arguments) -> Arguments {
        let tensors = arguments.tensors.iter().zip(&self.writes).map(|(tensor, is_written)| {
            if *is_written {
                Tensor::undefined(tensor.dtype(), tensor.shape())
            } else {
                tensor.clone()
            }
        });
        Arguments {
            tensors: tensors.collect(),
            ints: arguments.ints.clone(),
            magnitude: arguments.magnitude,
        }
    }

    fn call(&self, arguments: &Arguments) -> Result<Vec<Option<Tensor>>, Fault> {
        call(self.code.0, self.code.1, (arguments, &self.writes))
    }

    fn compare(
        &self,
        wanted: &[Tensor],
        found: &[Option<Tensor>],
        (inputs, perturbed): (f64, &dyn Fn() -> Option<Vec<Tensor>>),
    ) -> Result<usize, Why> {
        let Err(first) = self.agreement.compare((wanted, None), found, inputs) else {
            return Ok(1);
        };
        let second = (!self.agreement.is_exact()).then(perturbed).flatten();
        let second = second
            .map(|perturbed| self.agreement.compare((wanted, Some(&perturbed)), found, inputs));
        let (at, why) = match second {
            // Rounding errors of the inputs change as much: the case tells nothing.
            Some(Ok(())) => return Err(Why::Skipped("its results are ill-conditioned".to_owned())),
            Some(Err(second)) => second,
            None => first,
        };
        let buffer = self.program.buffer_params().nth(at);
        let name = buffer.map_or("", |buffer| self.program.buffer(buffer).name.as_str());
        Err(Why::Differs(format!("buffer `{name}` {why}")))
    }
}

fn run(compiled: &Compiled, arguments: &Arguments, steps: &mut u64) -> Result<Vec<Tensor>, Stop> {
    let limits = Limits { tensor_bytes: ALLOCATED, total_bytes: ALLOCATED, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    compiled.run(arguments.tensors.clone(), &arguments.ints, &options, steps)
}

fn is_same_trap(site: &Site, trap: &Trap) -> bool {
    (site.trap.as_str(), site.span) == (trap.id.as_str(), trap.span)
}

fn unexpected(fault: Fault, expected: &str) -> Why {
    match fault {
        Fault::Trap(site) if site.trap == OUT_OF_MEMORY => {
            Why::Skipped("it is out of memory".to_owned())
        }
        Fault::Trap(site) => {
            Why::Differs(format!("expected {expected}, found the trap {}", site.trap))
        }
        Fault::Broken(why) => Why::Differs(format!("expected {expected}: {why}")),
    }
}
