//! Shared objects that pass the kernel check. What was found lies beside the object in the cache, so that it is checked once.
//! Where a kernel differs from the interpreter, all are compiled again with fewer optimizations and checked again.

use crate::BuildError;
use crate::kernel_check::{Budget, Verdict, check};
use relax_cpu::{Cache, Compiler, Object};
use relax_emit::{Kernel, Source};
use relax_runtime::check_target;
use relax_runtime::program::KernelCheck as Results;
use relax_runtime::program::Numerics;
use relax_syntax::ir::Module;
use std::fmt::Write;

/// Changes where verdicts may change for the same kernels.
const VERSION: u32 = 2;
/// Kernels that are checked at a time.
const THREADS: usize = 4;
/// The kind of note beside an object.
const NOTE: &str = "checks";

/// Whether kernels are compared with the interpreter when they are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCheck {
    /// They are not.
    Off,
    /// They are, each within this budget.
    Within(Budget),
}

impl Default for KernelCheck {
    fn default() -> Self {
        Self::Within(Budget::default())
    }
}

/// The tensor programs of a module and their C text.
pub(crate) struct Unit<'u> {
    pub(crate) module: &'u Module,
    pub(crate) source: &'u Source,
    pub(crate) sums: Numerics,
    pub(crate) compiler: &'u Compiler,
    pub(crate) cache: &'u Cache,
}

impl Unit<'_> {
    /// The object, compiled or found in the cache, and its compiler. A compiler that is being probed compiles meanwhile: nearly always
    /// its probes ask for no flags.
    pub(crate) fn object(&self) -> Result<(Object, &Compiler), relax_cpu::Error> {
        let early = self.compiled(self.compiler);
        let settled = self.compiler.settled()?;
        match settled.key() == self.compiler.key() {
            true => Ok((early?, settled)),
            false => Ok((self.compiled(settled)?, settled)),
        }
    }

    fn compiled(&self, compiler: &Compiler) -> Result<Object, relax_cpu::Error> {
        relax_cpu::object(self.source, compiler, self.cache)
    }

    /// The bytes of an object whose kernels agree with the interpreter as far as they were compared.
    pub(crate) fn checked(&self, budget: Budget) -> Result<(Vec<u8>, Results), BuildError> {
        let (object, compiler) = self.object()?;
        let bytes = object.bytes()?;
        if let Err(why) = check_target(&compiler.target()?.words(&bytes)) {
            return Ok((bytes, self.unchecked(&format!("it does not run on this machine: {why}"))));
        }
        let verdicts = self.verdicts(&object, budget)?;
        let miscompiled = self.miscompiled(&verdicts);
        if miscompiled.is_empty() {
            return Ok((bytes, self.results(verdicts, miscompiled)));
        }
        let object = self.compiled(&compiler.with_few_optimizations())?;
        let verdicts = self.verdicts(&object, budget)?;
        if let Some((name, difference)) = self.differing(&verdicts).next() {
            let compiler = self.compiler.version().to_owned();
            let (name, difference) = (name.to_owned(), difference.to_owned());
            return Err(BuildError::Miscompiled { name, compiler, difference });
        }
        Ok((object.bytes()?, self.results(verdicts, miscompiled)))
    }

    /// The results where no kernel is compared.
    fn unchecked(&self, why: &str) -> Results {
        let kernels = self.source.kernels.iter();
        let unchecked = kernels.map(|kernel| (kernel.name.to_string(), why.to_owned()));
        Results { unchecked: unchecked.collect(), ..Results::default() }
    }

    /// One for each kernel, in their order.
    fn verdicts(&self, object: &Object, budget: Budget) -> Result<Vec<Verdict>, BuildError> {
        let heading = self.heading(budget);
        let known = object.note(NOTE).and_then(|note| read(&note, &heading, &self.source.kernels));
        if let Some(known) = known {
            return Ok(known);
        }
        let library = object.load()?;
        let verdicts = self.in_threads(&|kernel| {
            let program = self.module.tensor_program(&kernel.name);
            let program = program.expect("invariant: kernels are printed from tensor programs");
            check(program, (kernel, &library), self.sums, budget)
        });
        object.write_note(NOTE, &written(&verdicts, &heading, &self.source.kernels))?;
        Ok(verdicts)
    }

    /// A verdict for each kernel, in their order.
    fn in_threads(&self, verdict: &(dyn Fn(&Kernel) -> Verdict + Sync)) -> Vec<Verdict> {
        let kernels = &self.source.kernels;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(THREADS).min(kernels.len()).max(1);
        let share = |first: usize| kernels.iter().skip(first).step_by(threads).map(verdict);
        let mut shares: Vec<std::vec::IntoIter<Verdict>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|first| scope.spawn(move || share(first).collect::<Vec<_>>()))
                .collect();
            let mut all = vec![share(0).collect::<Vec<_>>()];
            all.extend(others.into_iter().map(|other| match other.join() {
                Ok(verdicts) => verdicts,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            all.into_iter().map(IntoIterator::into_iter).collect()
        });
        (0..kernels.len()).filter_map(|at| shares[at % threads].next()).collect()
    }

    /// All that decides verdicts on an object.
    fn heading(&self, budget: Budget) -> String {
        let programs =
            self.source.kernels.iter().map(|kernel| self.module.tensor_program(&kernel.name));
        let programs = blake3::hash(format!("{:?}", programs.collect::<Vec<_>>()).as_bytes());
        let (steps, relax) = (budget.steps, env!("CARGO_PKG_VERSION"));
        format!(
            "kernel check {VERSION} of relax {relax}, {steps} steps, programs {}",
            programs.to_hex()
        )
    }

    fn differing<'v>(
        &'v self,
        verdicts: &'v [Verdict],
    ) -> impl Iterator<Item = (&'v str, &'v str)> {
        self.source.kernels.iter().zip(verdicts).filter_map(|(kernel, verdict)| match verdict {
            Verdict::Differs { difference } => Some((kernel.name.as_str(), difference.as_str())),
            _ => None,
        })
    }

    fn miscompiled(&self, verdicts: &[Verdict]) -> Vec<(String, String)> {
        let version = self.compiler.version();
        let differing = self.differing(verdicts);
        differing
            .map(|(name, why)| (name.to_owned(), format!("{why} (compiler: {version})")))
            .collect()
    }

    fn results(&self, verdicts: Vec<Verdict>, miscompiled: Vec<(String, String)>) -> Results {
        let mut results = Results { miscompiled, ..Results::default() };
        for (kernel, verdict) in self.source.kernels.iter().zip(verdicts) {
            match verdict {
                Verdict::Unchecked { reason } => {
                    results.unchecked.push((kernel.name.to_string(), reason))
                }
                _ => results.agree += 1,
            }
        }
        results
    }
}

