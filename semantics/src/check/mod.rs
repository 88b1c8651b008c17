//! Deduction and well-formedness: what can be known of a module without running it.
//!
//! Deduction goes forward, a function after those it calls. What an operator's rule cannot know it
//! coarsens. Every obligation is proved, refused, or left to the interpreter, which checks again:
//! none is dropped.

mod advice;
mod blame;
mod call;
mod cast;
pub mod codes;
mod effects;
mod fit;
mod function;
mod known;
mod mesh;
mod order;
pub mod partial;
mod phase;
mod purity;
mod shards;
pub(crate) mod signature;
mod unknown;

pub use cast::Cast;
pub use mesh::extents as mesh_extents;
pub use phase::Phase;
pub use purity::forbidden_in_dataflow;
pub use unknown::meant;

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::facts::{Claim, Facts};
use relax_syntax::ir::{Definition, Expr, Function, Module, TensorProgram, VarId};
use relax_syntax::span::Span;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The module with what was deduced of every variable written down.
    pub module: Module,
    /// Errors and warnings, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
    /// What is left to run time.
    pub obligations: Vec<Left>,
    /// The same by the function it stands in.
    left: BTreeMap<Name, LeftIn>,
    /// What is deduced of each function's result, over the variables of its signature.
    pub results: BTreeMap<Name, Annotation>,
    /// What is deduced of every variable of each function, by its id.
    pub annotations: BTreeMap<Name, Vec<Annotation>>,
    /// What is known of each `match_cast`, in the order of the check.
    pub casts: Vec<Cast>,
    /// The functions whose calls have an effect.
    pub impure: BTreeSet<Name>,
}

/// Where a function has checks that are left to run time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftIn {
    /// Bindings.
    pub vars: BTreeSet<VarId>,
    /// Whether its result is checked.
    pub result: bool,
}

/// A check that is left to run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The function it stands in.
    pub function: Name,
    /// The binding; `None` for the result of the function.
    pub var: Option<VarId>,
    /// The place.
    pub span: Span,
    /// What must hold: `matmul/C2: n == m`.
    pub text: String,
    /// The same of dims, for a constraint of an operator.
    pub claim: Option<Claim>,
}

impl Checked {
    /// Where a function has checks that are left to run time.
    #[must_use]
    pub fn left_in(&self, function: &Name) -> &LeftIn {
        static NONE: LeftIn = LeftIn { vars: BTreeSet::new(), result: false };
        self.left.get(function).unwrap_or(&NONE)
    }

    /// Adds what is wrong with the module for a phase that demands more. What is deduced is the same in every phase.
    pub fn demand(&mut self, phase: Phase) {
        self.diagnostics.extend(phase::check(&self.module, phase));
        self.diagnostics.sort_by(in_order);
    }

    /// Writes into the module what was deduced; from P2.3 on it has no use of annotations.
    fn write_annotations(&mut self, phase: Phase) {
        if phase < Phase::P23 {
            annotate(&mut self.module, &self.annotations);
        }
    }

    /// True when nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error)
    }
}

/// Checks a module for a phase.
pub fn check(module: &Module, facts: &mut dyn Facts, phase: Phase) -> Checked {
    let mut checked = check_but(&BTreeMap::new(), module.clone(), facts, phase);
    checked.write_annotations(phase);
    checked
}

/// As [`check`], for a module that was made of another one and declares the same meshes: a tensor program that was found
/// well-formed there is so here, as nothing else around it matters to it. A module with errors stays as it is.
pub fn check_after(
    before: &Checked,
    module: Module,
    facts: &mut dyn Facts,
    phase: Phase,
) -> Checked {
    let programs = before.module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some((&program.name, program)),
        Definition::Graph(_) => None,
    });
    let fine = if before.is_ok() { programs.collect() } else { BTreeMap::new() };
    let mut checked = check_but(&fine, module, facts, phase);
    if checked.is_ok() {
        checked.write_annotations(phase);
    }
    checked
}

