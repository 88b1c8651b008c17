//! One dataflow block: which of its products become one, where, and what stands for them.

use crate::dims::{expr_dims, same_dims};
use crate::names::Names;
use crate::trap_free::TrapAnalysis;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Binding, Block, Callee, Expr, Function, VarId, VarInfo};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// Products in one: a bound on what is put together.
const MAX_GROUP: usize = 16;

pub(super) struct Combine<'a, 'm> {
    pub(super) function: &'a Function,
    pub(super) annotations: &'a [Annotation],
    /// What is the same in every call.
    pub(super) weights: BTreeSet<VarId>,
    pub(super) traps: &'a mut TrapAnalysis<'m>,
    pub(super) facts: &'a mut dyn Facts,
    pub(super) names: &'a mut Names,
    /// The variables of the function that is being made.
    pub(super) vars: &'a mut Vec<VarInfo>,
    /// Products that became part of one.
    pub(super) combined: usize,
    /// Products made of them.
    pub(super) made: usize,
}

/// A `matmul` that never stops the program.
#[derive(Clone)]
struct Product<'a> {
    at: usize,
    var: VarId,
    operands: [VarId; 2],
    dims: [&'a [Dim]; 2],
    dtypes: [DType; 2],
    attrs: Vec<(Name, Atom)>,
}

/// What products have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    Left,
    Right,
    Shapes,
}

struct Group<'a> {
    shared: Shared,
    members: Vec<Product<'a>>,
}

