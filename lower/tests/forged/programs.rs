//! Programs with one mistake in their plan of memory or in a kernel. The interpreter tells which of them are wrong:
//! memory there is real, and a kernel that leaves a buffer stops. Of those none may be proved, neither by the
//! certificate of the right program with its hashes put right, nor by one that is made for the wrong program.

use super::random::Random;
use super::{Compiled, header};
use relax_program::frontend::print;
use relax_rewrite::pass::Exactness;
use relax_rewrite::verify::{Effort, verify as differs};
use relax_semantics::check::{Phase, check};
use relax_semantics::tir::walk::{Place, Rewrite, statements};
use relax_symbolic::Prover;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::tensor::{BinOp, TExpr};
use relax_syntax::ir::{Atom, Binding, Body, Callee, Definition, Expr, Module};
use relax_validation::check::verify;
use relax_validation::derive::{Counts, Stage, hash};
use relax_validation::obligation::{Kind, Outcome};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;

/// Mistakes in each program.
const MISTAKES: u64 = 120;
/// Traps of memory and of indices: what obligations are there to exclude.
const TRAPS: [&str; 5] = ["memory/", "tir/", "alloc_tensor/", "alloc_storage/", "undefined"];

/// What came of the mistakes.
#[derive(Default)]
pub(crate) struct Tally {
    /// Shown to be wrong by a trap, and refused.
    pub(crate) wrong: usize,
    /// Not shown to be wrong, and refused.
    cautious: usize,
    /// Not shown to be wrong, and proved.
    harmless: usize,
    /// Values differ, which obligations of passes are about.
    other: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { wrong, cautious, harmless, other } = self;
        write!(
            f,
            "{wrong} that trap are refused; of {} that do not {cautious} are refused and {harmless} are right; {other} \
             compute something else with memory in order",
            cautious + harmless
        )
    }
}

pub(crate) fn corrupt(compiled: &Compiled, tally: &mut Tally) {
    for seed in 0..MISTAKES {
        let mut module = compiled.output.clone();
        if !mistaken(&mut module, &mut Random::new(seed + 1)) || module == compiled.output {
            continue;
        }
        // A mistake that is none of the language is found before anything is certified.
        let reads_back = Stage::read("input", &print(&module)).is_ok();
        if reads_back && check(&module, &mut Prover::new(), Phase::P21).is_ok() {
            judge(compiled, &module, seed, tally);
        }
    }
}

fn judge(compiled: &Compiled, module: &Module, seed: u64, tally: &mut Tally) {
    let effort = Effort { cases: 12, seed: 1 };
    let (before, none) = (&compiled.input, BTreeMap::new());
    let difference = differs(before, module, Exactness::Exact, effort, &none).err();
    let proved = is_proved_by_the_old(compiled, module) || is_proved_anew(compiled, module);
    match difference.map(|difference| difference.to_string()) {
        Some(why) if TRAPS.iter().any(|trap| why.contains(trap)) => {
            assert!(
                !proved,
                "{}: mistake {seed} is proved, but {why}\n{}",
                compiled.name,
                print(module)
            );
            tally.wrong += 1;
        }
        Some(_) => tally.other += 1,
        None if proved => tally.harmless += 1,
        None => tally.cautious += 1,
    }
}

/// Whether the certificate of the right program is accepted with the wrong text put into it.
fn is_proved_by_the_old(compiled: &Compiled, module: &Module) -> bool {
    let (old, new) = (print(&compiled.output), print(module));
    let (old_line, new_line) = (json!(old).to_string(), json!(new).to_string());
    let text = compiled.text.replace(&old_line, &new_line).replace(&hash(&old), &hash(&new));
    assert!(text != compiled.text, "the text of the program stands in its certificate");
    verify(&text, Some(&new)).is_ok()
}

/// Whether as much of memory and kernels is proved of the wrong program as of the right one.
fn is_proved_anew(compiled: &Compiled, module: &Module) -> bool {
    let text = print(module);
    let stage = Stage::read("input", &text).expect("what is printed reads back");
    let certificate = relax_lower::certify::certified(header(), vec![stage]);
    let open =
        |counts: &Counts, kind| counts.all(kind) - counts.count(kind, Outcome::Proved.word());
    let (new, old) =
        (Counts::of(&certificate.obligations), Counts::of(&compiled.certificate.obligations));
    [Kind::Memory, Kind::Kernel].into_iter().all(|kind| {
        assert_eq!(open(&old, kind), 0, "{}: all of the right program is proved", compiled.name);
        open(&new, kind) == 0
    })
}

