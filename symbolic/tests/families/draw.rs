//! Draws claims: one of the forms of a family, with terms for its letters, or a random claim. A number gives the same claim always.

use relax_symbolic::claims::Formula;
use relax_symbolic::statement;
use relax_syntax::Name;
use std::collections::{BTreeMap, BTreeSet};

/// The forms of each family.
const FORMS: &str = include_str!("forms.txt");
/// The family whose claims have no form.
const RANDOM: &str = "random";
const VARIABLES: [&str; 5] = ["a", "b", "c", "n", "m"];

/// A question: do the facts imply the goal?
pub(crate) struct Question {
    pub(crate) family: &'static str,
    pub(crate) facts: Vec<Formula>,
    pub(crate) goal: Formula,
    pub(crate) text: String,
}

/// The families in the order in which claims take turns.
pub(crate) struct Families(Vec<(&'static str, Vec<&'static str>)>);

impl Families {
    pub(crate) fn new() -> Self {
        let mut families: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in FORMS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => families.push((name, Vec::new())),
                None => families.last_mut().expect("a family before its forms").1.push(line),
            }
        }
        families.push((RANDOM, Vec::new()));
        Self(families)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|family| family.0)
    }

    /// The question with this number; `None` where the text has no such statement.
    pub(crate) fn question(&self, number: u64) -> Option<Question> {
        let mut draw = Draw { state: number, known: BTreeSet::new(), letters: BTreeMap::new() };
        let turn = usize::try_from(number).expect("few questions") % self.0.len();
        let (family, forms) = &self.0[turn];
        let (facts, goal) = if *family == RANDOM {
            draw.random()
        } else {
            let form = forms[draw.below(forms.len())];
            draw.filled(form)
        };
        let text = format!("{} |- {goal}", facts.join(", "));
        let facts = facts.iter().map(|fact| statement::formula(fact).ok());
        let facts = facts.collect::<Option<Vec<_>>>()?;
        Some(Question { family, facts, goal: statement::formula(&goal).ok()?, text })
    }
}

/// What is drawn for one claim.
struct Draw {
    state: u64,
    /// Facts on the variables that letters stand for.
    known: BTreeSet<String>,
    letters: BTreeMap<char, String>,
}

impl Draw {
    /// The next number of the generator of Steele, Lea and Flood (`SplitMix64`).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).expect("a small count");
        usize::try_from(self.next() % count).expect("below a count")
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn int(&mut self, low: i64, high: i64) -> String {
        let width = usize::try_from(high - low + 1).expect("not empty");
        let value = low + i64::try_from(self.below(width)).expect("small");
        if value < 0 { format!("({value})") } else { value.to_string() }
    }

    fn variable(&mut self) -> String {
        VARIABLES[self.below(VARIABLES.len())].to_owned()
    }

    fn at_least(&mut self, low: i64) -> String {
        let name = self.variable();
        self.known.insert(format!("{name} >= {low}"));
        name
    }

    /// Facts and goal of a form.
    fn filled(&mut self, form: &str) -> (Vec<String>, String) {
        let (facts, goal) = form.split_once("|-").expect("a form has a goal");
        let facts: Vec<&str> = parts(facts);
        let mut facts: Vec<String> = facts.into_iter().map(|fact| self.with_terms(fact)).collect();
        let mut goal = self.with_terms(goal.trim());
        facts.splice(0..0, std::mem::take(&mut self.known));
        if !facts.is_empty() && self.one_in(12) {
            facts.remove(self.below(facts.len()));
        }
        let connected =
            [" and ", " or ", "not ", "implies("].iter().any(|word| goal.contains(word));
        if !connected && !goal.starts_with("divides") && self.one_in(10) {
            goal += if self.one_in(2) { " + 1" } else { " - 1" };
        }
        (facts, goal)
    }

    /// The text with terms for its letters.
    fn with_terms(&mut self, text: &str) -> String {
        let mut filled = String::new();
        for letter in text.chars() {
            if !letter.is_ascii_uppercase() {
                filled.push(letter);
                continue;
            }
            let term = match self.letters.get(&letter) {
                Some(term) => term.clone(),
                None => {
                    let term = self.term_for(letter);
                    self.letters.insert(letter, term.clone());
                    term
                }
            };
            filled += &term;
        }
        filled
    }

