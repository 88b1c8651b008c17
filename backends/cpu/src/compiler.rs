//! The system's C compiler.

use crate::Error;
use crate::scratch::Running;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How kernels are compiled: for this processor, with the rounding that the text says. The flags on math
/// change no value: they let a vector do what the scalar does.
pub const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O3",
    "-march=native",
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
    command: String,
    version: String,
    flags: Vec<String>,
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

    /// The compiler of this name or path.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn named(command: &str) -> Result<Self, Error> {
        let failed = |why: String| Error::NoCompiler { command: command.to_owned(), why };
        let output = Command::new(command)
            .arg("--version")
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("`--version` ends with {}", output.status)));
        }
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.lines().next().unwrap_or("").to_owned();
        let flags = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        Ok(Self { command: command.to_owned(), version, flags })
    }

    /// With one more flag, after the others.
    #[must_use]
    pub fn with_flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
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
        let Self { command, version, flags } = self;
        format!("{command}\n{version}\n{}\n{}\n", flags.join(" "), processor())
    }

    /// A number that tells processors apart, as far as the system does.
    pub(crate) fn processor() -> u64 {
        processor().bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Makes a shared object of a C file, of each of its parts in a process of its own. Temporary files are beside the
    /// object.
    pub(crate) fn compile(&self, text: &Path, parts: u32, object: &Path) -> Result<(), Error> {
        if parts < 2 {
            return self.ended(text, self.started(text, &[text], object, &["-lm"])?);
        }
        let objects: Vec<PathBuf> =
            (0..parts).map(|part| object.with_extension(format!("{part}.o"))).collect();
        let made = self.compile_parts(text, &objects);
        made.and_then(|()| {
            let objects: Vec<&Path> = objects.iter().map(PathBuf::as_path).collect();
            self.ended(text, self.started(text, &objects, object, &["-lm"])?)
        })
    }

    fn compile_parts(&self, text: &Path, objects: &[PathBuf]) -> Result<(), Error> {
        let started = (0_u32..).zip(objects).map(|(part, object)| {
            self.started(text, &[text], object, &["-c", &format!("-DRX_PART={part}")])
        });
        // All of them are waited for, also where one fails.
        let started: Vec<_> = started.collect();
        let ended = started.into_iter().map(|child| self.ended(text, child?)).collect::<Vec<_>>();
        ended.into_iter().collect()
    }

    fn started(
        &self,
        text: &Path,
        inputs: &[&Path],
        output: &Path,
        more: &[&str],
    ) -> Result<Running, Error> {
        let mut command = Command::new(&self.command);
        command.args(&self.flags).arg("-o").arg(output).args(inputs).args(more);
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
    fn a_missing_compiler_is_told() {
        let error = Compiler::named("no-such-compiler").expect_err("there is none of this name");
        assert!(error.to_string().contains("no-such-compiler"), "{error}");
        assert!(error.to_string().contains("CC"), "{error}");
    }
}
