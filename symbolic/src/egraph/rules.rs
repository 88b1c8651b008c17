//! The rule file, read into patterns: `name: left == right where a < b, c != 0  # reason`.

use crate::RULES;
use crate::egraph::language::Node;
use egg::{ENodeOrVar, Id, Pattern, RecExpr, Var};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// An equation with conditions.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) left: Dim,
    pub(crate) right: Dim,
    pub(crate) conditions: Vec<Claim>,
    /// The variables, with their names in patterns.
    pub(super) variables: BTreeMap<Name, Var>,
    /// What is looked for, and what is then equal to it.
    pub(super) directions: Vec<(Pattern<Node>, Dim)>,
}

impl Rule {
    /// The directions, each with the rule.
    pub(super) fn searches(&self) -> impl Iterator<Item = (&Self, &(Pattern<Node>, Dim))> {
        self.directions.iter().map(move |direction| (self, direction))
    }
}

/// All rules of the file, read once.
pub(super) fn all() -> &'static [Rule] {
    static ALL: OnceLock<Vec<Rule>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = RULES.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        let read = |line| rule(line).expect("every line of the rule file is a rule");
        lines.filter(|line| !line.is_empty()).map(read).collect()
    })
}

fn rule(line: &'static str) -> Option<Rule> {
    let (name, rest) = line.split_once(':')?;
    let (equation, conditions) = match rest.split_once(" where ") {
        Some((equation, conditions)) => (equation, conditions.split(',').collect()),
        None => (rest, Vec::new()),
    };
    let Claim { left, relation: Relation::Equal, right } = claim(equation)? else {
        return None;
    };
    // A comma also separates the operands of calls, which conditions do not have.
    let conditions = conditions.into_iter().map(claim).collect::<Option<Vec<_>>>()?;
    let mut variables = BTreeMap::new();
    left.visit_vars(&mut |name| {
        let next = u32::try_from(variables.len()).unwrap_or(u32::MAX);
        variables.entry(name.clone()).or_insert(Var::from_u32(next));
    });
    let known = |name: &Name| variables.contains_key(name);
    let bound = right.vars_all(&known)
        && conditions.iter().all(|c| c.left.vars_all(&known) && c.right.vars_all(&known));
    let mut directions = vec![(pattern(&left, &variables), right.clone())];
    if !is_inequality(&left, &right) && is_worth_a_search(&right, &variables) {
        directions.push((pattern(&right, &variables), left.clone()));
    }
    bound.then_some(Rule { name, left, right, conditions, variables, directions })
}

/// Whether the equation is `min(x, y) == x`.
fn is_inequality(left: &Dim, right: &Dim) -> bool {
    matches!(left, Dim::Op(DimOp::Min, operands) if operands.0 == *right)
}

/// Whether the right side is looked for too: it has all variables, and is no sum or product and
/// not just any quotient, of which there are too many.
fn is_worth_a_search(right: &Dim, variables: &BTreeMap<Name, Var>) -> bool {
    let mut found = Vec::new();
    right.visit_vars(&mut |name| found.push(name));
    let Dim::Op(op, operands) = right else { return false };
    let deep = [&operands.0, &operands.1].into_iter().any(|dim| matches!(dim, Dim::Op(..)));
    let rare = deep && !matches!(op, DimOp::Add | DimOp::Sub | DimOp::Mul);
    rare && variables.keys().all(|name| found.contains(&name))
}

fn pattern(dim: &Dim, variables: &BTreeMap<Name, Var>) -> Pattern<Node> {
    let mut nodes = RecExpr::default();
    add_pattern(dim, variables, &mut nodes);
    Pattern::new(nodes)
}

fn add_pattern(
    dim: &Dim,
    variables: &BTreeMap<Name, Var>,
    nodes: &mut RecExpr<ENodeOrVar<Node>>,
) -> Id {
    let node = match dim {
        Dim::Int(value) => ENodeOrVar::ENode(Node::Int(*value)),
        Dim::Var(name) => ENodeOrVar::Var(variables[name]),
        Dim::Op(op, operands) => {
            let a = add_pattern(&operands.0, variables, nodes);
            let b = add_pattern(&operands.1, variables, nodes);
            ENodeOrVar::ENode(Node::Op(*op, [a, b]))
        }
    };
    nodes.add(node)
}

fn claim(text: &str) -> Option<Claim> {
    let relations = [
        (" == ", Relation::Equal),
        (" != ", Relation::NotEqual),
        (" <= ", Relation::AtMost),
        (" < ", Relation::Less),
    ];
    let (left, relation, right) = relations.into_iter().find_map(|(sign, relation)| {
        text.split_once(sign).map(|(left, right)| (left, relation, right))
    })?;
    Some(Claim::new(term(left)?, relation, term(right)?))
}

fn term(text: &str) -> Option<Dim> {
    let mut reader = Reader { rest: text.trim_start() };
    let dim = reader.sum()?;
    reader.rest.is_empty().then_some(dim)
}

/// What is left of a term's text.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn accept(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn sum(&mut self) -> Option<Dim> {
        let mut left = self.product()?;
        loop {
            let op = match () {
                () if self.accept("+") => DimOp::Add,
                () if self.accept("-") => DimOp::Sub,
                () => return Some(left),
            };
            left = Dim::Op(op, Box::new((left, self.product()?)));
        }
    }

    fn product(&mut self) -> Option<Dim> {
        let mut left = self.primary()?;
        loop {
            let op = match () {
                () if self.accept("//") => DimOp::FloorDiv,
                () if self.accept("*") => DimOp::Mul,
                () if self.accept("%") => DimOp::FloorMod,
                () => return Some(left),
            };
            left = Dim::Op(op, Box::new((left, self.primary()?)));
        }
    }

    fn primary(&mut self) -> Option<Dim> {
        if self.accept("(") {
            let inner = self.sum()?;
            return self.accept(")").then_some(inner);
        }
        if self.accept("-") {
            return self.word().parse::<i64>().ok().map(|value| Dim::Int(-value));
        }
        let word = self.word();
        let op = match word {
            "" => return None,
            "min" => DimOp::Min,
            "max" => DimOp::Max,
            "ceildiv" => DimOp::CeilDiv,
            _ => return Some(word.parse::<i64>().map_or_else(|_| Dim::var(word), Dim::Int)),
        };
        let open = self.accept("(");
        let a = self.sum()?;
        let comma = self.accept(",");
        let b = self.sum()?;
        (open && comma && self.accept(")")).then(|| Dim::Op(op, Box::new((a, b))))
    }
}
