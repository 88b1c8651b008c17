//! What a rewrite rule is: two expressions over tensors whose dims are symbols, and conditions.

use relax_semantics::ops::{Kind as ParamKind, Operator};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Claim;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A theorem: where the conditions hold, `left` and `right` have the same value.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Unique among all rules.
    pub name: Name,
    /// The file it stands in.
    pub family: Name,
    /// How near both sides are.
    pub kind: Kind,
    /// Which way it is used.
    pub direction: Direction,
    /// Why it holds, or what it is good for.
    pub reason: String,
    /// The operands of both sides.
    pub params: Vec<Param>,
    /// What must hold of the dims.
    pub conditions: Vec<Claim>,
    /// What is found.
    pub left: Node,
    /// What it becomes.
    pub right: Node,
    /// A false right side that the rule states itself.
    pub mutant: Option<Node>,
    /// As it stands in its file.
    pub text: Arc<str>,
}

/// How near the two sides of a rule are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bit for bit: the same operations on the same elements in the same order, but for laws that
    /// hold of the numbers of a dtype.
    Exact,
    /// Over the real numbers, where neither side overflows.
    Approximate,
}

/// Which way a rule is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Left to right.
    Forward,
    /// Either way.
    Both,
}

/// An operand of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// What it may be.
    pub what: Operand,
}

/// What an operand of a rule may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A tensor of these axes.
    Tensor(Vec<Axis>, ElementType),
    /// A float attribute.
    Float,
}

/// One axis of a tensor, or any number of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// An axis of this extent.
    Dim(Dim),
    /// `*s`: a sequence of axes.
    Group(Name),
}

/// The element type of an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementType {
    /// This one.
    Fixed(DType),
    /// Any of a class: `float`, `number`, …; after a dot what tells variables of one class apart.
    Variable(Name),
}

/// An expression of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A tensor operand, by its place.
    Param(usize),
    /// `const(1.0, "float")`
    Constant(f64, ElementType),
    /// A call of an operator.
    Call(Call),
    /// `t[0]`
    Part(Box<Node>, usize),
}

/// A call of an operator.
#[derive(Clone)]
pub struct Call {
    /// The row of the table.
    pub row: &'static Operator,
    /// One a parameter of the row, defaults included.
    pub args: Vec<Arg>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A tensor.
    Node(Node),
    /// Several tensors.
    Nodes(Vec<Node>),
    /// An integer: an axis, a size. `len(s)` in it is the variable [`rank_of`] the group.
    Integer(Dim),
    /// A list of integers.
    List(Vec<Entry>),
    /// A float.
    Float(f64),
    /// A float operand of the rule, by its place.
    Scalar(usize),
    /// `True` or `False`.
    Bool(bool),
    /// A string.
    Str(Name),
    /// A dtype.
    Type(ElementType),
    /// `None`.
    None,
}

/// Entries of a list of integers.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An axis or a dim.
    One(Dim),
    /// `"*s"`: the dims of a group.
    Dims(Name),
    /// `span(p, s)`: the axes of a group, the first of which is `p`.
    Span(Dim, Name),
    /// `unpadded(s)`: a width of 0 before and after each axis of a group.
    Unpadded(Name),
}

/// The variable that stands for the number of axes of a group.
#[must_use]
pub fn rank_of(group: &str) -> Name {
    format!("len({group})").into()
}

impl Call {
    /// The argument of a parameter.
    #[must_use]
    pub fn arg(&self, param: &str) -> &Arg {
        &self.args[self.row.param(param)]
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.args == other.args
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.row.short_name(), self.args)
    }
}

impl ElementType {
    /// The class of a variable: the name up to the dot.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        match self {
            ElementType::Fixed(_) => None,
            ElementType::Variable(name) => Some(name.split('.').next().unwrap_or(name)),
        }
    }
}

impl Rule {
    /// The groups of axes, in order of appearance.
    #[must_use]
    pub fn groups(&self) -> Vec<Name> {
        let mut groups: Vec<Name> = Vec::new();
        for param in &self.params {
            let Operand::Tensor(axes, _) = &param.what else { continue };
            for axis in axes {
                if let Axis::Group(name) = axis
                    && !groups.contains(name)
                {
                    groups.push(name.clone());
                }
            }
        }
        groups
    }

    /// The symbolic dims of the operands and of the shapes that the left side names, in order of
    /// appearance. Each is at least 0.
    #[must_use]
    pub fn dims(&self) -> Vec<Name> {
        let mut dims: Vec<Name> = self.shape_dims();
        for param in &self.params {
            let Operand::Tensor(axes, _) = &param.what else { continue };
            for axis in axes {
                let Axis::Dim(dim) = axis else { continue };
                note_vars(dim, &mut dims);
            }
        }
        dims
    }

    /// [`Rule::dims`], and those of values that the left side names, such as the end of a range: these may be below 0.
    #[must_use]
    pub fn variables(&self) -> Vec<Name> {
        let mut variables = self.dims();
        self.left.visit(&mut |node| {
            let Node::Call(call) = node else { return };
            for (param, arg) in call.row.params.iter().zip(&call.args) {
                if let (ParamKind::Value, Arg::Integer(dim)) = (param.kind, arg) {
                    note_vars(dim, &mut variables);
                }
            }
        });
        variables
    }

