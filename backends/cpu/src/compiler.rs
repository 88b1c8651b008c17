//! The system's C compiler.

use crate::probe::probe;
use crate::probing::Probing;
use crate::scratch::Running;
use crate::{Cache, Cpu, Error, Findings, Target};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

/// How kernels are compiled beside the flag of the processor: with the rounding that the text says. The flags on math change no
/// value: they let a vector do what the scalar does.
pub const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O3",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fvisibility=default",
    // Without the names of temporary files, so that equal texts have equal code.
    "-s",
    "-w",
];

/// After [`FLAGS`], for text that is miscompiled with those alone. Most miscompilations of loops are in the vectorizer and
/// the passes that prepare for it.
const SAFER: [&str; 2] = ["-O1", "-fno-tree-vectorize"];

/// A C compiler that was found, and the code that it makes.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// As the user wrote it.
    command: String,
    /// The program and its first arguments.
    words: Vec<String>,
    version: String,
    flags: Vec<String>,
    /// The flag of the processor.
    processor: String,
    cpu: Cpu,
    /// Asked of it when it is needed.
    target: OnceLock<Target>,
    /// Of the probes, where it was probed.
    findings: Option<Findings>,
    /// The same, where probes are running.
    probing: Option<Arc<Probing>>,
}

impl Compiler {
    /// `$CC`, or `cc`.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn of_system() -> Result<Self, Error> {
        let named = std::env::var("CC").ok().filter(|name| !name.is_empty());
        Self::named(named.as_deref().unwrap_or("cc"))
    }

    /// The compiler of this path, or of this name with arguments, quoted as for the shell: `ccache gcc`.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn named(command: &str) -> Result<Self, Error> {
        let failed = |why: String| Error::NoCompiler { command: command.to_owned(), why };
        let words = match Path::new(command).is_file() {
            true => Some(vec![command.to_owned()]),
            false => shlex::split(command).filter(|words| !words.is_empty()),
        };
        let words = words.ok_or_else(|| failed("a quote has no end".to_owned()))?;
        let output = Command::new(&words[0])
            .args(&words[1..])
            .arg("--version")
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("`--version` ends with {}", output.status)));
        }
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.lines().next().unwrap_or("").to_owned();
        let flags = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        let cpu = Cpu::Native;
        let processor = cpu.flag(std::env::consts::ARCH);
        let command = command.to_owned();
        let (target, findings, probing) = (OnceLock::new(), None, None);
        Ok(Self { command, words, version, flags, processor, cpu, target, findings, probing })
    }

    /// For this processor.
    ///
    /// # Errors
    /// When it has no code for it.
    pub fn for_cpu(mut self, cpu: &Cpu) -> Result<Self, Error> {
        if self.cpu == *cpu {
            return Ok(self);
        }
        let machine = self.asked(&["-dumpmachine"])?;
        let architecture = machine.split('-').next().unwrap_or_default();
        (self.processor, self.cpu) = (cpu.flag(architecture), cpu.clone());
        self.target = OnceLock::new();
        if !self.target()?.is_detected() {
            let why =
                "which extensions a processor of that architecture has is not known".to_owned();
            return Err(self.no_code(why));
        }
        Ok(self)
    }

    /// What it compiles for.
    ///
    /// # Errors
    /// When it has no code for the processor.
    pub fn target(&self) -> Result<&Target, Error> {
        if let Some(target) = self.target.get() {
            return Ok(target);
        }
        let macros = self.asked(&["-dM", "-E", "-x", "c", "/dev/null"])?;
        let target = Target::of_macros(&macros);
        let target =
            target.ok_or_else(|| self.no_code("the architecture is not known".to_owned()))?;
        Ok(self.target.get_or_init(|| target))
    }

    /// What it prints on the standard output.
    fn asked(&self, arguments: &[&str]) -> Result<String, Error> {
        let failed = |why| Error::NoCompiler { command: self.command.clone(), why };
        let mut command = self.program();
        command.args(self.flags.iter().filter(|flag| *flag != "-shared"));
        command.arg(&self.processor).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Running::spawn(&mut command).and_then(Running::wait_with_output);
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(self.no_code(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn no_code(&self, why: String) -> Error {
        Error::Processor { command: self.command.clone(), flag: self.processor.clone(), why }
    }

    fn program(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// With one more flag, after the others.
    #[must_use]
    pub fn with_flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self.target = OnceLock::new();
        self
    }

    /// With the flags with which it makes right code of all probes: programs that are known to be miscompiled. They are compiled
    /// and run when a cache is used with this compiler for the first time.
    ///
    /// # Errors
    /// When there are no such flags; when the cache cannot be written.
    pub fn probed(self, cache: &Cache) -> Result<Self, Error> {
        let findings = probe(&self, cache)?;
        let compiler = findings.flags().fold(self, Self::with_flag);
        Ok(Self { findings: Some(findings), ..compiler })
    }

    /// The same compiler, whose probes run meanwhile.
    ///
    /// # Errors
    /// When it has no code for the processor.
    pub fn probing(self, cache: &Cache) -> Result<Self, Error> {
        self.target()?;
        let probing = Probing::start(&self, cache);
        Ok(Self { probing: Some(Arc::new(probing)), ..self })
    }

    /// With the flags that its probes ask for, if it is being probed.
    ///
    /// # Errors
    /// As of [`Self::probed`].
    pub fn settled(&self) -> Result<&Self, Error> {
        let Some(probing) = &self.probing else { return Ok(self) };
        probing.compiler().as_ref().map_err(Clone::clone)
    }

    /// What the probes found; `None` where it was not probed.
    #[must_use]
    pub fn findings(&self) -> Option<&Findings> {
        self.findings.as_ref()
    }

    /// As the user wrote it.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The processor that it was asked to compile for.
    pub(crate) fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// An executable of a C file, by the flags of kernels.
    pub(crate) fn executable(&self, text: &Path, program: &Path) -> Result<(), Error> {
        let own = Self {
            flags: self.flags.iter().filter(|flag| *flag != "-shared").cloned().collect(),
            ..self.clone()
        };
        own.ended(text, own.started(text, &[text], program, &["-lm"])?)
    }

    /// The first line of `--version`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// With fewer optimizations, for text that it miscompiles otherwise.
    #[must_use]
    pub fn with_few_optimizations(&self) -> Self {
        SAFER.iter().fold(self.clone(), |compiler, flag| compiler.with_flag(flag))
    }

    /// Everything but the text that decides which code is made.
    #[must_use]
    pub fn key(&self) -> String {
        let Self { command, version, flags, processor: flag, .. } = self;
        format!("{command}\n{version}\n{} {flag}\n{}\n", flags.join(" "), processor())
    }

    /// A number that tells processors apart, as far as the system does.
    pub(crate) fn processor() -> u64 {
        processor().bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Makes a shared object of a C file that is one unit.
    pub(crate) fn compile(&self, text: &Path, object: &Path) -> Result<(), Error> {
        self.ended(text, self.started(text, &[text], object, &["-lm"])?)
    }

    /// For the routines that kernels are linked with. Their loops say what is unrolled, and GCC takes half as long again with
    /// `-O3` for the same speed; clang's products of f32 take half the time with it. The linker leaves out the functions that a
    /// module does not call.
    pub(crate) fn of_routines(&self) -> Self {
        let lower = !self.version.contains("clang");
        let flags = self.flags.iter().filter(|flag| *flag != "-shared");
        let flags = flags.map(|flag| if lower && flag == "-O3" { "-O2" } else { flag.as_str() });
        let flags = flags.chain(["-c", "-ffunction-sections"]).map(str::to_owned).collect();
        Self { flags, ..self.clone() }
    }

    /// Makes an object of a unit.
    pub(crate) fn compile_unit(&self, text: &Path, object: &Path) -> Result<(), Error> {
        self.ended(text, self.started(text, &[text], object, &[])?)
    }

    /// Starts a process for each part of a C file; their objects are beside the one named.
    pub(crate) fn start_parts(&self, text: &Path, parts: u32, object: &Path) -> Parts<'_> {
        let started = (0..parts).map(|part| {
            let object = object.with_extension(format!("{part}.o"));
            let more = ["-c", &format!("-DRX_PART={part}")];
            (self.started(text, &[text], &object, &more), object)
        });
        Parts { compiler: self, text: text.to_owned(), started: started.collect() }
    }

    /// Makes a shared object of objects.
    pub(crate) fn link(
        &self,
        text: &Path,
        objects: &[PathBuf],
        object: &Path,
    ) -> Result<(), Error> {
        let objects: Vec<&Path> = objects.iter().map(PathBuf::as_path).collect();
        let more: &[&str] = match cfg!(target_os = "linux") {
            true => &["-Wl,--gc-sections", "-lm"],
            false => &["-lm"],
        };
        self.ended(text, self.started(text, &objects, object, more)?)
    }

    fn started(
        &self,
        text: &Path,
        inputs: &[&Path],
        output: &Path,
        more: &[&str],
    ) -> Result<Running, Error> {
        let mut command = self.program();
        command.args(&self.flags).arg(&self.processor).args(&self.target()?.without);
        command.arg("-o").arg(output).args(inputs).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(folder) = output.parent() {
            command.env("TMPDIR", folder);
        }
        Running::spawn(&mut command).map_err(|error| self.not_run(text, &error))
    }

    fn ended(&self, text: &Path, child: Running) -> Result<(), Error> {
        let output = child.wait_with_output().map_err(|error| self.not_run(text, &error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Compile {
            command: self.command.clone(),
            path: text.to_owned(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn not_run(&self, text: &Path, error: &std::io::Error) -> Error {
        let why = format!("for {}: {error}", text.display());
        Error::NoCompiler { command: self.command.clone(), why }
    }
}

/// Parts of a C file that are being compiled.
pub(crate) struct Parts<'c> {
    compiler: &'c Compiler,
    text: PathBuf,
    started: Vec<(Result<Running, Error>, PathBuf)>,
}

impl Parts<'_> {
    /// The objects of all parts. All of them are waited for, also where one fails.
    pub(crate) fn objects(self) -> Result<Vec<PathBuf>, Error> {
        let Self { compiler, text, started } = self;
        let ended = started
            .into_iter()
            .map(|(child, object)| compiler.ended(&text, child?).map(|()| object))
            .collect::<Vec<_>>();
        ended.into_iter().collect()
    }
}

/// What the processor can do, as far as the system tells: code for another one must not be found here.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let wanted = ["model name", "flags", "Features", "CPU part"];
    let lines = info.lines().take_while(|line| !line.trim().is_empty());
    let features = lines.filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    let features: Vec<&str> = features.collect();
    format!("{} {}", std::env::consts::ARCH, features.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_as_for_the_shell() {
        let compiler = Compiler::named("env 'A=a b' cc -g0").expect("a C compiler");
        assert_eq!(compiler.words, ["env", "A=a b", "cc", "-g0"]);
        assert!(compiler.target().is_ok_and(|target| target.is_detected()));
        for wrong in ["cc 'a", "  "] {
            assert!(matches!(Compiler::named(wrong), Err(Error::NoCompiler { .. })), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_processor_is_told() {
        let compiler = Compiler::of_system().expect("a C compiler");
        let error = compiler.for_cpu(&Cpu::Named("abacus".to_owned()));
        let error = error.expect_err("there is none of this name").to_string();
        assert!(error.contains("abacus"), "{error}");
    }

    #[test]
    fn a_missing_compiler_is_told() {
        let error = Compiler::named("no-such-compiler").expect_err("there is none of this name");
        assert!(error.to_string().contains("no-such-compiler"), "{error}");
        assert!(error.to_string().contains("CC"), "{error}");
    }
}