    fn term_for(&mut self, letter: char) -> String {
        match letter {
            'X' | 'Y' | 'Z' => self.term(),
            'N' | 'M' => match self.below(8) {
                0 => format!("({} % {})", self.variable(), self.int(2, 9)),
                1 => format!("max({}, 0)", self.variable()),
                2 => format!("({} + {})", self.at_least(0), self.int(0, 4)),
                _ => self.at_least(0),
            },
            'I' | 'J' => self.at_least(1),
            'K' | 'L' => match self.below(10) {
                0 => format!("({} * {})", self.at_least(1), self.int(2, 4)),
                1 => format!("({} * {})", self.at_least(1), self.at_least(1)),
                2..=4 => self.at_least(1),
                _ => self.int(1, 16),
            },
            'D' => {
                let name = self.variable();
                self.known.insert(format!("{name} != 0"));
                name
            }
            'C' | 'E' => self.int(-6, 12),
            _ => self.int(1, 16),
        }
    }

    /// Most are variables, the others one operation on them.
    fn term(&mut self) -> String {
        let (x, y) = (self.variable(), self.variable());
        match self.below(20) {
            0 => format!("({x} + {y})"),
            1 => format!("({x} - {y})"),
            2 => format!("({x} + {})", self.int(1, 9)),
            3 => format!("({x} - {})", self.int(1, 9)),
            4 => format!("({} * {x})", self.int(2, 6)),
            5 => format!("({x} * {y})"),
            6 => format!("({x} // {})", self.int(2, 8)),
            7 => format!("({x} % {})", self.int(2, 8)),
            8 => format!("min({x}, {y})"),
            9 => format!("max({x}, {})", self.int(0, 8)),
            _ => x,
        }
    }

    /// Half of them compare two terms; the others bound a term of variables with bounds, nearly as tightly as is true.
    fn random(&mut self) -> (Vec<String>, String) {
        if self.one_in(2) { self.random_comparison() } else { self.random_bound() }
    }

    fn random_bound(&mut self) -> (Vec<String>, String) {
        let (mut facts, mut values) = (Vec::new(), Vec::new());
        for name in &VARIABLES[..3] {
            let low = [0, 0, 1, -3][self.below(4)];
            let high = low + i64::try_from(self.below(14)).expect("small");
            facts.extend([format!("{low} <= {name}"), format!("{name} <= {high}")]);
            values.push((*name, low..=high));
        }
        let tree = self.tree(3);
        let bound = |values: &[i64]| {
            let known = |name: &Name| {
                VARIABLES.iter().position(|own| own == name).and_then(|at| values.get(at).copied())
            };
            statement::term(&tree).ok()?.eval(&known).ok()
        };
        let ends = values.iter().map(|(_, range)| [*range.start(), *range.end()]);
        let ends: Vec<[i64; 2]> = ends.collect();
        let corners = (0..8_usize).map(|corner| {
            let at = |axis: usize| ends[axis][corner >> axis & 1];
            bound(&[at(0), at(1), at(2)])
        });
        let greatest = corners.flatten().max().unwrap_or_default();
        (facts, format!("{tree} <= {}", greatest + i64::try_from(self.below(3)).expect("small")))
    }

    /// Some facts on variables, and a comparison of two terms.
    fn random_comparison(&mut self) -> (Vec<String>, String) {
        let mut facts = Vec::new();
        for _ in 0..self.below(5) {
            let name = self.variable();
            let fact = match self.below(7) {
                0 => format!("{name} <= {}", self.int(0, 12)),
                1 => format!("divides({}, {name})", self.int(2, 8)),
                2 => format!("{name} < {}", self.variable()),
                3 => format!("{name} == {}", self.tree(1)),
                4 => format!("{name} % {} == {}", self.int(2, 6), self.int(0, 3)),
                _ => format!("{name} >= {}", self.int(0, 2)),
            };
            facts.push(fact);
        }
        let left = self.tree(3);
        // Sides that share a part: others are seldom related.
        let right = match self.below(4) {
            0 => self.tree(3),
            1 => format!("({left} + {})", self.tree(1)),
            2 => format!("max({left}, {})", self.tree(1)),
            _ => self.tree(1),
        };
        let relation = ["==", "!=", "<=", "<", ">=", "<=", ">="][self.below(7)];
        (facts, format!("{left} {relation} {right}"))
    }

    fn tree(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(4) {
            return if self.one_in(3) { self.int(-3, 9) } else { self.variable() };
        }
        let (a, b) = (self.tree(depth - 1), self.tree(depth - 1));
        match self.below(9) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 => format!("({a} * {b})"),
            4 => format!("({a} // {})", self.int(2, 8)),
            5 => format!("({a} % {})", self.int(2, 8)),
            6 => format!("min({a}, {b})"),
            7 => format!("max({a}, {b})"),
            _ => format!("ceildiv({a}, {})", self.int(2, 8)),
        }
    }
}

/// The parts of a list between commas that stand in no brackets.
fn parts(list: &str) -> Vec<&str> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(list[start..].trim());
    found.retain(|part| !part.is_empty());
    found
}
