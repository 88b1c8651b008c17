//! Passes, gradients, rules and versions: texts out of programs.

use crate::compiling::{Origin, failed, given, rules_text};
use crate::errors::{Class, Failure};
use pyo3::prelude::*;
use relax_driver::memory_report::MemoryReport;
use relax_driver::{Target, pipeline};
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::passes::bind_params::entry;
use relax_rewrite::passes::gradient;
use relax_rewrite::pipeline::{Route, Unwatched, leads_back, run};
use relax_rewrite::saturation::own_rules::{self, Proofs, RuleError, Unproved};
use relax_rewrite::saturation::{
    Extraction, Options, Polynomial, RuleKind, Version, Witness, prepared, saturate_module, tidied,
    version_module,
};
use relax_runtime::program::Numerics;
use relax_semantics::check::{Checked, Phase};
use relax_symbolic::Prover;
use relax_syntax::{Name, ir};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Steps of the solver for a question on guards, of which there are few.
const SOLVER_LIMIT: u32 = 2_000_000;

/// How a program is brought to a phase.
#[derive(FromPyObject)]
pub(crate) struct Way {
    /// The names of passes; none for the way to `phase`.
    #[pyo3(item)]
    passes: Option<String>,
    #[pyo3(item)]
    phase: String,
    #[pyo3(item)]
    device: String,
    #[pyo3(item)]
    exact: bool,
}

impl Way {
    fn routes(&self, program: &Program) -> Result<Vec<Route>, Failure> {
        if let Some(names) = &self.passes {
            return Ok(vec![PIPELINE.named(names).map_err(Failure::argument)?]);
        }
        let phase = known("phase", &self.phase, &PHASES, Phase::name)?;
        if let Some(back) = leads_back(&program.module, phase) {
            return Err(Failure::program(&program.source, &[back]));
        }
        let from = Phase::of_module(&program.module).unwrap_or(Phase::P0);
        Ok(pipeline(&self.target()?).to(phase, from))
    }

    fn target(&self) -> Result<Target, Failure> {
        let sums = if self.exact { Numerics::Exact } else { Numerics::Reassociated };
        Ok(Target::of(self.device()?, sums))
    }

    fn device(&self) -> Result<Device, Failure> {
        known("backend", &self.device, &Device::ALL, Device::name)
    }
}

/// Those that passes lead to.
const PHASES: [Phase; 5] = [Phase::P0, Phase::P1, Phase::P21, Phase::P22, Phase::P23];

/// What has a name.
fn known<T: Copy>(
    kind: &str,
    name: &str,
    all: &[T],
    of: impl Fn(T) -> &'static str,
) -> Result<T, Failure> {
    all.iter().copied().find(|&one| of(one) == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&one| of(one)).collect();
        Failure::argument(format!("there is no {kind} `{name}`; there are {}", names.join(", ")))
    })
}

/// The text of a program after passes.
#[pyfunction]
pub(crate) fn opt(py: Python<'_>, origin: Origin, way: Way) -> PyResult<String> {
    let made = py.detach(|| passed(&origin, &way).map(|module| print(&module)));
    made.map_err(|failure| failure.raised(py))
}

/// What a program with explicit memory takes: as text, as JSON and as a picture (SVG).
#[pyfunction]
pub(crate) fn memory_report(
    py: Python<'_>,
    origin: Origin,
    way: Way,
    dims: BTreeMap<String, i64>,
) -> PyResult<(String, String, String)> {
    py.detach(|| reported(&origin, &way, &dims)).map_err(|failure| failure.raised(py))
}

fn reported(
    origin: &Origin,
    way: &Way,
    dims: &BTreeMap<String, i64>,
) -> Result<(String, String, String), Failure> {
    if let Some((name, value)) = dims.iter().find(|(_, value)| **value < 0) {
        return Err(Failure::argument(format!("dims: `{name}` is at least 0, found {value}")));
    }
    let module = passed(origin, way)?;
    let dims = dims.iter().map(|(name, value)| (Name::new(name), *value)).collect();
    let report = MemoryReport::of(&module, dims).map_err(|name| {
        Failure::argument(format!("dims: no function that takes memory has the dim `{name}`"))
    })?;
    Ok((report.text(), report.json().to_string(), report.picture()))
}

