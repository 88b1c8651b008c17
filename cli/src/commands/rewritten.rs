//! Rules in the pipeline of a target: which are asked for, and what they did to a program.

use super::own_rules;
use crate::args::PipelineRulesArgs;
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_driver::Target;
use relax_rewrite::passes::saturate;
use relax_rewrite::saturation::{Kept, Options, Report, RuleKind, Version, Versioned};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_validation::certificate::Certificate;
use relax_validation::obligation::{Kind, Obligation, Outcome};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rules that a command line asks for, or those of builds.
#[derive(Default)]
pub(super) struct Rules {
    options: Option<Arc<Options>>,
    /// Those of them that are not proved.
    unproved: BTreeSet<Name>,
    /// Whether nobody asked for them.
    by_default: bool,
}

impl Rules {
    /// Reads and proves them. With exact numerics a rule of a file must keep every bit. Where nothing is said, all families are used
    /// within the limits of builds, as long as calls of the module are operators.
    pub(super) fn asked(
        args: &PipelineRulesArgs,
        (module, numerics): (&Module, Numerics),
        terminal: &mut Terminal,
    ) -> Result<Self, Failure> {
        let rules = match args.rules.as_deref() {
            Some(own_rules::NONE) => Self::default(),
            Some(list) => Self::listed(list, args.unproved, numerics, terminal)?,
            None => {
                let options = Target::default().rewriting(module).rules;
                Self { options, by_default: true, ..Self::default() }
            }
        };
        rules.are_for(module)?;
        Ok(rules)
    }

    fn listed(
        list: &str,
        unproved: bool,
        numerics: Numerics,
        terminal: &mut Terminal,
    ) -> Result<Self, Failure> {
        let (options, unproved) = own_rules::listed(list, unproved, terminal)?;
        let of_reals = options.own.iter().find(|rule| rule.kind == RuleKind::Approximate);
        if let (Numerics::Exact, Some(rule)) = (numerics, of_reals) {
            return Err(Failure::usage(format!(
                "--rules: `{}` holds over the reals and rounds floats elsewhere, and --exact keeps every bit: give one \
                 of them",
                rule.name
            )));
        }
        let options = Some(Arc::new(Options { explain: true, ..options }));
        Ok(Self { options, unproved, by_default: false })
    }

    /// Whether somebody asked for some.
    pub(super) fn are_given(&self) -> bool {
        self.options.is_some() && !self.by_default
    }

    /// Those that were asked for: a certificate cannot prove forms that are equal over the reals only.
    pub(super) fn given(self) -> Self {
        if self.by_default { Self::default() } else { self }
    }