impl<'a> Combine<'a, '_> {
    /// What is made of weights goes first, so that it is there for the first product; a block in which
    /// nothing is combined stays as it is.
    pub(super) fn block(&mut self, block: &mut Block) {
        let mut ordered = block.clone();
        self.weights_first(&mut ordered);
        if self.products(&mut ordered) {
            *block = ordered;
        }
    }

    /// Moves what never stops the program and is made of weights alone to the front; it is a weight.
    fn weights_first(&mut self, block: &mut Block) {
        let own = |name: &Name| self.function.dim(name).is_some_and(|dim| dim.in_signature);
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for binding in std::mem::take(&mut block.bindings) {
            let mut used = BTreeSet::new();
            expr_uses(&binding.expr, &mut used);
            let mut in_signature = true;
            let mut look = |dim: &Dim| in_signature &= dim.vars_all(&own);
            expr_dims(&binding.expr, &mut look);
            self.annotations[binding.var.0 as usize].visit_dims(&mut |dim| look(dim));
            let fixed = used.is_subset(&self.weights) && in_signature && !used.is_empty()
                || self.weights.contains(&binding.var);
            if fixed && self.traps.is_removable(self.function, &binding) {
                self.weights.insert(binding.var);
                first.push(binding);
            } else {
                self.weights.remove(&binding.var);
                others.push(binding);
            }
        }
        first.append(&mut others);
        block.bindings = first;
    }

    /// Combines products; says whether there were any.
    fn products(&mut self, block: &mut Block) -> bool {
        let products: Vec<Product> = block
            .bindings
            .iter()
            .enumerate()
            .filter_map(|(at, binding)| self.product(at, binding))
            .collect();
        let mut order = Order::of(block);
        let mut replaced: BTreeMap<usize, Vec<Binding>> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for shared in [Shared::Left, Shared::Right, Shared::Shapes] {
            for at in 0..products.len() {
                let Some((group, place)) = self.group(shared, &products[at..], &taken, &order)
                else {
                    continue;
                };
                order.moved(&group.members, place);
                taken.extend(group.members.iter().map(|product| product.at));
                self.combined += group.members.len();
                self.made += 1;
                replaced.insert(place, self.combined(&group));
            }
        }
        if replaced.is_empty() {
            return false;
        }
        let bindings = std::mem::take(&mut block.bindings).into_iter().enumerate();
        block.bindings = bindings
            .flat_map(|(at, binding)| match replaced.remove(&at) {
                Some(combined) => combined,
                None if taken.contains(&at) => Vec::new(),
                None => vec![binding],
            })
            .collect();
        true
    }

    fn product(&mut self, at: usize, binding: &Binding) -> Option<Product<'a>> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let &[Atom::Var(left), Atom::Var(right)] = args.as_slice() else { return None };
        let is_product = lookup(name).is_some_and(|row| row.name == "matmul");
        if !is_product || !self.traps.is_removable(self.function, binding) {
            return None;
        }
        let (left_dims, left_dtype) = self.tensor(left)?;
        let (right_dims, right_dtype) = self.tensor(right)?;
        Some(Product {
            at,
            var: binding.var,
            operands: [left, right],
            dims: [left_dims, right_dims],
            dtypes: [left_dtype, right_dtype],
            attrs: attrs.clone(),
        })
    }

    fn tensor(&self, var: VarId) -> Option<(&'a [Dim], DType)> {
        let Annotation::Tensor(tensor) = &self.annotations[var.0 as usize] else { return None };
        Some((tensor.extents.dims()?, tensor.dtype?))
    }

    /// The products that go with the first one, and where they can all be made.
    fn group(
        &mut self,
        shared: Shared,
        products: &[Product<'a>],
        taken: &BTreeSet<usize>,
        order: &Order,
    ) -> Option<(Group<'a>, usize)> {
        let first = products.first().filter(|product| !taken.contains(&product.at))?;
        let mut group = Group { shared, members: vec![first.clone()] };
        let mut place = first.at;
        for product in products[1..].iter().filter(|product| !taken.contains(&product.at)) {
            if group.members.len() == MAX_GROUP || !self.joins(&group, product) {
                continue;
            }
            group.members.push(product.clone());
            match order.place(&group.members).filter(|_| self.is_bounded(&group)) {
                Some(found) => place = found,
                None => _ = group.members.pop(),
            }
        }
        (group.members.len() > 1).then_some((group, place))
    }

    fn joins(&mut self, group: &Group, product: &Product) -> bool {
        let first = &group.members[0];
        let is_weight = |product: &Product| self.weights.contains(&product.operands[1]);
        let ([left, right], [own_left, own_right]) = (first.dims, product.dims);
        let flat_right = right.len() == 2 && own_right.len() == 2;
        let flat = flat_right && left.len() == 2 && own_left.len() == 2;
        if first.dtypes != product.dtypes || first.attrs != product.attrs {
            return false;
        }
        match group.shared {
            Shared::Left => {
                flat_right
                    && first.operands[0] == product.operands[0]
                    && is_weight(first)
                    && is_weight(product)
                    && same_dims(self.facts, &right[..1], &own_right[..1])
            }
            Shared::Right => {
                flat && first.operands[1] == product.operands[1]
                    && same_dims(self.facts, &left[1..], &own_left[1..])
            }
            Shared::Shapes => {
                flat && is_weight(first)
                    && is_weight(product)
                    && same_dims(self.facts, left, own_left)
                    && same_dims(self.facts, right, own_right)
            }
        }
    }

    /// Whether the size of what is put together stays in i64: extents of single tensors do, their sum
    /// might not.
    fn is_bounded(&mut self, group: &Group) -> bool {
        if group.shared == Shared::Shapes {
            return true;
        }
        let sum = group.cuts().pop().unwrap_or(Dim::Int(0));
        let claim = Claim::new(sum, Relation::AtMost, i64::MAX / 2);
        self.facts.decide(&claim) == Answer::Proved
    }

    /// What stands for the members of a group.
    fn combined(&mut self, group: &Group) -> Vec<Binding> {
        let side = |at: usize| group.members.iter().map(|product| product.operands[at]).collect();
        let [left, right] = group.members[0].operands;
        let mut made = Vec::new();
        let (left, right) = match group.shared {
            Shared::Left => (left, self.joined("concat", side(1), 1, &mut made)),
            Shared::Right => (self.joined("concat", side(0), 0, &mut made), right),
            Shared::Shapes => (
                self.joined("stack", side(0), 0, &mut made),
                self.joined("stack", side(1), 0, &mut made),
            ),
        };
        let operands = vec![Atom::Var(left), Atom::Var(right)];
        let product =
            self.bind("product", call("matmul", operands, group.members[0].attrs.clone()));
        let cuts = match group.shared {
            Shared::Shapes => (1_i64..).take(group.members.len() - 1).map(Dim::Int).collect(),
            Shared::Left | Shared::Right => {
                let mut cuts = group.cuts();
                cuts.pop();
                cuts
            }
        };
        let axis = if group.shared == Shared::Left { -1 } else { 0 };
        let cuts = Atom::List(cuts.into_iter().map(Atom::Dim).collect());
        let args = vec![Atom::Var(product.var), cuts, Atom::Dim(Dim::Int(axis))];
        let parts = self.bind("parts", call("split", args, Vec::new()));
        let whole = parts.var;
        made.extend([product, parts]);
        for (index, member) in group.members.iter().enumerate() {
            let part = Expr::Get(Atom::Var(whole), index);
            if group.shared == Shared::Shapes {
                let part = self.bind("part", part);
                let args = vec![Atom::Var(part.var), Atom::List(vec![Atom::Dim(Dim::Int(0))])];
                made.push(part);
                made.push(Binding { var: member.var, expr: call("squeeze", args, Vec::new()) });
            } else {
                made.push(Binding { var: member.var, expr: part });
            }
        }
        made
    }

    fn joined(
        &mut self,
        operator: &str,
        operands: Vec<VarId>,
        axis: i64,
        made: &mut Vec<Binding>,
    ) -> VarId {
        let operands = Atom::Tuple(operands.into_iter().map(Atom::Var).collect());
        let args = vec![operands, Atom::Dim(Dim::Int(axis))];
        let binding = self.bind("joined", call(operator, args, Vec::new()));
        let var = binding.var;
        made.push(binding);
        var
    }

    fn bind(&mut self, name: &str, expr: Expr) -> Binding {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let (name, span) = (self.names.fresh(name), self.function.span);
        self.vars.push(VarInfo { name, annotation: None, span });
        Binding { var, expr }
    }
}

