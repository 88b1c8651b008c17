//! A difference as files and commands that show it again.

use super::report::{LONGEST, params};
use crate::args::DiffArgs;
use crate::commands::run::collect;
use crate::exit::Failure;
use crate::files::{FileKind, is_module, is_stdin, kind_of, write_whole};
use relax_driver::KernelCheck;
use relax_driver::differential::{Difference, Files, Other, Routes};
use relax_program::spec::{Typing, literal};
use relax_program::tensor_files::{write_npz, write_safetensors};
use relax_runtime::program::Numerics;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use std::path::{Path, PathBuf};

/// How to run a case again.
#[derive(Default)]
pub(super) struct Reproduction {
    /// The command that gives the expected value, where one does.
    pub(super) expected: Option<String>,
    /// The command that gives the value found, where one does.
    pub(super) found: Option<String>,
    /// Files that were written.
    pub(super) saved: Vec<PathBuf>,
    /// What could not be said or written.
    pub(super) notes: Vec<String>,
}

/// Refuses before anything runs what could not be written afterwards.
pub(super) fn refuse_path(path: &Path) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::usage(format!("--save: {}: {why}", path.display())));
    if path.extension().is_none_or(|extension| extension != "npz") {
        return refused("expected a name that ends with .npz");
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_none_or(Path::is_dir) {
        true => Ok(()),
        false => refused("there is no such folder"),
    }
}

impl Reproduction {
    /// Writes the files that are asked for; all is encoded before anything is written.
    pub(super) fn of(
        args: &DiffArgs,
        routes: &Routes,
        difference: &Difference,
    ) -> Result<Self, Failure> {
        let mut again = Self::default();
        let archive = args.save.as_deref();
        let inputs = inputs(routes, difference);
        let constants = match (archive, routes.random_constants) {
            (Some(path), true) => Some(path.with_extension("constants.safetensors")),
            _ => None,
        };
        if let Some(path) = archive {
            let content = again.archive(&inputs, difference)?;
            let side = constants.as_deref().map(|path| Ok((path, constants_of(routes)?)));
            let side = side.transpose()?;
            if let Some((path, content)) = &side {
                write_whole(path, content)?;
            }
            write_whole(path, &content)?;
            again.saved.push(path.to_owned());
            again.saved.extend(side.map(|(path, _)| path.to_owned()));
        }
        let specs = inputs.iter().map(|(name, value)| {
            let spec = spec(name, value, archive)?;
            Some(format!("--input {}", quoted(&format!("{name}={spec}"))))
        });
        let params = constants.as_deref().or(args.params.as_deref());
        match specs.collect::<Option<Vec<_>>>() {
            Some(specs) if !routes.random_constants || archive.is_some() => {
                again.commands(args, routes, difference, (&specs, params))?;
            }
            _ => again.notes.push(
                "--save FILE.npz writes the values, and gives the command that runs them"
                    .to_owned(),
            ),
        }
        Ok(again)
    }

    /// Inputs, and both results where they are values.
    fn archive(
        &mut self,
        inputs: &[(String, &Value)],
        difference: &Difference,
    ) -> Result<Vec<u8>, Failure> {
        let mut tensors = Vec::new();
        for (name, value) in inputs {
            if let (true, Value::Tensor(tensor)) = (is_stored(value), *value) {
                tensors.push((format!("input_{name}"), tensor.clone()));
            }
        }
        for (name, result) in [("expected", &difference.expected), ("found", &difference.found)] {
            self.result(name, result, &mut tensors);
        }
        write_npz(&tensors).map_err(|why| Failure::usage(format!("--save: {why}")))
    }

    fn result(
        &mut self,
        name: &str,
        result: &Result<Value, Stop>,
        tensors: &mut Vec<(String, Tensor)>,
    ) {
        let mut of_result = Vec::new();
        let collected = match result {
            Ok(value) => collect(name, value, &mut of_result),
            Err(stop) => Err(format!("{name} is no value: {stop}")),
        };
        match collected {
            // NumPy has no bf16; f32 has all its values.
            Ok(()) => tensors.extend(of_result.into_iter().map(|(name, tensor)| {
                let is_narrow = tensor.dtype() == DType::BF16;
                (name, if is_narrow { tensor.cast(DType::F32) } else { tensor })
            })),
            Err(why) => self.notes.push(format!("not saved: {why}")),
        }
    }

    fn commands(
        &mut self,
        args: &DiffArgs,
        routes: &Routes,
        difference: &Difference,
        (specs, params): (&[String], Option<&Path>),
    ) -> Result<(), Failure> {
        if is_stdin(&args.file) {
            return Ok(());
        }
        let command = |file: &Path, flags: &[String]| {
            let mut words = vec!["relax run".to_owned(), quoted(&file.display().to_string())];
            if difference.function != "main" {
                words.push(format!("--entry {}", difference.function));
            }
            words.extend(flags.iter().cloned());
            words.extend(specs.iter().cloned());
            let params = params.filter(|_| kind_of(file).is_ok_and(|kind| kind != FileKind::Model));
            words.extend(
                params.map(|path| format!("--params {}", quoted(&path.display().to_string()))),
            );
            words.join(" ")
        };
        let Files { left, other, built } = &routes.files;
        // What is interpreted of a module file is the source in it.
        if !is_module(left)? {
            self.expected = Some(command(left, &[]));
        }
        self.found = match &routes.other {
            Other::Text { .. } => args.against.as_deref().map(|file| command(file, &[])),
            Other::Compiled { .. } if built.is_some() => Some(command(other, &[])),
            Other::Compiled { .. } => Some(command(left, &flags(args))),
        };
        Ok(())
    }
}

/// The flags of `relax run` that compile as the comparison did.
fn flags(args: &DiffArgs) -> Vec<String> {
    let backend = args.backend.unwrap_or_default();
    let mut flags = vec![format!("--backend {}", backend.name())];
    if args.numerics.chosen() == Numerics::Exact {
        flags.push("--exact".to_owned());
    }
    if args.kernel_check.policy() == KernelCheck::Off {
        flags.push("--no-kernel-check".to_owned());
    }
    flags
}

/// What is passed, by the names of the parameters.
fn inputs<'d>(routes: &Routes, difference: &'d Difference) -> Vec<(String, &'d Value)> {
    let names = params(&routes.left, difference).into_iter();
    let named = names.zip(&difference.case.arguments);
    let passed = named.filter(|(name, _)| routes.known.is_passed(&difference.function, name));
    passed.map(|(name, value)| (name.to_string(), value)).collect()
}

/// Whether an archive holds the value as it is.
fn is_stored(value: &Value) -> bool {
    matches!(value, Value::Tensor(tensor) if tensor.dtype() != DType::BF16)
}

/// The value on the command line: out of the archive, or written out where it is short enough.
fn spec(name: &str, value: &Value, archive: Option<&Path>) -> Option<String> {
    match archive.filter(|_| is_stored(value)) {
        Some(path) => Some(format!("@{}:input_{name}", path.display())),
        None => literal(value, Typing::Written).filter(|text| text.len() <= LONGEST),
    }
}

fn constants_of(routes: &Routes) -> Result<Vec<u8>, Failure> {
    let constants = routes.externals.iter();
    let constants: Vec<_> =
        constants.map(|(name, value)| (name.to_string(), value.clone())).collect();
    write_safetensors(&constants).map_err(|why| Failure::usage(format!("--save: {why}")))
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=,:@+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