    /// Refuses a program whose calls are no operators any more.
    fn are_for(&self, module: &Module) -> Result<(), Failure> {
        match Phase::of_module(module) {
            Ok(phase) if self.are_given() && phase > Phase::P1 => Err(Failure::usage(format!(
                "--rules: the module records phase {}, and rules rewrite modules up to P1",
                phase.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether they changed a program: then what was made is not kept, as nobody would say so when it is found.
    pub(super) fn changed(reports: &[Report]) -> bool {
        reports.iter().any(|report| report.rewritten > 0 || !report.versions.is_empty())
    }

    /// A target whose pipeline has them.
    pub(super) fn of(&self, target: Target) -> Target {
        Target { rules: self.options.clone(), ..target }
    }

    /// Says which regions were rewritten by which rules and which functions have versions, and warns of rules that are not proved. Where
    /// nobody asked for rules, it is said only where they did something.
    pub(super) fn tell(&self, name: &str, reports: &[Report], terminal: &mut Terminal) {
        let Some(options) = &self.options else { return };
        for report in reports {
            for kept in report.kept.iter().filter(|_| !self.by_default) {
                terminal.note(&because(kept));
            }
            own_rules::warn_of_uses(report, &self.unproved, terminal);
            if !options.own.is_empty() {
                own_rules::warn_of_limits(report, terminal);
            }
        }
        let (rewritten, regions) = counts(reports);
        if rewritten > 0 || !self.by_default {
            let used = used(reports);
            let proof = |rule| if self.unproved.contains(rule) { " (not proved)" } else { "" };
            let names = used.keys().map(|rule| format!("{rule}{}", proof(rule)));
            let names = match used.len() {
                0 => String::new(),
                _ => format!(" by {}", names.collect::<Vec<_>>().join(", ")),
            };
            terminal.note(&format!("{name}: {rewritten} of {regions} regions rewritten{names}"));
        }
        for Versioned { function, versions } in reports.iter().flat_map(|report| &report.versions) {
            let versions: Vec<String> = versions.iter().map(told).collect();
            terminal.note(&format!("{name}: versions of {function}: {}", versions.join(", ")));
        }
    }

    /// Says how much of that a certificate proves: the rules, and that the functions mean the same without believing any.
    pub(super) fn tell_certified(
        &self,
        certificate: &Certificate,
        account: &mut Value,
        terminal: &mut Terminal,
    ) {
        if !self.are_given() {
            return;
        }
        let (rules, all_rules) = proved(certificate, |each| each.kind == Kind::Rule);
        let passes =
            [&saturate::PASS, &saturate::REALS].map(|pass| format!("after `{}`", pass.name));
        let (functions, all) =
            proved(certificate, |each| each.kind == Kind::Pass && passes.contains(&each.place));
        terminal.note(&format!(
            "in the certificate {rules} of {all_rules} rules are proved; {functions} of {all} functions are proved to be the \
             same after them"
        ));
        account["certified"] = json!({
            "rules": all_rules, "rules_proved": rules, "functions": all, "functions_proved": functions,
        });
    }

    /// What [`Self::tell`] says, for tools; null where no rules were used.
    pub(super) fn object(&self, reports: &[Report]) -> Value {
        if self.options.is_none() {
            return Value::Null;
        }
        let (rewritten, regions) = counts(reports);
        let rule = |(rule, regions): (&Name, &usize)| {
            let is_proved = !self.unproved.contains(rule);
            json!({ "rule": rule.as_str(), "proved": is_proved, "regions": regions })
        };
        let rules: Vec<Value> = used(reports).iter().map(rule).collect();
        let versions = reports.iter().flat_map(|report| &report.versions).map(versions_object);
        let versions: Vec<Value> = versions.collect();
        json!({ "rewritten": rewritten, "regions": regions, "rules": rules, "versions": versions })
    }
}

/// A version with its guard.
fn told(version: &Version) -> String {
    match version.comparisons().as_slice() {
        [] => format!("{} otherwise", version.name),
        comparisons => format!("{} where {}", version.name, comparisons.join(" and ")),
    }
}

fn versions_object(versioned: &Versioned) -> Value {
    let version = |version: &Version| json!({ "name": version.name.as_str(), "guard": version.comparisons() });
    let versions: Vec<Value> = versioned.versions.iter().map(version).collect();
    json!({ "function": versioned.function.as_str(), "versions": versions })
}

/// Why a function stays as it is.
fn because(kept: &Kept) -> String {
    let Kept { name, before, after } = kept;
    let part = |what: &str, old: i128, new: i128| {
        (new > old).then(|| format!("{new} {what} instead of {old}"))
    };
    let more = [
        part("kernels", before.launches, after.launches),
        part("bytes", before.bytes, after.bytes),
        part("operations", before.operations, after.operations),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    format!("{name}: stays as it is: after fusion it would take {}", more.join(", "))
}

/// How many obligations of a kind a certificate proves, and of how many.
fn proved(certificate: &Certificate, is_meant: impl Fn(&Obligation) -> bool) -> (usize, usize) {
    let all: Vec<_> = certificate.obligations.iter().filter(|each| is_meant(each)).collect();
    let is_proved =
        |each: &&&Obligation| matches!(each.outcome, Outcome::Proved | Outcome::Trusted);
    (all.iter().filter(is_proved).count(), all.len())
}

/// Regions that were rewritten, of how many; those of versions are told with their guards.
fn counts(reports: &[Report]) -> (usize, usize) {
    let sum = |of: fn(&Report) -> usize| for_all_dims(reports).map(of).sum();
    (sum(|report| report.rewritten), sum(|report| report.regions))
}

fn for_all_dims(reports: &[Report]) -> impl Iterator<Item = &Report> {
    reports.iter().filter(|report| !report.is_of_versions)
}

/// In how many regions each rule was used. Of a region without an explanation every rule counts that was applied.
fn used(reports: &[Report]) -> BTreeMap<Name, usize> {
    let mut used = BTreeMap::new();
    for report in for_all_dims(reports) {
        for region in report.functions.iter().flat_map(|function| &function.regions) {
            for rule in report.rules_of(region) {
                *used.entry(rule).or_default() += 1;
            }
        }
    }
    used
}
