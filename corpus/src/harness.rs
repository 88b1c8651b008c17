//! Test harness: checks every expectation of a corpus file on every route.
//!
//! Routes: the interpreter on the program as it stands, on what comes back when it is printed and
//! parsed, and on what [`Rewrites`] make of it. An expectation holds when it holds on all of them.

use crate::directive::{Call, Directive, Expectations, Kind, Marker, read};
use crate::structure::count;
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{Program, RunOptions, parameters, print_and_parse, run};
use relax_program::spec::{Context, Typing, literal};
use relax_program::well_formed_part::well_formed_part;
use relax_semantics::stop::Stop;
use relax_semantics::tir;
use relax_semantics::value::Value;
use relax_syntax::ir::Module;
use relax_syntax::parse::{parse_expression, read_source};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// What is done about a value that is not as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is a failure.
    Hold,
    /// The expectation is rewritten (`==` only).
    Bless,
}

/// Something that is not as the file expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its line, from 1.
    pub line: usize,
    /// Expected and found.
    pub message: String,
}

/// What became of one file.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What is not as expected.
    pub failures: Vec<Failure>,
    /// Expectations that were checked on each route.
    pub held: usize,
    /// What could not be tried, and why.
    pub skipped: Vec<String>,
    /// The text with its expectations rewritten, where blessing changed it.
    pub rewritten: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// A way from the text to a value.
struct Route {
    name: &'static str,
    module: Module,
}

/// What crates of higher floors can do to a program before it runs.
pub struct Rewrites<'a> {
    /// The transformations that every expectation must survive, by name.
    pub routes: &'a [&'static str],
    /// Applies passes, or those up to a phase, to a well-formed module.
    pub apply: &'a dyn Fn(&Module, &str) -> Result<Module, String>,
}

/// Holds a file against its own expectations.
#[must_use]
pub fn run_file(name: &str, bytes: &[u8], mode: Mode) -> Outcome {
    run_file_with(name, bytes, mode, None)
}

/// As [`run_file`], on the routes of `rewrites` too. Of a program with errors they get the part that
/// has none.
#[must_use]
pub fn run_file_with(name: &str, bytes: &[u8], mode: Mode, rewrites: Option<&Rewrites>) -> Outcome {
    let mut outcome = Outcome::default();
    let source = match read_source(name, bytes) {
        Ok(source) => source,
        Err(unreadable) => unreadable.source,
    };
    let text = source.text.clone();
    let expectations = read(&text);
    let failures = expectations.malformed.iter();
    outcome.failures.extend(
        failures
            .map(|bad| Failure { line: bad.line, message: format!("directive: {}", bad.message) }),
    );
    let program = Program::load(source);
    hold_diagnostics(&program, &expectations, &mut outcome);
    let rewritten = rewrites.map(|rewrites| Rewritten::of(&program, rewrites, &mut outcome));
    let routes = routes(program, &mut outcome);
    let mut edits = Vec::new();
    let weights = expectations.directives.iter().any(|d| matches!(d.kind, Kind::Params));
    // Shards of a tensor program meet at elements until collectives stand between them.
    let has_races = text.contains(" in shard(")
        || expectations.directives.iter().any(|d| matches!(d.kind, Kind::Race(_)));
    for directive in &expectations.directives {
        let held =
            Held { text: &text, routes: &routes, rewritten: &rewritten, mode, weights, has_races };
        held.directive(directive, &mut outcome, &mut edits);
    }
    outcome.rewritten = rewrite(&text, edits);
    outcome
}

/// The diagnostics are exactly those that markers announce.
fn hold_diagnostics(program: &Program, expectations: &Expectations, outcome: &mut Outcome) {
    let mut found = BTreeSet::new();
    for diagnostic in &program.diagnostics {
        let (line, column) = program.source.line_column(diagnostic.primary.span.start);
        let marker =
            Marker { line, severity: diagnostic.severity, code: diagnostic.code.to_owned() };
        if !expectations.markers.contains(&marker) {
            let message = format!(
                "unexpected [{}] at column {column}: {}",
                diagnostic.code, diagnostic.message
            );
            outcome.failures.push(Failure { line, message });
        }
        found.insert(marker);
    }
    for missing in expectations.markers.difference(&found) {
        let message = format!("expected a diagnostic {}, found none", missing.code);
        outcome.failures.push(Failure { line: missing.line, message });
    }
    outcome.held += expectations.markers.len();
}

