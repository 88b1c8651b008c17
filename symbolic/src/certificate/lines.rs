//! Proofs as data, and as the text that `docs/CERTIFICATES.md` defines.

use crate::atoms::{Atom, Atoms};
use crate::polynomial::{AtomId, Mono, Poly};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The number of a fact while a proof is built; the text numbers facts anew.
pub(crate) type Id = u32;

/// How a polynomial relates to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    AtLeast,
    Equal,
    NotEqual,
}

impl Relation {
    fn symbol(self) -> &'static str {
        match self {
            Relation::AtLeast => ">=",
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
        }
    }
}

/// A polynomial and how it relates to 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) poly: Poly,
    pub(crate) relation: Relation,
}

/// Facts with what each is multiplied by.
pub(crate) type Multiples = Vec<(Id, Poly)>;

/// One derivation; its letters are those of the document.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Lin(Multiples, i128),
    Equation(Multiples),
    Rewrite(Id, Multiples),
    Divide(Id, i128),
    Negate(Id),
    Apart(Id),
    Times(Id, Id),
    Square(Poly),
    Both(Id, Id),
    /// The atom, whether the high part, the fact on the divisor's sign.
    Quotient(AtomId, Part, Option<Id>),
    Extreme(AtomId, usize),
    Rule(RuleStep),
    Lemma(Id, Box<Proof>),
}

/// Which half of what a quotient is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Low,
    High,
}

/// An instance of a named rule.
#[derive(Clone, Debug)]
pub(crate) struct RuleStep {
    pub(crate) name: &'static str,
    /// The terms of its variables, as text.
    pub(crate) with: BTreeMap<String, String>,
    pub(crate) conditions: Vec<Id>,
}

/// A line of a proof.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Derived(Id, Step, Fact),
    /// A statement opened to facts.
    Open(Id, Vec<Id>),
}

/// A proof that the facts of its branch are absurd.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub(crate) lines: Vec<Line>,
    pub(crate) end: End,
}

/// How a proof ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Closed(Id),
    Split(Poly, Vec<Case>),
    Sides(Id, Vec<Case>),
    Choose(AtomId, Vec<Case>),
    Cases(Id, Vec<Case>),
}

/// A case: the numbers of its facts, and why they are absurd.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) ids: Vec<Id>,
    pub(crate) proof: Proof,
}

impl Step {
    fn premises(&self) -> Vec<Id> {
        let of = |facts: &Multiples| facts.iter().map(|fact| fact.0).collect::<Vec<Id>>();
        match self {
            Step::Lin(facts, _) | Step::Equation(facts) => of(facts),
            Step::Rewrite(fact, with) => {
                let mut all = of(with);
                all.push(*fact);
                all
            }
            Step::Divide(fact, _) | Step::Negate(fact) | Step::Apart(fact) => vec![*fact],
            Step::Times(a, b) | Step::Both(a, b) => vec![*a, *b],
            Step::Square(_) | Step::Extreme(..) => Vec::new(),
            Step::Quotient(_, _, sign) => sign.iter().copied().collect(),
            Step::Rule(rule) => rule.conditions.clone(),
            Step::Lemma(_, proof) => proof.needs().into_iter().collect(),
        }
    }
}

impl End {
    fn cases(&self) -> &[Case] {
        match self {
            End::Closed(_) => &[],
            End::Split(_, cases)
            | End::Sides(_, cases)
            | End::Choose(_, cases)
            | End::Cases(_, cases) => cases,
        }
    }

    fn cases_mut(&mut self) -> Option<&mut Vec<Case>> {
        match self {
            End::Closed(_) => None,
            End::Split(_, cases)
            | End::Sides(_, cases)
            | End::Choose(_, cases)
            | End::Cases(_, cases) => Some(cases),
        }
    }
}

impl Proof {
    /// The facts that are used, also those that the proof itself derives.
    pub(crate) fn needs(&self) -> BTreeSet<Id> {
        let mut needed: BTreeSet<Id> = match &self.end {
            End::Closed(id) | End::Sides(id, _) | End::Cases(id, _) => [*id].into(),
            End::Split(..) | End::Choose(..) => BTreeSet::new(),
        };
        for case in self.end.cases() {
            needed.extend(case.proof.needs());
        }
        for line in self.lines.iter().rev() {
            match line {
                Line::Derived(_, step, _) => needed.extend(step.premises()),
                Line::Open(fact, _) => _ = needed.insert(*fact),
            }
        }
        needed
    }

