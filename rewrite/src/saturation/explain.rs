//! Why a form is the region: rules one after the other, from what the program says to the result.

use super::encode::Encoded;
use super::extract::Form;
use super::graph::Graph;
use super::rulebook::{BACKWARDS, base};
use super::term::{Attr, Head, Term};
use egg::{FlatTerm, Id, Language, RecExpr};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use std::collections::BTreeMap;

/// A rule that was used at a place of the term before.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The rule, with a mark where it was used from right to left.
    pub rule: Name,
    /// The part that was replaced.
    pub before: Tree,
    /// By what.
    pub after: Tree,
    /// The whole before and after.
    pub whole: (Tree, Tree),
}

impl Explained {
    /// The name of the rule, whichever way it was used.
    #[must_use]
    pub fn base(&self) -> &str {
        base(&self.rule)
    }
}

/// A term as a tree of values from outside: all that is left when names are forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    head: Head,
    children: Vec<Tree>,
}

/// The most nodes of a term of which an explanation is made: it shares nothing.
const MOST_NODES: usize = 3000;

/// What leads from a region to a form of it; nothing where a term is too large.
pub(super) fn explained(
    graph: &mut Graph,
    form: &Form,
    outputs: &[Id],
    region: &Encoded,
    ids: &[Id],
) -> Vec<Explained> {
    let Some(before) = written(graph, region, ids) else { return Vec::new() };
    let Some(after) = formed(graph, form, outputs) else { return Vec::new() };
    let mut explanation = graph.explain_equivalence(&before, &after);
    let flat: Vec<FlatTerm<Term>> = explanation.make_flat_explanation().clone();
    let mut steps = Vec::new();
    for pair in flat.windows(2) {
        let (a, b) = (tree(&pair[0]), tree(&pair[1]));
        if let Some((rule, old, new)) = replaced(&pair[0], &pair[1]) {
            steps.push(Explained { rule, before: old, after: new, whole: (a, b) });
        }
    }
    steps
}

fn tree(term: &FlatTerm<Term>) -> Tree {
    Tree { head: term.node.head.clone(), children: term.children.iter().map(tree).collect() }
}

/// The one place where a rule was used, what stood there and what stands there.
fn replaced(before: &FlatTerm<Term>, after: &FlatTerm<Term>) -> Option<(Name, Tree, Tree)> {
    if let Some(rule) = after.forward_rule {
        return Some((rule.as_str().into(), tree(before), tree(after)));
    }
    if let Some(rule) = after.backward_rule {
        let rule = match rule.as_str().strip_suffix(BACKWARDS) {
            Some(forward) => forward.into(),
            None => format!("{rule}{BACKWARDS}").into(),
        };
        return Some((rule, tree(before), tree(after)));
    }
    let mut pairs = before.children.iter().zip(&after.children);
    pairs.find_map(|(before, after)| replaced(before, after))
}

/// The region as a term of its own.
fn written(graph: &mut Graph, region: &Encoded, ids: &[Id]) -> Option<RecExpr<Term>> {
    let mut all: Vec<Term> = Vec::new();
    let roots: Vec<Id> = region
        .outputs
        .iter()
        .map(|var| super::encode::class(graph, ids, region.values[var]))
        .collect();
    let mut places = Vec::new();
    for root in roots {
        places.push(copy(&graph.id_to_expr(root), &mut all)?);
    }
    all.push(Term { head: Head::Outputs, children: places });
    Some(all.into())
}

fn copy(expr: &RecExpr<Term>, all: &mut Vec<Term>) -> Option<Id> {
    let offset = all.len();
    for term in expr.iter() {
        let moved = |id: Id| Id::from(usize::from(id) + offset);
        all.push(term.clone().map_children(moved));
    }
    (all.len() <= MOST_NODES).then(|| Id::from(all.len() - 1))
}

/// A form as a term.
fn formed(graph: &Graph, form: &Form, outputs: &[Id]) -> Option<RecExpr<Term>> {
    fn add(form: &Form, id: Id, all: &mut Vec<Term>, done: &mut BTreeMap<Id, Id>) -> Option<Id> {
        if let Some(&known) = done.get(&id) {
            return Some(known);
        }
        let term = form.get(&id)?;
        let children = term.children.iter().map(|&child| add(form, child, all, done));
        let children = children.collect::<Option<Vec<_>>>()?;
        all.push(Term { head: term.head.clone(), children });
        let place = Id::from(all.len() - 1);
        done.insert(id, place);
        Some(place)
    }
    let (mut all, mut done) = (Vec::new(), BTreeMap::new());
    let roots = outputs.iter().map(|&id| add(form, graph.find(id), &mut all, &mut done));
    let children = roots.collect::<Option<Vec<_>>>()?;
    all.push(Term { head: Head::Outputs, children });
    Some(all.into())
}

impl Tree {
    /// How many nodes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        1 + self.children.iter().map(Tree::size).sum::<usize>()
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    pub(super) fn children(&self) -> &[Tree] {
        &self.children
    }

    /// The text, with names for the values from outside.
    #[must_use]
    pub fn text(&self, names: &dyn Fn(usize) -> Name) -> String {
        let mut parts = self.children.iter().map(|child| child.text(names));
        match &self.head {
            Head::Leaf(at) => names(*at).to_string(),
            Head::Scalar(scalar) => match scalar {
                super::term::Scalar::Float(_, bits) => format!("{:?}", f64::from_bits(*bits)),
                super::term::Scalar::Int(_, value) => value.to_string(),
            },
            Head::Part(at) => format!("{}[{at}]", parts.next().unwrap_or_default()),
            Head::Outputs => format!("({})", parts.collect::<Vec<_>>().join(", ")),
            Head::Call(name, attrs) => call_text(name, attrs, parts),
        }
    }
}

fn call_text(name: &str, attrs: &[Attr], mut parts: impl Iterator<Item = String>) -> String {
    let Some(row) = lookup(name) else { return name.to_owned() };
    let mut shown = Vec::new();
    let dims = |dims: &[relax_syntax::dim::Dim]| {
        format!("[{}]", dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    };
    for (param, attr) in row.params.iter().zip(attrs) {
        let text = match attr {
            Attr::Operand => parts.next().unwrap_or_default(),
            Attr::Operands(count) => {
                format!("[{}]", parts.by_ref().take(*count).collect::<Vec<_>>().join(", "))
            }
            _ if param.default.map(super::encode::default).as_ref() == Some(attr) => continue,
            Attr::None => "None".to_owned(),
            Attr::Dim(dim) => dim.to_string(),
            Attr::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
            Attr::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Attr::Str(text) => format!("{text:?}"),
            Attr::List(list) => dims(list),
        };
        match (param.default, attr) {
            (Some(_), Attr::Operand | Attr::Operands(_)) | (None, _) => shown.push(text),
            (Some(_), _) => shown.push(format!("{}={text}", param.name)),
        }
    }
    format!("{}({})", row.short_name(), shown.join(", "))
}
