//! All obligations of a compilation, from the texts of its stages.

use crate::answers::Source;
use crate::applications;
use crate::heaps::raised;
use crate::kernels;
use crate::memory;
use crate::obligation::{Kind, Obligation, Outcome};
use crate::ranks::{self, RANKS};
use crate::used_rules::{self, UsedRule};
use relax_semantics::ops::{HeapBuiltin, heap_builtin, lookup};
use relax_syntax::Name;
use relax_syntax::ir::{Binding, Callee, Definition, Expr, Function, Module, TensorProgram};
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The module at one time: as it was given, or as a pass left it.
#[derive(Clone, Debug)]
pub struct Stage {
    /// `input`, or the pass that made it.
    pub name: String,
    /// The module as text.
    pub text: String,
    /// The rewrite rules that the pass used.
    pub rules: Vec<UsedRule>,
    pub(crate) module: Module,
}

impl Stage {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let source = span::Source::new(name, text);
        let (file, mut diagnostics) = parse_file(&source);
        let (module, resolved) = resolve_file(&file);
        diagnostics.extend(resolved);
        match diagnostics.first() {
            Some(first) => Err(format!("the text of stage `{name}` is wrong: {}", first.message)),
            None => {
                let (name, text) = (name.to_owned(), text.to_owned());
                Ok(Self { name, text, rules: Vec::new(), module })
            }
        }
    }

    /// The hash of its text.
    #[must_use]
    pub fn hash(&self) -> String {
        hash(&self.text)
    }
}

/// SHA-256, hexadecimal.
#[must_use]
pub fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What must be shown: of each pass that changed the module and of the rules that it used, of tensor programs of the last stage, and of memory of the last
/// one whose shapes are dims. Where shapes are cells of a heap from then on, passes after it are to keep what they mean.
pub fn obligations(stages: &[Stage], source: &mut dyn Source) -> Vec<Obligation> {
    let mut found = Vec::new();
    for pair in stages.windows(2) {
        found.extend(used_rules::obligations(&pair[1], source));
        found.extend(applications::obligations(&pair[0], &pair[1], source));
    }
    if let Some(last) = stages.last() {
        let kernels = kernels::obligations(&last.module, source);
        let placed = stages.iter().rev().find(|stage| has_dims(&stage.module)).unwrap_or(last);
        if programs(&placed.module).eq(programs(&last.module)) {
            found.extend(memory::obligations(&placed.module, &kernels.initialized, source));
        } else {
            let earlier = kernels::obligations(&placed.module, source);
            found.extend(memory::obligations(&placed.module, &earlier.initialized, source));
        }
        found.extend(kernels.obligations);
    }
    found
}

/// The route of a certificate that two programs are equal: of two stages. The second one is to mean the same, and where the bodies of a
/// function differ, both are to place tensors in memory that is large enough and that nobody else uses.
pub const EQUIVALENCE: &str = "equivalence";

fn equivalence(one: &Stage, other: &Stage, source: &mut dyn Source) -> Vec<Obligation> {
    let mut found = applications::obligations(one, other, source);
    for (stage, against) in [(one, other), (other, one)] {
        let body = |module: &Module, name: &Name| {
            module.function(name).and_then(|function| function.lambda.body.clone())
        };
        let differs = |name: &Name| body(&stage.module, name) != body(&against.module, name);
        let mut functions = stage.module.functions();
        if functions.any(|own| places(own) && differs(&own.name)) {
            // Sizes that a heap tells are dims again.
            let placed = raised(&stage.module);
            let kernels = kernels::obligations(&placed, source);
            let memory = memory::obligations(&placed, &kernels.initialized, source);
            // Storages that are not released change no value, and what reads an element that is not initialized is compared itself.
            let beside =
                [memory::Question::Freed, memory::Question::Written].map(memory::Question::text);
            let counts = |found: &Obligation| {
                differs(&found.function) && !beside.contains(&found.what.as_str())
            };
            found.extend(memory.into_iter().filter(counts));
        }
    }
    found
}

/// Whether a function places tensors in storages.
fn places(function: &Function) -> bool {
    let allocates = |binding: &Binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(name), .. } => name.starts_with("memory.alloc"),
        Expr::If { .. } => true,
        _ => false,
    };
    function.lambda.body.as_ref().is_some_and(|body| body.bindings().any(allocates))
}

/// What must be shown for a certificate of this route.
pub fn obligations_of(route: &str, stages: &[Stage], source: &mut dyn Source) -> Vec<Obligation> {
    match (route, stages) {
        (EQUIVALENCE, [one, other]) => equivalence(one, other, source),
        (RANKS, [before @ .., global, local]) => {
            let mut found = ranks::obligations(global, local, source);
            let earlier = [before, std::slice::from_ref(global)].concat();
            let sharded = |each: &Obligation| local.module.function(&each.function).is_some();
            for pair in earlier.windows(2) {
                let all = applications::obligations(&pair[0], &pair[1], source);
                found.extend(all.into_iter().filter(sharded));
            }
            found
        }
        _ => obligations(stages, source),
    }
}

/// Whether shapes are dims of the text, and not cells of a heap.
fn has_dims(module: &Module) -> bool {
    let is_heap = |binding: &Binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(name), .. } => {
            lookup(name).and_then(heap_builtin) == Some(HeapBuiltin::Alloc)
        }
        _ => false,
    };
    let mut bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    !bodies.any(|body| body.bindings().any(is_heap))
}

fn programs(module: &Module) -> impl Iterator<Item = &TensorProgram> {
    module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program),
        Definition::Graph(_) => None,
    })
}

/// How many obligations of each kind ended how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    counts: BTreeMap<(Kind, &'static str), usize>,
}

impl Counts {
    /// Of these.
    #[must_use]
    pub fn of(obligations: &[Obligation]) -> Self {
        let mut counts = BTreeMap::new();
        for obligation in obligations {
            *counts.entry((obligation.kind, obligation.outcome.word())).or_default() += 1;
        }
        Self { counts }
    }

    /// The kinds that are told: rules and ranks where there are some.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        let is_rare = |kind: Kind| matches!(kind, Kind::Rule | Kind::Rank);
        Kind::ALL.into_iter().filter(move |kind| !is_rare(*kind) || self.all(*kind) > 0)
    }

    /// Those of a kind that ended so.
    #[must_use]
    pub fn count(&self, kind: Kind, word: &str) -> usize {
        let same = self.counts.iter().filter(|((of, ended), _)| *of == kind && *ended == word);
        same.map(|(_, count)| count).sum()
    }

    /// All of a kind.
    #[must_use]
    pub fn all(&self, kind: Kind) -> usize {
        self.counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count).sum()
    }

    /// Adds those of another compilation.
    pub fn add(&mut self, other: &Counts) {
        for (key, count) in &other.counts {
            *self.counts.entry(*key).or_default() += count;
        }
    }
}

impl Outcome {
    /// The ways in which an obligation ends.
    pub const WORDS: [&'static str; 4] = ["proved (rules)", "proved (z3)", "unproved", "refuted"];

    /// As certificates write it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Proved => Self::WORDS[0],
            Outcome::Trusted => Self::WORDS[1],
            Outcome::Unproved(_) => Self::WORDS[2],
            Outcome::Refuted(_) => Self::WORDS[3],
        }
    }
}

/// The function that an obligation is about and what it says, as one line.
#[must_use]
pub fn told(obligation: &Obligation) -> (Name, String) {
    (obligation.function.clone(), obligation.to_string())
}