/// A heading, then a line for each kernel: its name, the verdict, and a detail.
fn written(verdicts: &[Verdict], heading: &str, kernels: &[Kernel]) -> String {
    let mut text = format!("{heading}\n");
    for (kernel, verdict) in kernels.iter().zip(verdicts) {
        let (what, detail) = match verdict {
            Verdict::Agrees { cases } => ("agrees", cases.to_string()),
            Verdict::Unchecked { reason } => ("unchecked", reason.replace('\n', " ")),
            Verdict::Differs { difference } => ("differs", difference.replace('\n', " ")),
        };
        let _ = writeln!(text, "{}\t{what}\t{detail}", kernel.symbol);
    }
    text
}

/// `None` for a note on other kernels, another check, or one that is damaged.
fn read(note: &str, heading: &str, kernels: &[Kernel]) -> Option<Vec<Verdict>> {
    let mut lines = note.lines();
    let is_of_these = lines.next() == Some(heading) && note.ends_with('\n');
    let lines: Vec<&str> = lines.collect();
    if !is_of_these || lines.len() != kernels.len() {
        return None;
    }
    let verdict = |(line, kernel): (&&str, &Kernel)| {
        let mut fields = line.splitn(3, '\t');
        let is_of_it = fields.next() == Some(kernel.symbol.as_str());
        let (what, detail) = (fields.next().filter(|_| is_of_it)?, fields.next()?.to_owned());
        match what {
            "agrees" => {
                Some(Verdict::Agrees { cases: detail.parse().ok().filter(|cases| *cases > 0)? })
            }
            "unchecked" => Some(Verdict::Unchecked { reason: detail }),
            "differs" => Some(Verdict::Differs { difference: detail }),
            _ => None,
        }
    };
    lines.iter().zip(kernels).map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_program::frontend::Program;
    use relax_symbolic::Prover;

    const TEXT: &str = r#"
@tensorir_function
def a(X: Buffer((2,), "f32"), Y: Buffer((2,), "f32")):
    for i in range(2):
        Y[i] = X[i]

@tensorir_function
def b(X: Buffer((2,), "f32"), Y: Buffer((2,), "f32")):
    for i in range(2):
        Y[i] = X[1 - i]
"#;

    /// A note is used whole, or the kernels are checked again.
    #[test]
    fn only_whole_notes_on_these_kernels_are_read() {
        let program = Program::load(relax_syntax::span::Source::new("notes", TEXT));
        let source = relax_emit::print_c(&program.module, &mut Prover::new(), Numerics::Exact);
        let kernels = &source.kernels;
        let verdicts = [
            Verdict::Agrees { cases: 3 },
            Verdict::Unchecked { reason: "it has\tno case\nhere".to_owned() },
        ];
        let note = written(&verdicts, "heading", kernels);
        let kept = [
            Verdict::Agrees { cases: 3 },
            Verdict::Unchecked { reason: "it has\tno case here".to_owned() },
        ];
        assert_eq!(read(&note, "heading", kernels), Some(kept.to_vec()));
        let differs = Verdict::Differs { difference: "n = 1: 2, not 3".to_owned() };
        let other = written(&[differs.clone(), differs.clone()], "heading", kernels);
        assert_eq!(read(&other, "heading", kernels), Some(vec![differs.clone(), differs]));

        assert_eq!(read(&note, "another heading", kernels), None);
        assert_eq!(read(&note, "heading", &kernels[..1]), None);
        let reversed: Vec<Kernel> = kernels.iter().rev().cloned().collect();
        assert_eq!(read(&note, "heading", &reversed), None);
        let symbol = &kernels[0].symbol;
        let damaged = [
            note.replace("agrees\t3", "agrees\t0"),
            note.replace("agrees\t3", "agrees\t-1"),
            note.replace("agrees\t3", "agrees"),
            note.replace("agrees", "approves"),
            note.replace(symbol.as_str(), "relax_c"),
            note.trim_end().to_owned(),
            format!("{note}{symbol}\tagrees\t3\n"),
            format!("\n{note}"),
            String::new(),
        ];
        for damaged in damaged {
            assert_eq!(read(&damaged, "heading", kernels), None, "{damaged}");
        }
    }
}