fn passed(origin: &Origin, way: &Way) -> Result<ir::Module, Failure> {
    let (program, params) = given(origin)?;
    let settings = Settings {
        device: way.device()?,
        numerics: if way.exact { Numerics::Exact } else { Numerics::Reassociated },
        params: Arc::new(params),
        ..Settings::default()
    };
    let mut module = program.module.clone();
    for route in way.routes(&program)? {
        module = run(&module, &route, &settings, &mut Prover::new(), &mut Unwatched)
            .map_err(|error| failed(&program, error))?;
    }
    Ok(module)
}

/// The text of a program with the adjoint of a function by parameters: by all of them that are floats without names.
#[pyfunction]
pub(crate) fn grad(
    py: Python<'_>,
    origin: Origin,
    function: Option<String>,
    wrt: Vec<String>,
) -> PyResult<String> {
    let made = py.detach(|| differentiated(&origin, function.as_deref(), &wrt));
    made.map_err(|failure| failure.raised(py))
}

fn differentiated(
    origin: &Origin,
    function: Option<&str>,
    wrt: &[String],
) -> Result<String, Failure> {
    let (program, _) = given(origin)?;
    if let Some(back) = leads_back(&program.module, Phase::P0) {
        return Err(Failure::program(&program.source, &[back]));
    }
    let function = match function {
        Some(name) => Name::new(name),
        None => entry(&program.module).map(|entry| entry.name.clone()).ok_or_else(|| {
            Failure::argument(
                "the program has no `main` and not one public function: name one as `function`",
            )
        })?,
    };
    let options = gradient::Options {
        function: Some(function),
        wrt: wrt.iter().map(Name::new).collect(),
        ..gradient::Options::default()
    };
    let made = relax_train::differentiated(&program.module, options);
    made.map(|module| print(&module)).map_err(|error| failed(&program, error))
}

/// Which rules a program is rewritten by.
#[derive(FromPyObject)]
pub(crate) struct Rules {
    /// Families and files; none for all families.
    #[pyo3(item)]
    items: Option<Vec<String>>,
    /// Whether rules of files are used that have neither a proof nor a counterexample.
    #[pyo3(item)]
    unproved: bool,
    #[pyo3(item)]
    approximate: bool,
    #[pyo3(item)]
    limits: Vec<String>,
}

impl Rules {
    /// Whether none shall be used.
    pub(crate) fn are_none(&self) -> bool {
        matches!(self.items.as_deref(), Some([only]) if only == own_rules::NONE)
    }

    /// With the names of the rules that are not proved.
    fn options(&self) -> Result<(Options, BTreeSet<Name>), Failure> {
        let unproved = match self.unproved {
            true => Unproved::Used,
            false => Unproved::Refused("`unproved=True` uses it all the same"),
        };
        let (mut options, not_proved) = match &self.items {
            Some(items) => {
                let items = items.iter().map(String::as_str);
                let proofs =
                    &mut Proofs { prover: &mut || Box::new(Prover::new()), progress: &mut |_| {} };
                own_rules::listed(items, unproved, rules_text, unusable, proofs)?
            }
            None => Default::default(),
        };
        for limit in &self.limits {
            let wrong = |why| Failure::argument(format!("limits: {limit}: {why}"));
            options.set_limit(limit).map_err(wrong)?;
        }
        Ok((options, not_proved))
    }

    fn kind(&self) -> RuleKind {
        if self.approximate { RuleKind::Approximate } else { RuleKind::Exact }
    }

    /// Those of a compilation, where exact numerics decide which kind of rules is used.
    pub(crate) fn of_pipeline(
        &self,
        module: &ir::Module,
        numerics: Numerics,
    ) -> Result<(Options, BTreeSet<Name>), Failure> {
        let (options, unproved) = self.options()?;
        let of_reals = options.own.iter().find(|rule| rule.kind == RuleKind::Approximate);
        if let (Numerics::Exact, Some(rule)) = (numerics, of_reals) {
            return Err(Failure::argument(format!(
                "rules: `{}` holds over the reals and rounds floats elsewhere, and `exact` keeps every bit: give one of them",
                rule.name
            )));
        }
        match Phase::of_module(module) {
            Ok(phase) if phase > Phase::P1 => Err(Failure::argument(format!(
                "rules: the module records phase {}, and rules rewrite modules up to P1",
                phase.name()
            ))),
            _ => Ok((options, unproved)),
        }
    }
}