    /// The proof without the lines that nothing needs, and without divisions into cases of which one
    /// does not need what distinguishes it.
    pub(crate) fn pruned(mut self) -> Proof {
        if let Some(cases) = self.end.cases_mut() {
            for case in cases.iter_mut() {
                let empty = Proof { lines: Vec::new(), end: End::Closed(0) };
                case.proof = std::mem::replace(&mut case.proof, empty).pruned();
            }
            let idle = |case: &Case| {
                let needs = case.proof.needs();
                !case.ids.iter().any(|id| needs.contains(id))
            };
            if let Some(index) = cases.iter().position(idle) {
                let Case { proof, .. } = cases.swap_remove(index);
                self.lines.extend(proof.lines);
                return Proof { lines: self.lines, end: proof.end }.pruned();
            }
        }
        self.without_idle_lines()
    }

    fn without_idle_lines(self) -> Proof {
        let mut needed = Proof { lines: Vec::new(), end: self.end.clone() }.needs();
        let mut kept = Vec::new();
        for line in self.lines.into_iter().rev() {
            match line {
                Line::Derived(id, step, fact) if needed.contains(&id) => {
                    let step = match step {
                        Step::Lemma(id, proof) => Step::Lemma(id, Box::new(proof.pruned())),
                        step => step,
                    };
                    needed.extend(step.premises());
                    kept.push(Line::Derived(id, step, fact));
                }
                Line::Open(fact, ids) if ids.iter().any(|id| needed.contains(id)) => {
                    needed.insert(fact);
                    kept.push(Line::Open(fact, ids));
                }
                _ => {}
            }
        }
        kept.reverse();
        Proof { lines: kept, end: self.end }
    }
}

/// Writes a proof as JSON lines.
pub(crate) struct Writer<'a> {
    atoms: &'a Atoms,
    text: String,
    numbers: BTreeMap<Id, usize>,
    next: usize,
}

impl<'a> Writer<'a> {
    /// For a proof whose first facts, the hypotheses, have these numbers.
    pub(crate) fn new(atoms: &'a Atoms, hypotheses: &[Id]) -> Self {
        let numbers = hypotheses.iter().enumerate().map(|(number, id)| (*id, number)).collect();
        Self { atoms, text: String::new(), numbers, next: hypotheses.len() }
    }

    /// The text of the cases.
    pub(crate) fn cases(mut self, cases: &[Case]) -> String {
        cases.iter().for_each(|case| self.case(case));
        self.text
    }

    fn number(&mut self, id: Id) -> usize {
        let number = self.next;
        self.next += 1;
        self.numbers.insert(id, number);
        number
    }

    fn known(&self, id: Id) -> usize {
        *self.numbers.get(&id).expect("a proof uses facts after their lines")
    }

    fn fresh(&mut self, ids: &[Id]) -> String {
        let numbers: Vec<String> = ids.iter().map(|id| self.number(*id).to_string()).collect();
        numbers.join(", ")
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("a string takes everything");
        self.text.push('\n');
    }

    fn case(&mut self, case: &Case) {
        let ids = self.fresh(&case.ids);
        self.line(format_args!("{{\"case\": [{ids}]}}"));
        self.proof(&case.proof);
    }

    fn proof(&mut self, proof: &Proof) {
        for line in &proof.lines {
            match line {
                Line::Derived(id, step, fact) => self.derived(*id, step, fact),
                Line::Open(fact, ids) => {
                    let fact = self.known(*fact);
                    let ids = self.fresh(ids);
                    self.line(format_args!("{{\"id\": [{ids}], \"open\": {fact}}}"));
                }
            }
        }
        let what = match &proof.end {
            End::Closed(id) => format!("\"closed\": {}", self.known(*id)),
            End::Split(poly, _) => format!("\"split\": \"{}\"", shown(self.atoms, poly)),
            End::Sides(id, _) => format!("\"sides\": {}", self.known(*id)),
            End::Choose(atom, _) => format!("\"choose\": \"{}\"", shown_atom(self.atoms, *atom)),
            End::Cases(id, _) => format!("\"cases\": {}", self.known(*id)),
        };
        self.line(format_args!("{{{what}}}"));
        proof.end.cases().iter().for_each(|case| self.case(case));
        self.line(format_args!("{{\"end\": true}}"));
    }

