//! The arguments of the entry function, from `--input`, `--params`, `--sym` and `--random`.

use crate::args::RunArgs;
use crate::commands::constants::StoredParameter;
use crate::commands::unknown::unknown;
use crate::exit::{Exit, Failure};
use crate::files::read_tensor;
use relax_program::signature::{bind, bind_shape, random_value};
use relax_program::spec::Context;
use relax_program::tensor_files::FileError;
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Function;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Random integers: small and not negative, so that they may be indices.
const RANDOM_INTS: std::ops::RangeInclusive<i64> = 0..=7;

/// What the command line says of the arguments.
pub(super) struct Inputs<'a> {
    function: &'a Function,
    specs: BTreeMap<Name, String>,
    dims: BTreeMap<Name, i64>,
    seed: u64,
    random: bool,
    max_bytes: u64,
}

impl<'a> Inputs<'a> {
    /// Reads the flags; every name in them must be one of the function.
    pub(super) fn new(args: &RunArgs, function: &'a Function, max: u64) -> Result<Self, Failure> {
        let params: Vec<&str> = parameters(function).map(|(name, _)| name.as_str()).collect();
        let mut specs = BTreeMap::new();
        for input in &args.input {
            let (name, spec) = pair("--input", "NAME=SPEC", input)?;
            if !params.contains(&name) {
                return Err(unknown("parameter", name, &params));
            }
            if specs.insert(Name::new(name), spec.to_owned()).is_some() {
                return Err(Failure::usage(format!("--input {name} is given twice")));
            }
        }
        let dims = dims_of(args, function)?;
        let (seed, random) = (args.seed, args.random);
        Ok(Self { function, specs, dims, seed, random, max_bytes: max })
    }

    /// The arguments in order.
    pub(super) fn read(
        self,
        parameters_of_file: &BTreeMap<Name, Tensor>,
    ) -> Result<Vec<Value>, Failure> {
        self.read_beside(parameters_of_file, &BTreeMap::new())
    }

    /// The same, with `None` for what stays in a file.
    pub(super) fn read_beside(
        mut self,
        parameters_of_file: &BTreeMap<Name, Tensor>,
        stored: &BTreeMap<Name, StoredParameter>,
    ) -> Result<Vec<Value>, Failure> {
        let mut values: BTreeMap<Name, Value> = BTreeMap::new();
        for (name, annotation) in parameters(self.function) {
            if let Some(own) = stored.get(name).filter(|_| !self.specs.contains_key(name)) {
                same_dtype(name, annotation, own.entry.dtype)?;
                bind_shape(annotation, &own.entry.shape, &mut self.dims);
                values.insert(name.clone(), Value::None);
            }
        }
        for (name, tensor) in parameters_of_file {
            if !self.specs.contains_key(name) {
                values.insert(name.clone(), Value::Tensor(tensor.clone()));
            }
        }
        for (name, annotation) in parameters(self.function) {
            if let Some(value) = values.get(name) {
                bind(annotation, value, &mut self.dims);
            }
        }
        // What has its own dims comes first: a bare `randn` may take its dims from it.
        for bare in [false, true] {
            for (name, annotation) in parameters(self.function) {
                let Some(spec) = self.specs.get(name).filter(|spec| is_bare(spec) == bare) else {
                    continue;
                };
                let value = self.value(name, spec, annotation)?;
                bind(annotation, &value, &mut self.dims);
                values.insert(name.clone(), value);
            }
        }
        self.fill(&mut values)?;
        let mut arguments = Vec::new();
        for (name, annotation) in parameters(self.function) {
            let value = values.remove(name).ok_or_else(|| {
                Failure::usage(format!("the parameter `{name}` has two declarations"))
            })?;
            if let Value::Tensor(tensor) = &value {
                same_dtype(name, annotation, Some(tensor.dtype()))?;
            }
            arguments.push(value);
        }
        Ok(arguments)
    }