/// What is found of a module, in which no annotations are written yet.
fn check_but(
    fine: &BTreeMap<&Name, &TensorProgram>,
    module: Module,
    facts: &mut dyn Facts,
    phase: Phase,
) -> Checked {
    let mut diagnostics = phase::check(&module, phase);
    diagnostics.extend(mesh::check(&module));
    let mut results: BTreeMap<Name, Annotation> = BTreeMap::new();
    for function in module.functions() {
        if let Some(result) = &function.lambda.result {
            results.insert(function.name.clone(), function::of_signature(function, result));
        }
    }
    let (order, recursive) = order::callees_first(&module);
    for function in recursive {
        let message =
            format!("the result of `{}` is not declared, and it calls itself", function.name);
        diagnostics.push(
            Diagnostic::error(codes::RECURSION, function.span, message)
                .with_help("declare the result with `->`"),
        );
        results.insert(function.name.clone(), Annotation::Object);
    }
    let mut annotations: BTreeMap<Name, Vec<Annotation>> = BTreeMap::new();
    let (mut obligations, mut casts) = (Vec::new(), Vec::new());
    let effects = effects::Effects::of(&module);
    for function in order {
        facts.push();
        let outcome = function::check(&module, function, &results, &effects, facts);
        facts.pop();
        diagnostics.extend(outcome.diagnostics);
        obligations.extend(outcome.obligations);
        casts.extend(outcome.casts);
        results.entry(function.name.clone()).or_insert(outcome.result);
        annotations.insert(function.name.clone(), outcome.annotations);
    }
    for definition in &module.definitions {
        if let Definition::Tensor(program) = definition
            && fine.get(&program.name) != Some(&program)
        {
            diagnostics.extend(crate::tir::check(program));
            diagnostics.extend(mesh::check_program(&module, program));
        }
    }
    diagnostics.extend(shards::check(&module, &annotations, facts));
    diagnostics.extend(partial::check(&module, &annotations));
    diagnostics.sort_by(in_order);
    let impure = effects.into_impure();
    let left = by_function(&obligations);
    Checked { module, diagnostics, obligations, left, results, annotations, casts, impure }
}

fn in_order(a: &Diagnostic, b: &Diagnostic) -> Ordering {
    (a.primary.span, a.code).cmp(&(b.primary.span, b.code))
}

fn by_function(obligations: &[Left]) -> BTreeMap<Name, LeftIn> {
    let mut left: BTreeMap<Name, LeftIn> = BTreeMap::new();
    for obligation in obligations {
        let of_function = left.entry(obligation.function.clone()).or_default();
        match obligation.var {
            Some(var) => drop(of_function.vars.insert(var)),
            None => of_function.result = true,
        }
    }
    left
}

/// Writes deduced annotations at every binding whose text can hold one.
fn annotate(module: &mut Module, annotations: &BTreeMap<Name, Vec<Annotation>>) {
    for definition in &mut module.definitions {
        let Definition::Graph(function) = definition else { continue };
        // Of two functions with one name, which is an error, only one is known here.
        let deduced = annotations.get(&function.name);
        let Some(deduced) = deduced.filter(|all| all.len() == function.vars.len()) else {
            continue;
        };
        for var in printable(function) {
            let index = var.0 as usize;
            function.vars[index].annotation = Some(deduced[index].clone());
        }
    }
}

/// Variables whose binding prints as `v: A = e`.
fn printable(function: &Function) -> Vec<VarId> {
    fn visit(body: &relax_syntax::ir::Body, function: &Function, vars: &mut Vec<VarId>) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    visit(then, function, vars);
                    visit(otherwise, function, vars);
                }
                Expr::Closure(lambda) => {
                    if let Some(body) = &lambda.body {
                        visit(body, function, vars);
                    }
                }
                _ if function.var(binding.var).name == "_" => {}
                _ => vars.push(binding.var),
            }
        }
    }
    let mut vars = Vec::new();
    if let Some(body) = &function.lambda.body {
        visit(body, function, &mut vars);
    }
    vars
}