fn call(operator: &str, args: Vec<Atom>, attrs: Vec<(Name, Atom)>) -> Expr {
    Expr::Call { callee: Callee::Operator(Name::new(operator)), args, attrs }
}

impl Group<'_> {
    /// Where each member ends along the axis that is put together.
    fn cuts(&self) -> Vec<Dim> {
        let mut end = Dim::Int(0);
        let ends = self.members.iter().map(|product| {
            let extent = match self.shared {
                Shared::Left => &product.dims[1][1],
                Shared::Right | Shared::Shapes => &product.dims[0][0],
            };
            end = Dim::op(DimOp::Add, end.clone(), extent.clone());
            end.clone()
        });
        ends.collect()
    }
}

/// Where variables of a block are bound and first used.
struct Order {
    bound: BTreeMap<VarId, usize>,
    used: BTreeMap<VarId, usize>,
}

impl Order {
    fn of(block: &Block) -> Self {
        let (mut bound, mut uses) = (BTreeMap::new(), BTreeMap::new());
        for (at, binding) in block.bindings.iter().enumerate() {
            bound.insert(binding.var, at);
            let mut used = BTreeSet::new();
            expr_uses(&binding.expr, &mut used);
            used.into_iter().for_each(|var| _ = uses.entry(var).or_insert(at));
        }
        Self { bound, used: uses }
    }

    /// Notes that products are made at a place.
    fn moved(&mut self, members: &[Product], place: usize) {
        for product in members {
            self.bound.insert(product.var, place);
            for operand in product.operands {
                let used = self.used.entry(operand).or_insert(place);
                *used = place.min(*used);
            }
        }
    }

    /// The place of the first where its operands are all there, else that of the last, when nothing
    /// needs one of them before.
    fn place(&self, members: &[Product]) -> Option<usize> {
        let (first, last) = (members.first()?.at, members.last()?.at);
        let there = |var| self.bound.get(var).is_none_or(|&bound| bound < first);
        if members.iter().flat_map(|product| &product.operands).all(there) {
            return Some(first);
        }
        let needed =
            |product: &Product| self.used.get(&product.var).is_some_and(|&used| used <= last);
        (!members.iter().any(needed)).then_some(last)
    }
}