fn routes(program: Program, outcome: &mut Outcome) -> Vec<Route> {
    let mut routes = Vec::new();
    match print_and_parse(&program.module) {
        Ok(mut printed) => {
            // What was wrong in the file is left out of its module, or wrong here too.
            if !program.has_errors() && printed.has_errors() {
                let first = printed.diagnostics.swap_remove(0);
                let message = format!("route print-parse: {}: {}", first.code, first.message);
                outcome.failures.push(Failure { line: 1, message });
            }
            routes.push(Route { name: "print-parse", module: printed.module });
        }
        // What could be read of a wrong file need not be in normal form.
        Err(_) if program.has_errors() => {}
        Err(message) => {
            let message = format!("route print-parse: {message}");
            outcome.failures.push(Failure { line: 1, message });
        }
    }
    routes.insert(0, Route { name: "interpreter", module: program.module });
    routes
}

/// What higher floors make of a program.
struct Rewritten<'a> {
    rewrites: &'a Rewrites<'a>,
    /// What of the program is well-formed.
    part: Module,
    routes: Vec<Route>,
}

impl<'a> Rewritten<'a> {
    fn of(program: &Program, rewrites: &'a Rewrites<'a>, outcome: &mut Outcome) -> Self {
        let part = well_formed_part(program);
        let mut routes = Vec::new();
        for &name in rewrites.routes {
            match (rewrites.apply)(&part, name) {
                Ok(module) => routes.push(Route { name, module }),
                Err(why) => {
                    let message = format!("route {name}: {why}");
                    outcome.failures.push(Failure { line: 1, message });
                }
            }
        }
        Self { rewrites, part, routes }
    }
}

/// Context of a check: the routes whose results a directive is compared with.
/// The pass that decides which loops run on threads.
const PARALLELIZES: &str = "parallelize_loops";

struct Held<'a> {
    text: &'a str,
    routes: &'a [Route],
    rewritten: &'a Option<Rewritten<'a>>,
    mode: Mode,
    /// The functions need external weights, which are not here.
    weights: bool,
    /// Some directive expects a race.
    has_races: bool,
}

/// A piece of the text to replace.
type Edit = (Range<usize>, String);

