//! Oracle of the VM: P2.3, encoded as a module file and decoded, agrees with the interpreter. For the processor, every other
//! program is compiled with reassociated sums, and agrees within the bound on rounding errors.

use super::inputs::{drawn, options};
use super::passes;
use crate::case::{Case, Finding};
use crate::session::Statistics;
use relax_cpu::{Cache, Compiler};
use relax_driver::{BuildError, CompileError, KernelCheck, Target, Toolchain, backend};
use relax_lower::lowered::Lowered;
use relax_lower::program::{Around, kernels, lower_program};
use relax_program::compare::Relation;
use relax_program::frontend;
use relax_program::reals::largest_magnitude;
use relax_program::rounding::{Precision, Rounding, compare_rounded, perturbed_value};
use relax_reference::{
    Printed, ReferenceKernels, register, stop_to_semantics, to_machine, to_semantics,
};
use relax_rewrite::pass::Device;
use relax_rewrite::verify::{compare_values, relation_of_rounded};
use relax_runtime as machine;
use relax_runtime::file::Image;
use relax_runtime::program::Numerics;
use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::ir::{Function, Module};
use relax_tir::analysis::bit_exact::is_bit_exact;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Calls of each function.
const CALLS: usize = 4;

pub(super) fn hold(
    case: &Case,
    device: Device,
    statistics: &mut Statistics,
) -> Result<(), Finding> {
    let lowered = passes::lowered(case, statistics)?;
    let lowered = &lowered.module;
    let numerics = match device {
        Device::Cpu if !case.seed.is_multiple_of(2) => Numerics::Reassociated,
        _ => Numerics::Exact,
    };
    let loaded = load(case, lowered, (device, numerics));
    let module = match loaded {
        Ok(module) => module,
        Err(Refusal::Unsupported) => {
            statistics.unsupported += 1;
            return Ok(());
        }
        Err(Refusal::Broken(why)) => {
            return Err(Finding::new("build", why, "build FILE -o OUT.rxm"));
        }
    };
    // Functions of the C library are right within a unit, and so are the interpreter's: what comes of both is not alike.
    let alike = device == Device::Interp || kernels(lowered).into_iter().all(is_bit_exact);
    let relation = if alike { Relation::Equal } else { relation_of_rounded(&case.checked) };
    let compared = match numerics {
        Numerics::Exact => Compared::As(relation),
        Numerics::Reassociated => Compared::Reassociated(Precision::of(&case.checked)),
    };
    for function in case.checked.functions() {
        for index in 0..CALLS {
            call(case, (lowered, &module, compared), function, index, statistics)?;
        }
    }
    Ok(())
}

/// How results are compared.
#[derive(Clone, Copy)]
enum Compared {
    As(Relation),
    /// Within the bound on rounding errors of reassociated sums.
    Reassociated(Precision),
}

/// The machine against the interpreter on the very same text: what the passes change is another oracle's question.
fn call(
    case: &Case,
    (lowered, module, compared): (&Module, &machine::Module, Compared),
    function: &Function,
    index: usize,
    statistics: &mut Statistics,
) -> Result<(), Finding> {
    let Some((dims, arguments)) = drawn(case, function, index, statistics) else { return Ok(()) };
    let want = frontend::run(lowered, &function.name, arguments.clone(), &options()).result;
    if let Err(Stop::Exhausted { .. }) = want {
        statistics.exhausted += 1;
        return Ok(());
    }
    let got = perform(module, function, &arguments);
    let found = |why: String| {
        let why = format!("`{}` at {dims:?}, case {index}: {why}", function.name);
        let numerics = if matches!(compared, Compared::As(_)) { " --exact" } else { "" };
        let name = &function.name;
        let command = format!("build FILE{numerics} -o OUT.rxm; relax run OUT.rxm --entry {name}");
        Err(Finding::new("machine", why, command))
    };
    match (want, got) {
        (Ok(want), Ok(got)) => {
            let held = match compared {
                Compared::As(relation) => compare_values(relation, &want, &got, &arguments),
                Compared::Reassociated(precision) => {
                    let rounding = Rounding::Sums(precision);
                    reassociated(lowered, function, &arguments, (&want, &got), rounding)
                }
            };
            statistics.compared += 1;
            held.or_else(found)
        }
        (Err(Stop::Trap(want)), Err(Stop::Trap(got))) => {
            statistics.trapped += 1;
            if want.id == got.id { Ok(()) } else { found(format!("{want}; on the machine {got}")) }
        }
        (_, Err(Stop::Exhausted { .. })) => {
            statistics.exhausted += 1;
            Ok(())
        }
        (_, Err(Stop::Unsupported(_))) | (Err(Stop::Unsupported(_)), _) => {
            statistics.unsupported += 1;
            Ok(())
        }
        (want, got) => found(format!("{want:?}; on the machine {got:?}")),
    }
}