    fn derived(&mut self, id: Id, step: &Step, fact: &Fact) {
        let is = format!("{} {} 0", shown(self.atoms, &fact.poly), fact.relation.symbol());
        if let Step::Lemma(assumed, proof) = step {
            let (id, assumed) = (self.number(id), self.number(*assumed));
            let case = format_args!("{{\"id\": {id}, \"lemma\": \"{is}\", \"case\": [{assumed}]}}");
            self.line(case);
            self.proof(proof);
            return;
        }
        let how = self.how(step);
        let id = self.number(id);
        self.line(format_args!("{{\"id\": {id}, {how}, \"is\": \"{is}\"}}"));
    }

    fn multiples(&self, facts: &Multiples) -> String {
        let each = facts.iter().map(|(id, factor)| {
            format!("[{}, \"{}\"]", self.known(*id), shown(self.atoms, factor))
        });
        each.collect::<Vec<String>>().join(", ")
    }

    fn how(&self, step: &Step) -> String {
        match step {
            Step::Lin(facts, plus) => {
                let plus =
                    if *plus == 0 { String::new() } else { format!(", \"plus\": \"{plus}\"") };
                format!("\"lin\": [{}]{plus}", self.multiples(facts))
            }
            Step::Equation(facts) => format!("\"equation\": [{}]", self.multiples(facts)),
            Step::Rewrite(fact, with) => {
                let fact = self.known(*fact);
                format!("\"rewrite\": {fact}, \"with\": [{}]", self.multiples(with))
            }
            Step::Divide(fact, by) => {
                format!("\"divide\": {}, \"by\": \"{by}\"", self.known(*fact))
            }
            Step::Negate(fact) => format!("\"negate\": {}", self.known(*fact)),
            Step::Apart(fact) => format!("\"apart\": {}", self.known(*fact)),
            Step::Times(a, b) => format!("\"times\": [{}, {}]", self.known(*a), self.known(*b)),
            Step::Square(poly) => format!("\"square\": \"{}\"", shown(self.atoms, poly)),
            Step::Both(a, b) => format!("\"both\": [{}, {}]", self.known(*a), self.known(*b)),
            Step::Quotient(atom, part, sign) => {
                let atom = shown_atom(self.atoms, *atom);
                let part = if *part == Part::Low { "low" } else { "high" };
                let sign = sign.map(|id| format!(", \"sign\": {}", self.known(id)));
                let sign = sign.unwrap_or_default();
                format!("\"quotient\": \"{atom}\", \"part\": \"{part}\"{sign}")
            }
            Step::Extreme(atom, argument) => {
                let atom = shown_atom(self.atoms, *atom);
                format!("\"extreme\": \"{atom}\", \"argument\": {argument}")
            }
            Step::Rule(rule) => {
                let with = rule.with.iter().map(|(name, term)| format!("\"{name}\": \"{term}\""));
                let with = with.collect::<Vec<String>>().join(", ");
                let ids = rule.conditions.iter().map(|id| self.known(*id).to_string());
                let ids = ids.collect::<Vec<String>>().join(", ");
                let name = &rule.name;
                format!("\"rule\": \"{name}\", \"with\": {{{with}}}, \"conditions\": [{ids}]")
            }
            Step::Lemma(..) => String::new(),
        }
    }
}

/// The text of a polynomial.
pub(crate) fn shown(atoms: &Atoms, poly: &Poly) -> String {
    let mut text = String::new();
    for (mono, coefficient) in poly.terms() {
        let sign = match (text.is_empty(), *coefficient < 0) {
            (true, true) => "-",
            (true, false) => "",
            (false, true) => " - ",
            (false, false) => " + ",
        };
        let factors = mono.atoms().iter().map(|id| shown_atom(atoms, *id));
        let mut factors: Vec<String> = factors.collect();
        let number = coefficient.unsigned_abs();
        if number != 1 || *mono == Mono::ONE {
            factors.insert(0, number.to_string());
        }
        text = format!("{text}{sign}{}", factors.join(" * "));
    }
    if text.is_empty() { "0".to_owned() } else { text }
}

fn shown_atom(atoms: &Atoms, id: AtomId) -> String {
    let list = |args: &[Poly]| {
        args.iter().map(|arg| shown(atoms, arg)).collect::<Vec<String>>().join(", ")
    };
    match atoms.at(id) {
        Atom::Var(name) => name.to_string(),
        Atom::Div(numerator, divisor) | Atom::Quotient { numerator, divisor, .. } => {
            format!("(({}) // ({}))", shown(atoms, numerator), shown(atoms, divisor))
        }
        Atom::Min(args) => format!("min({})", list(args)),
        Atom::Max(args) => format!("max({})", list(args)),
    }
}