impl Held<'_> {
    fn directive(&self, directive: &Directive, outcome: &mut Outcome, edits: &mut Vec<Edit>) {
        let line = directive.line;
        match &directive.kind {
            Kind::Check => outcome.held += 1,
            Kind::Params => {}
            Kind::Structure { passes, counts } => match self.rewritten {
                Some(rewritten) => {
                    outcome.held += 1;
                    if let Err(message) = structure(rewritten, passes, counts) {
                        outcome.failures.push(Failure { line, message });
                    }
                }
                None => {
                    outcome.skipped.push(format!("line {line}: no pass is run here: structure"));
                }
            },
            _ if self.weights => {
                outcome.skipped.push(format!("line {line}: external weights are not here"));
            }
            _ => {
                outcome.held += 1;
                for route in self.routes {
                    if let Err(message) = self.on_route(route, directive, edits) {
                        let message = format!("route {}: {message}", route.name);
                        outcome.failures.push(Failure { line, message });
                    }
                }
                for route in self.rewritten.iter().flat_map(|rewritten| &rewritten.routes) {
                    self.on_rewritten(route, directive, outcome, edits);
                }
            }
        }
    }

    /// A function that is wrong is not there to be called.
    fn on_rewritten(
        &self,
        route: &Route,
        directive: &Directive,
        outcome: &mut Outcome,
        edits: &mut Vec<Edit>,
    ) {
        let line = directive.line;
        let (Kind::Run { call, .. } | Kind::Trap { call, .. } | Kind::Race(call)) = &directive.kind
        else {
            return;
        };
        let part = self.rewritten.as_ref().map(|rewritten| &rewritten.part);
        if part.is_some_and(|part| part.function(&call.function).is_none()) {
            let message = format!("line {line}: `{}` is not well-formed", call.function);
            outcome.skipped.push(message);
        } else if let Err(message) = self.on_route(route, directive, edits) {
            let message = format!("route {}: {message}", route.name);
            outcome.failures.push(Failure { line, message });
        }
    }

    fn on_route(
        &self,
        route: &Route,
        directive: &Directive,
        edits: &mut Vec<Edit>,
    ) -> Result<(), String> {
        match &directive.kind {
            Kind::Run { call, relation, want } => {
                let got = self
                    .perform(route, call, self.loops(route))?
                    .map_err(|stop| format!("{} stops: {stop}", call.text))?;
                let held = self.value(*relation, want, &got);
                if held.is_err() && *relation == Relation::Equal && self.mode == Mode::Bless {
                    return self.bless(want, &got, edits);
                }
                held.map_err(|why| self.explain(&why, call, want, &got))
            }
            Kind::Trap { id, call } => {
                expect_trap(id, call, self.perform(route, call, tir::Mode::Sequential)?)
            }
            // Loops that race are `serial` after it.
            Kind::Race(_) if route.name.contains(PARALLELIZES) => Ok(()),
            Kind::Race(call) => {
                expect_trap("tir/race", call, self.perform(route, call, tir::Mode::LockStep)?)
            }
            Kind::Check | Kind::Structure { .. } | Kind::Params => Ok(()),
        }
    }

    /// Where a pass decides which loops run on threads, that no iterations of these race is part of what is held. Programs with
    /// races of their own have other kinds of loops, which keep them.
    fn loops(&self, route: &Route) -> tir::Mode {
        match route.name.contains(PARALLELIZES) && !self.has_races {
            true => tir::Mode::LockStep,
            false => tir::Mode::Sequential,
        }
    }

    /// Reads the SPECs, as the signature in the text says, and calls; an error is one of the directive
    /// itself.
    fn perform(
        &self,
        route: &Route,
        call: &Call,
        loops: tir::Mode,
    ) -> Result<Result<Value, Stop>, String> {
        let parameters = parameters(&self.routes[0].module, &call.function)
            .ok_or_else(|| format!("no graph function `{}` in this file", call.function))?;
        let context = Context::default();
        let mut arguments = Vec::new();
        for (index, spec) in call.arguments.iter().enumerate() {
            let parameter = parameters.get(index);
            let name = parameter.map_or("extra", |(name, _)| name.as_str());
            let target = parameter.map(|(_, annotation)| annotation);
            let value = context.value(name, spec, target);
            arguments.push(value.map_err(|why| format!("argument {}: {why}", index + 1))?);
        }
        let options = RunOptions { loops, ..RunOptions::default() };
        Ok(run(&route.module, &call.function, arguments, &options).result)
    }

    fn value(&self, relation: Relation, want: &Range<usize>, got: &Value) -> Result<(), String> {
        let expr = parse_expression(&self.text[want.clone()], 0).map_err(|d| d.message)?;
        let target = got.annotation();
        let want = Context::default()
            .value("expected", &expr, Some(&target))
            .map_err(|why| format!("the expected value: {why}"))?;
        compare(relation, &want, got)
    }

    fn bless(&self, want: &Range<usize>, got: &Value, edits: &mut Vec<Edit>) -> Result<(), String> {
        let typing =
            if self.text[want.clone()].contains('"') { Typing::Written } else { Typing::Left };
        let text = literal(got, typing)
            .ok_or_else(|| "the result has no text to write as an expectation".to_owned())?;
        edits.push((want.clone(), text));
        Ok(())
    }

    fn explain(&self, why: &str, call: &Call, want: &Range<usize>, got: &Value) -> String {
        let shown = literal(got, Typing::Left).unwrap_or_else(|| got.kind().to_owned());
        let (want, shown) = (shortened(&self.text[want.clone()]), shortened(&shown));
        format!("{}\n    {why}\n    expected {want}\n    found    {shown}", shortened(&call.text))
    }
}

fn structure(
    rewritten: &Rewritten,
    passes: &str,
    counts: &[(String, usize)],
) -> Result<(), String> {
    let module = (rewritten.rewrites.apply)(&rewritten.part, passes)?;
    let wrong = counts.iter().filter_map(|(what, want)| match count(&module, what) {
        Ok(found) if found == *want => None,
        Ok(found) => Some(format!("after {passes}: expected {what} = {want}, found {found}")),
        Err(why) => Some(why),
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{}", wrong.join("\n"), relax_program::frontend::print(&module)))
}

fn expect_trap(id: &str, call: &Call, result: Result<Value, Stop>) -> Result<(), String> {
    let call = shortened(&call.text);
    match result {
        Err(Stop::Trap(trap)) if trap.id == id => Ok(()),
        Err(Stop::Trap(trap)) => {
            Err(format!("{call}: expected the trap {id}, found {}: {}", trap.id, trap.message))
        }
        Err(stop) => Err(format!("{call}: expected the trap {id}, found: {stop}")),
        Ok(value) => {
            let found = literal(&value, Typing::Written).unwrap_or_else(|| value.kind().to_owned());
            Err(format!("{call}: expected the trap {id}, found {}", shortened(&found)))
        }
    }
}

fn shortened(text: &str) -> String {
    const LIMIT: usize = 300;
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    format!("{} …", text.chars().take(LIMIT).collect::<String>())
}

/// The text with pieces replaced; an expectation that failed on two routes is replaced once.
fn rewrite(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|(range, _)| range.start);
    edits.dedup_by_key(|(range, _)| range.start);
    let mut result = text.to_owned();
    for (range, replacement) in edits.iter().rev() {
        result.replace_range(range.clone(), replacement);
    }
    (!edits.is_empty()).then_some(result)
}

#[cfg(test)]
mod tests;