fn reassociated(
    lowered: &Module,
    function: &Function,
    arguments: &[Value],
    both: (&Value, &Value),
    rounding: Rounding,
) -> Result<(), String> {
    let perturbed = || {
        let arguments = arguments.iter().map(perturbed_value).collect();
        frontend::run(lowered, &function.name, arguments, &options()).result.ok()
    };
    compare_rounded(rounding, both, largest_magnitude(arguments), perturbed).map(|_| ())
}

fn perform(
    module: &machine::Module,
    function: &Function,
    arguments: &[Value],
) -> Result<Value, Stop> {
    let unsupported = |why: String| Stop::Unsupported(why);
    let arguments: Result<Vec<_>, _> = arguments.iter().map(to_machine).collect();
    let arguments = arguments.map_err(unsupported)?;
    let callee = module.function(&function.name);
    let callee = callee.ok_or_else(|| unsupported(format!("`{}`", function.name)))?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match callee.call(&arguments) {
        Ok(value) => to_semantics(&value, &mut named).map_err(unsupported),
        Err(stop) => Err(stop_to_semantics(stop)),
    }
}

enum Refusal {
    /// The machine or the target has nothing for something: known, and told.
    Unsupported,
    /// The file cannot be made or loaded, and nobody said why it should not.
    Broken(String),
}

/// The compiler of this system, and a cache that ends with the run. The oracle compares whole programs with the interpreter, so that
/// kernels are not.
fn toolchain() -> Option<&'static Toolchain> {
    static FOUND: OnceLock<Option<Toolchain>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let compiler = Compiler::of_system().ok()?.with_flag("-O1");
        Some(Toolchain { compiler, cache: Cache::temporary().ok()?, check: KernelCheck::Off })
    });
    found.as_ref()
}

fn load(
    case: &Case,
    lowered: &Module,
    (device, numerics): (Device, Numerics),
) -> Result<machine::Module, Refusal> {
    let externals = BTreeMap::new();
    let around = Around { externals: &externals, source: &case.source, signatures: &case.checked };
    let mut module = match (device, toolchain()) {
        (Device::Cpu, Some(toolchain)) => {
            let target = Target::of(device, numerics).by(toolchain.clone());
            compiled(&Lowered::from(lowered.clone()), &around, &target)?
        }
        _ => interpreted(lowered, &around)?,
    };
    register(&mut module, &Limits::default(), &Printed::default()).map_err(Refusal::Broken)?;
    Ok(module)
}

fn compiled(
    lowered: &Lowered,
    around: &Around<'_>,
    target: &Target,
) -> Result<machine::Module, Refusal> {
    let linked = backend(target.device).open();
    let linked = linked.and_then(|device| device.link(lowered, around, target));
    let linked = linked.map_err(|error| match error {
        CompileError::Build(BuildError::Compiler(error)) => Refusal::Broken(error.to_string()),
        CompileError::Build(_) => Refusal::Unsupported,
        error => Refusal::Broken(error.to_string()),
    })?;
    let module = linked.load(machine::Limits::default());
    module.map_err(|error| Refusal::Broken(error.to_string()))
}

/// What a module file says, with kernels in the interpreter.
fn interpreted(lowered: &Module, around: &Around<'_>) -> Result<machine::Module, Refusal> {
    let image = lower_program(lowered, around).map_err(|_| Refusal::Unsupported)?;
    let read = Image::from_bytes(&image.to_bytes());
    let read = read.map_err(|error| Refusal::Broken(error.to_string()))?;
    if read != image {
        return Err(Refusal::Broken("the file does not read back".to_owned()));
    }
    let kernels = ReferenceKernels::new(kernels(lowered), Limits::default());
    let kernels = Box::new(kernels.map_err(Refusal::Broken)?);
    machine::Module::new(read, kernels).map_err(|error| Refusal::Broken(error.to_string()))
}
