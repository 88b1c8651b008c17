//! Coverage of generated programs: operators of the table, and which family's results each family read.

use relax_semantics::ops::{self, Family};
use relax_syntax::ir::{Atom, Body, Callee, Expr, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Operators and pairs of families that were seen.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    operators: BTreeMap<&'static str, u64>,
    pairs: BTreeSet<(Family, Family)>,
    passes: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Notes every operator of a module; gives how many calls of operators it has.
    pub fn note(&mut self, module: &Module) -> u64 {
        let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
        bodies.map(|body| self.body(body, &mut BTreeMap::new())).sum()
    }

    /// Notes that a pass changed a program.
    pub fn note_pass(&mut self, name: &'static str) {
        *self.passes.entry(name).or_default() += 1;
    }

    /// Adds what others reached.
    pub fn add(&mut self, other: &Coverage) {
        for (name, count) in &other.operators {
            *self.operators.entry(name).or_default() += count;
        }
        for (name, count) in &other.passes {
            *self.passes.entry(name).or_default() += count;
        }
        self.pairs.extend(&other.pairs);
    }

    fn body(&mut self, body: &Body, made: &mut BTreeMap<VarId, Family>) -> u64 {
        let mut calls = 0;
        for binding in body.bindings() {
            match &binding.expr {
                Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                    let Some(row) = ops::lookup(name) else { continue };
                    *self.operators.entry(row.name).or_default() += 1;
                    calls += 1;
                    let operands = args.iter().chain(attrs.iter().map(|(_, atom)| atom));
                    operands.for_each(|atom| self.pair(atom, row.family, made));
                    made.insert(binding.var, row.family);
                }
                Expr::Atom(Atom::Var(var))
                | Expr::Get(Atom::Var(var), _)
                | Expr::MatchCast(Atom::Var(var), _) => {
                    if let Some(family) = made.get(var).copied() {
                        made.insert(binding.var, family);
                    }
                }
                Expr::If { then, otherwise, .. } => {
                    calls += self.body(then, made);
                    calls += self.body(otherwise, made);
                }
                Expr::Closure(lambda) => {
                    if let Some(body) = &lambda.body {
                        calls += self.body(body, made);
                    }
                }
                _ => {}
            }
        }
        calls
    }

    fn pair(&mut self, atom: &Atom, family: Family, made: &BTreeMap<VarId, Family>) {
        match atom {
            Atom::Var(var) => {
                if let Some(&from) = made.get(var) {
                    self.pairs.insert((from, family));
                }
            }
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().for_each(|item| self.pair(item, family, made));
            }
            _ => {}
        }
    }

    /// Operators of the table that no program had.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let all = ops::all().map(|row| row.name);
        all.filter(|name| !self.operators.contains_key(name)).collect()
    }

    /// Families whose results operators can read, in pairs.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = ops::all().count();
        let families: BTreeSet<Family> = ops::all().map(|row| row.family).collect();
        let missing = self.missing();
        write!(
            f,
            "{} of {all} operators, {} of {} pairs of families",
            all - missing.len(),
            self.pairs.len(),
            families.len() * families.len()
        )?;
        if !missing.is_empty() && missing.len() <= 40 {
            write!(f, "; never seen: {}", missing.join(" "))?;
        }
        if !self.passes.is_empty() {
            let shown: Vec<String> =
                self.passes.iter().map(|(name, count)| format!("{name} {count}")).collect();
            write!(f, "\npasses that changed a program: {}", shown.join(", "))?;
        }
        Ok(())
    }
}