    /// The dims in the shapes that the left side names.
    fn shape_dims(&self) -> Vec<Name> {
        let mut dims: Vec<Name> = Vec::new();
        self.left.visit(&mut |node| {
            let Node::Call(call) = node else { return };
            for (param, arg) in call.row.params.iter().zip(&call.args) {
                let (ParamKind::Shape, Arg::List(entries)) = (param.kind, arg) else { continue };
                for entry in entries {
                    let Entry::One(dim) = entry else { continue };
                    note_vars(dim, &mut dims);
                }
            }
        });
        dims
    }

    /// The variables that stand for element types, in order of appearance.
    #[must_use]
    pub fn element_types(&self) -> Vec<ElementType> {
        let mut found: Vec<ElementType> = Vec::new();
        let mut note = |kind: &ElementType| {
            if matches!(kind, ElementType::Variable(_)) && !found.contains(kind) {
                found.push(kind.clone());
            }
        };
        for param in &self.params {
            if let Operand::Tensor(_, kind) = &param.what {
                note(kind);
            }
        }
        for side in [&self.left, &self.right] {
            side.visit(&mut |node| match node {
                Node::Constant(_, kind) => note(kind),
                Node::Call(call) => call.args.iter().for_each(|arg| {
                    if let Arg::Type(kind) = arg {
                        note(kind);
                    }
                }),
                Node::Param(_) | Node::Part(..) => {}
            });
        }
        found
    }

    /// Something that `to` mentions and `from` does not determine, where `from` is found in a program and becomes `to`.
    #[must_use]
    pub fn undetermined(&self, from: &Node, to: &Node) -> Option<Name> {
        let found = from.params();
        let (mut dims, mut groups) = (BTreeSet::new(), BTreeSet::new());
        for &at in &found {
            let Operand::Tensor(axes, _) = &self.params[at].what else { continue };
            for axis in axes {
                match axis {
                    Axis::Dim(dim) => dim.visit_vars(&mut |name| _ = dims.insert(name.clone())),
                    Axis::Group(name) => _ = groups.insert(name.clone()),
                }
            }
        }
        from.mentioned(&mut dims, &mut BTreeSet::new());
        let (mut wanted, mut wanted_groups) = (BTreeSet::new(), BTreeSet::new());
        to.mentioned(&mut wanted, &mut wanted_groups);
        let param = to.params().into_iter().find(|at| !found.contains(at));
        let dim = wanted.into_iter().find(|name| !name.starts_with("len(") && !dims.contains(name));
        let group = wanted_groups.into_iter().find(|name| !groups.contains(name));
        param.map(|at| self.params[at].name.clone()).or(dim).or(group)
    }

    /// Operands of the left side that the right side does not use: whoever applies the rule must
    /// know that computing them never stops the program.
    #[must_use]
    pub fn dropped(&self) -> Vec<Name> {
        let uses = |side: &Node, at: usize| {
            let mut used = false;
            side.visit(&mut |node| used |= *node == Node::Param(at));
            used
        };
        let params = self.params.iter().enumerate();
        let dropped = params.filter(|&(at, _)| uses(&self.left, at) && !uses(&self.right, at));
        dropped.map(|(_, param)| param.name.clone()).collect()
    }
}

/// Adds the variables of a dim that are not listed yet.
fn note_vars(dim: &Dim, listed: &mut Vec<Name>) {
    dim.visit_vars(&mut |name| {
        if !listed.contains(name) {
            listed.push(name.clone());
        }
    });
}

impl Node {
    /// Calls `visit` on each node, outer ones first.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Node)) {
        visit(self);
        match self {
            Node::Param(_) | Node::Constant(..) => {}
            Node::Part(whole, _) => whole.visit(visit),
            Node::Call(call) => {
                for arg in &call.args {
                    match arg {
                        Arg::Node(node) => node.visit(visit),
                        Arg::Nodes(nodes) => nodes.iter().for_each(|node| node.visit(visit)),
                        _ => {}
                    }
                }
            }
        }
    }

    /// The operands, floats included.
    fn params(&self) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        self.visit(&mut |node| match node {
            Node::Param(at) => _ = found.insert(*at),
            Node::Call(call) => {
                for arg in &call.args {
                    if let Arg::Scalar(at) = arg {
                        found.insert(*at);
                    }
                }
            }
            Node::Constant(..) | Node::Part(..) => {}
        });
        found
    }

    /// The dims and groups in attributes.
    fn mentioned(&self, dims: &mut BTreeSet<Name>, groups: &mut BTreeSet<Name>) {
        self.visit(&mut |node| {
            let Node::Call(call) = node else { return };
            for arg in &call.args {
                match arg {
                    Arg::Integer(dim) => dim.visit_vars(&mut |name| _ = dims.insert(name.clone())),
                    Arg::List(entries) => {
                        for entry in entries {
                            match entry {
                                Entry::One(dim) => {
                                    dim.visit_vars(&mut |name| _ = dims.insert(name.clone()));
                                }
                                Entry::Dims(group)
                                | Entry::Span(_, group)
                                | Entry::Unpadded(group) => {
                                    groups.insert(group.clone());
                                }
                            }
                        }
                    }
                    _ => {}
                }
            }
        });
    }

    /// How many calls it has.
    #[must_use]
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.visit(&mut |node| size += usize::from(matches!(node, Node::Call(_))));
        size
    }
}

impl Kind {
    /// As the text says it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Approximate => "approximate",
        }
    }
}

impl Direction {
    /// As the text says it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Both => "both",
        }
    }
}