/// Makes one mistake; false where there is nothing to make it in.
fn mistaken(module: &mut Module, random: &mut Random) -> bool {
    let at = random.below(module.definitions.len());
    match &mut module.definitions[at] {
        Definition::Graph(function) => {
            let Some(body) = &mut function.lambda.body else { return false };
            let mut bindings: Vec<&mut Binding> = Vec::new();
            of_body(body, &mut bindings);
            memory(&mut bindings, random)
        }
        Definition::Tensor(program) => {
            let Some(body) = program.body.take() else { return false };
            let mut wrong = Wrong { skip: random.below(12), how: random.below(4), done: false };
            program.body = Some(statements(&body, &mut wrong));
            wrong.done
        }
    }
}

fn of_body<'b>(body: &'b mut Body, bindings: &mut Vec<&'b mut Binding>) {
    for block in &mut body.blocks {
        for binding in &mut block.bindings {
            bindings.push(binding);
        }
    }
}

/// The arguments of a call, and its name.
fn call(binding: &mut Binding) -> Option<(&str, &mut Vec<Atom>)> {
    match &mut binding.expr {
        Expr::Call { callee: Callee::Operator(name) | Callee::Global(name), args, .. } => {
            Some((name.as_str(), args))
        }
        _ => None,
    }
}

fn memory(bindings: &mut [&mut Binding], random: &mut Random) -> bool {
    if bindings.is_empty() {
        return false;
    }
    let at = random.below(bindings.len());
    let other = random.below(bindings.len());
    let storages: Vec<Atom> = bindings
        .iter_mut()
        .filter_map(|binding| {
            let var = binding.var;
            let (name, _) = call(binding)?;
            (name == "memory.alloc_storage").then_some(Atom::Var(var))
        })
        .collect();
    let how = random.below(3);
    let Some((name, args)) = call(bindings[at]) else { return false };
    match name {
        // A smaller storage.
        "memory.alloc_storage" => {
            let Some(Atom::Shape(dims)) = args.first_mut() else { return false };
            let less = Dim::op(
                DimOp::Sub,
                dims[0].clone(),
                Dim::Int(1 + 3 * i64::try_from(how).unwrap_or(0)),
            );
            dims[0] = Dim::op(DimOp::Max, less, Dim::Int(0));
            true
        }
        // Another place, or another storage.
        "memory.alloc_tensor" => {
            if how == 0 && !storages.is_empty() {
                args[0] = storages[random.below(storages.len())].clone();
            } else if let Some(Atom::Dim(offset)) = args.get_mut(3) {
                *offset = match how {
                    1 => Dim::Int(0),
                    _ => Dim::op(
                        DimOp::Max,
                        Dim::op(DimOp::Sub, offset.clone(), Dim::Int(4)),
                        Dim::Int(0),
                    ),
                };
            } else {
                args.truncate(3);
                args.push(Atom::Dim(Dim::Int(4)));
            }
            true
        }
        // An earlier release, or one that comes later.
        "memory.kill_tensor" | "memory.kill_storage" => {
            let (from, to) = (at.min(other), at.max(other));
            let (left, right) = bindings.split_at_mut(to);
            if from < to {
                std::mem::swap(left[from], right[0]);
            }
            from < to
        }
        _ if name.starts_with("memory.") || args.len() < 2 => false,
        // Operands in another order.
        _ => {
            let (from, to) = (random.below(args.len()), random.below(args.len()));
            args.swap(from, to);
            from != to
        }
    }
}

/// One index or bound that is another one.
struct Wrong {
    /// Expressions to leave as they are.
    skip: usize,
    how: usize,
    done: bool,
}

impl Rewrite for Wrong {
    fn replace(&mut self, expr: &TExpr, place: Place) -> Option<TExpr> {
        if self.done || place != Place::Index {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.done = true;
        let by = |op, value| Some(TExpr::Binary(op, Box::new((expr.clone(), TExpr::Int(value)))));
        match self.how {
            0 => by(BinOp::Add, 1),
            1 => by(BinOp::Sub, 1),
            2 => by(BinOp::Mul, 2),
            _ => Some(TExpr::Int(0)),
        }
    }
}