    fn value(&self, name: &Name, spec: &str, annotation: &Annotation) -> Result<Value, Failure> {
        let exceeds = Cell::new(false);
        let load = |path: &str| {
            read_tensor(path, self.max_bytes).map_err(|error| {
                exceeds.set(matches!(error, FileError::Limit(_)));
                error.to_string()
            })
        };
        let context = Context {
            dims: self.dims.clone(),
            seed: self.seed,
            max_bytes: self.max_bytes,
            load: Some(&load),
        };
        context.read(name, spec, Some(annotation)).map_err(|why| {
            let part = spec.get(why.span.start as usize..why.span.end as usize);
            let part = part.filter(|part| part.len() < spec.trim().len() && !part.is_empty());
            let part = part.filter(|part| !why.message.contains(&format!("`{part}`")));
            let at = part.map_or_else(String::new, |part| format!(" at `{}`", shortened(part)));
            let exit = if exceeds.get() { Exit::Stopped } else { Exit::Usage };
            Failure::Message { exit, text: format!("--input {name}: {why}{at}") }
        })
    }

    /// Random data for what is missing, or an error that lists all of it.
    fn fill(&self, values: &mut BTreeMap<Name, Value>) -> Result<(), Failure> {
        let missing: Vec<(&Name, &Annotation)> =
            parameters(self.function).filter(|(name, _)| !values.contains_key(*name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if !self.random {
            let lines =
                missing.iter().map(|(name, annotation)| format!("\n  {name}: {annotation}"));
            let lines: String = lines.collect();
            return Err(Failure::usage(format!(
                "these parameters have no value; give --input NAME=SPEC for each, or --random:{lines}"
            )));
        }
        for (name, annotation) in missing {
            let mut random = Random::new(self.seed, name);
            let value = random_value(
                annotation,
                &self.dims,
                &mut random,
                &RANDOM_INTS,
                self.max_bytes,
            )
            .map_err(|why| {
                Failure::usage(format!(
                    "--random cannot fill `{name}: {annotation}`: {why}; give --sym or --input"
                ))
            })?;
            values.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// `zeros`, without dims.
fn is_bare(spec: &str) -> bool {
    spec.trim().bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn parameters(function: &Function) -> impl Iterator<Item = (&Name, &Annotation)> {
    let params = function.lambda.params.iter();
    params.map(|&id| (&function.var(id).name, function.param_annotation(id)))
}

fn pair<'t>(flag: &str, form: &str, text: &'t str) -> Result<(&'t str, &'t str), Failure> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim(), value));
    pair.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
        Failure::usage(format!("{flag}: expected {form}, found `{}`", shortened(text)))
    })
}

fn dims_of(args: &RunArgs, function: &Function) -> Result<BTreeMap<Name, i64>, Failure> {
    let known: Vec<&str> =
        function.dims.iter().filter(|dim| dim.in_signature).map(|dim| dim.name.as_str()).collect();
    let mut dims = BTreeMap::new();
    for text in &args.sym {
        let (name, value) = pair("--sym", "NAME=INTEGER", text)?;
        if !known.contains(&name) {
            return Err(unknown("symbolic variable", name, &known));
        }
        let value = value.trim().parse::<i64>().ok().filter(|&value| value >= 0);
        let value = value.ok_or_else(|| {
            Failure::usage(format!(
                "--sym {name}: expected an integer of at least 0, found `{text}`"
            ))
        })?;
        if dims.insert(Name::new(name), value).is_some() {
            return Err(Failure::usage(format!("--sym {name} is given twice")));
        }
    }
    Ok(dims)
}

/// Nothing is cast silently.
fn same_dtype(name: &Name, annotation: &Annotation, own: Option<DType>) -> Result<(), Failure> {
    let wanted = annotation.as_tensor().and_then(|annotation| annotation.dtype);
    match wanted.zip(own).filter(|(wanted, own)| wanted != own) {
        None => Ok(()),
        Some((wanted, own)) => Err(Failure::usage(format!(
            "the parameter `{name}` is of dtype {wanted}, its value of {}; nothing is cast silently: \
             convert the data (`array.astype(\"{}\")` in NumPy), or change the annotation and use \
             `astype(…, \"{wanted}\")` in the program",
            own,
            wanted.long_name()
        ))),
    }
}

fn shortened(text: &str) -> String {
    const LIMIT: usize = 60;
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    format!("{} …", text.chars().take(LIMIT).collect::<String>())
}