fn unusable(error: RuleError) -> Failure {
    match error {
        RuleError::List(why) => Failure::argument(why),
        RuleError::File(why) => Failure::new(Class::Program, why),
    }
}

fn normalized(origin: &Origin) -> Result<(Program, Checked), Failure> {
    let (program, _) = given(origin)?;
    let checked =
        prepared(&program.module, &mut Prover::new()).map_err(|error| failed(&program, error))?;
    Ok((program, checked))
}

/// A region of a program, and the rules that led to its form: function, outputs, and for each step the rule, before and after.
type Steps = Vec<(String, Vec<String>, Vec<(String, String, String)>)>;

/// The text of a program rewritten by rules, with what led to each form, and the rules among them that are not proved.
#[pyfunction]
pub(crate) fn rewrite(
    py: Python<'_>,
    origin: Origin,
    rules: Rules,
) -> PyResult<(String, Steps, Vec<String>)> {
    py.detach(|| rewritten(&origin, &rules)).map_err(|failure| failure.raised(py))
}

fn rewritten(origin: &Origin, rules: &Rules) -> Result<(String, Steps, Vec<String>), Failure> {
    let (options, unproved) = rules.options()?;
    let (program, checked) = normalized(origin)?;
    let facts = &mut Prover::new();
    let (module, report) =
        saturate_module(&checked, facts, &options, rules.kind(), Extraction::Explained);
    let module = tidied(&module, &mut Prover::new()).map_err(|error| failed(&program, error))?;
    let mut steps = Steps::new();
    for function in &report.functions {
        for region in &function.regions {
            let leaf = |at: usize| region.leaf(at);
            let led = region.explained.iter().map(|step| {
                (step.rule.to_string(), step.before.text(&leaf), step.after.text(&leaf))
            });
            let outputs = region.outputs.iter().map(|output| output.to_string()).collect();
            steps.push((function.name.to_string(), outputs, led.collect()));
        }
    }
    let regions = report.functions.iter().flat_map(|function| &function.regions);
    let used: BTreeSet<Name> = regions.flat_map(|region| report.rules_of(region)).collect();
    let unproved = unproved.intersection(&used).map(ToString::to_string).collect();
    Ok((print(&module), steps, unproved))
}

/// Name, comparisons of the guard, dims that take it where some are known, operations, bytes, launches.
type VersionFields = (String, Vec<String>, Option<BTreeMap<String, i64>>, String, String, String);

/// The text of a program with versions behind guards, the versions of each function, and the rules that are not proved.
type Versioned = (String, BTreeMap<String, Vec<VersionFields>>, Vec<String>);

#[pyfunction]
pub(crate) fn versions(py: Python<'_>, origin: Origin, rules: Rules) -> PyResult<Versioned> {
    py.detach(|| versioned(&origin, &rules)).map_err(|failure| failure.raised(py))
}

fn versioned(origin: &Origin, rules: &Rules) -> Result<Versioned, Failure> {
    let (options, unproved) = rules.options()?;
    let (program, checked) = normalized(origin)?;
    let of_guards = &mut Prover::with_solver(SOLVER_LIMIT);
    let facts = &mut Prover::new();
    let (module, report) = version_module(&checked, facts, Some(of_guards), &options, rules.kind());
    let module = tidied(&module, &mut Prover::new()).map_err(|error| failed(&program, error))?;
    let mut all: BTreeMap<String, Vec<VersionFields>> = checked
        .module
        .functions()
        .map(|function| (function.name.to_string(), Vec::new()))
        .collect();
    for one in &report.versions {
        all.insert(one.function.to_string(), one.versions.iter().map(fields).collect());
    }
    Ok((print(&module), all, unproved.iter().map(ToString::to_string).collect()))
}

fn fields(version: &Version) -> VersionFields {
    let dims = match &version.witness {
        Witness::Unknown => None,
        Witness::Dims(dims) => {
            Some(dims.iter().map(|(name, value)| (name.to_string(), *value)).collect())
        }
    };
    let cost = &version.cost;
    let [operations, bytes] =
        [&cost.operations, &cost.bytes].map(|sum| Polynomial::of(sum).to_string());
    let name = version.name.to_string();
    (name, version.comparisons(), dims, operations, bytes, cost.launches.to_string())
}
