//! Calls on shards: the call of one device that a call of a rank stands for, and the layout of its result.

use super::{Comparison, Held, Layout, is_same_constant};
use relax_semantics::ops::{Effect, Known, Operator, lookup, passed};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Callee, Expr, VarId};
use relax_theorems::placement::blocks::{is_shape, names, on_shards};
use relax_theorems::placement::calls::{Site, tensors};
use relax_theorems::placement::{Argument, Call, Strategy, candidates};

/// Ways to read operands that are tried: a value that is several values of one device is rare.
const MOST_WAYS: usize = 16;

/// The arguments of a call: by position, and by name.
type Passed<'a> = (&'a [Atom], &'a [(Name, Atom)]);

impl Comparison<'_> {
    /// What a call of an operator on shards is.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn call(
        &mut self,
        row: &'static Operator,
        args: Passed,
        var: VarId,
    ) -> Result<Vec<Held>, String> {
        if row.effect == Effect::Impure {
            return Err(format!("`{}` has an effect", row.short_name()));
        }
        let own = site(self.ranks, row, args, var)?;
        let mut why = format!("one device does not call `{}` on these values", row.short_name());
        let mut found = Vec::new();
        for at in 0..self.global.len() {
            let binding = self.global[at];
            let Expr::Call { callee: Callee::Operator(name), args: whole, attrs } = &binding.expr
            else {
                continue;
            };
            if lookup(name).is_none_or(|other| other.name != row.name) {
                continue;
            }
            let Ok(one) = site(self.one, row, (whole, attrs), binding.var) else { continue };
            for layouts in self.layouts(&one, (whole, attrs), &own, args) {
                match self.placed_call(&one, &own, &layouts) {
                    Ok(layout) => found.push((binding.var, layout)),
                    Err(other) => why = other,
                }
            }
        }
        if found.is_empty() { Err(why) } else { Ok(found) }
    }

    /// The layouts of the operands of a call of a rank as those of a call of one device.
    fn layouts(&self, one: &Site, whole: Passed, own: &Site, args: Passed) -> Vec<Vec<Layout>> {
        let mut ways = vec![Vec::new()];
        if one.vars.len() != own.vars.len() || !has_same_constants(one.call.row, whole, args) {
            return Vec::new();
        }
        for (value, local) in one.vars.iter().zip(&own.vars) {
            let layouts: Vec<Layout> = match (value, local) {
                (Some(value), Some(local)) => {
                    let root = self.root(*value);
                    let held = self.held(*local).into_iter().filter(|(held, _)| *held == root);
                    held.map(|(_, layout)| layout).collect()
                }
                (None, None) => vec![self.world.replicated()],
                _ => Vec::new(),
            };
            let with = |way: &Vec<Layout>| {
                let way = way.clone();
                layouts
                    .iter()
                    .map(move |layout| [way.clone(), vec![layout.clone()]].concat())
                    .collect::<Vec<_>>()
            };
            ways = ways.iter().flat_map(with).take(MOST_WAYS).collect();
        }
        ways
    }

    /// The layout of the result of a call whose operands have these layouts.
    fn placed_call(
        &mut self,
        one: &Site,
        own: &Site,
        layouts: &[Layout],
    ) -> Result<Layout, String> {
        let mut ways: Vec<(Layout, Call)> = vec![(Vec::new(), one.call.clone())];
        for axis in 0..self.world.workers.len() {
            let mut next = Vec::new();
            for (layout, call) in ways {
                let mut strategies = vec![Strategy::replicated(call.operands.len())];
                strategies.extend(candidates(&call, self.facts));
                let fits = |strategy: &Strategy| {
                    strategy
                        .operands
                        .iter()
                        .zip(layouts)
                        .all(|(placement, own)| *placement == own[axis])
                };
                for strategy in strategies.into_iter().filter(fits) {
                    let along = (axis, &self.world.workers[axis]);
                    if let Some(local) =
                        on_shards(&call, &strategy, along, &self.one.module, self.facts)
                    {
                        let layout = [&layout[..], &[strategy.result]].concat();
                        next.push((layout, local));
                    }
                }
            }
            ways = next;
        }
        let mut why = "no placement of its result is proved".to_owned();
        for (layout, _) in ways {
            match self.is_this_call(one, own, &layout) {
                Ok(()) => return Ok(layout),
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    /// Demands that the call of a rank is the call on shards in this layout.
    fn is_this_call(&mut self, one: &Site, own: &Site, layout: &Layout) -> Result<(), String> {
        if !self.world.is_legal(layout) {
            return Err("its layout has no meaning".to_owned());
        }
        if one.call.results.len() != own.call.results.len() {
            return Err("it has other results".to_owned());
        }
        for (whole, shard) in one.call.results.iter().zip(&own.call.results) {
            if !self.is_shard(whole, shard, layout) {
                return Err("its result is not known to have the dims of a shard".to_owned());
            }
        }
        let (dims, _) = &one.call.results[0];
        for (param, (whole, local)) in
            one.call.row.params.iter().zip(one.call.args.iter().zip(&own.call.args))
        {
            let is_same = match (whole, local) {
                (Argument::Tensor(a), Argument::Tensor(b)) => a == b,
                (Argument::Tensors(a), Argument::Tensors(b)) => a == b,
                (Argument::Known(whole), Argument::Known(local)) => {
                    let whole = if is_shape(param.kind) {
                        self.cut(whole, dims, layout)
                    } else {
                        whole.clone()
                    };
                    self.is_known(&whole, local)
                }
                _ => false,
            };
            if !is_same {
                return Err(format!("its argument `{}` is another one on one device", param.name));
            }
        }
        Ok(())
    }

    /// The shape that a call on shards asks for.
    fn cut(&mut self, whole: &Known, dims: &[Dim], layout: &Layout) -> Known {
        let Known::List(items) = whole else { return whole.clone() };
        if items.len() != dims.len() {
            return whole.clone();
        }
        let local = self.world.local(dims, layout);
        let mut item = |(at, own): (usize, &Known)| {
            if layout.contains(&Placement::Sharded(at)) && names(own, &dims[at], self.facts) {
                Known::Dim(local[at].clone())
            } else {
                own.clone()
            }
        };
        Known::List(items.iter().enumerate().map(&mut item).collect())
    }

    fn is_known(&mut self, a: &Known, b: &Known) -> bool {
        match (a, b) {
            (Known::Dim(a), Known::Dim(b)) => self.is_equal(a, b),
            (Known::Float(a), Known::Float(b)) => a.to_bits() == b.to_bits(),
            (Known::Bool(a), Known::Bool(b)) => a == b,
            (Known::Str(a), Known::Str(b)) => a == b,
            (Known::None, Known::None) => true,
            (Known::List(a), Known::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.is_known(a, b))
            }
            _ => false,
        }
    }
}

/// A call as placements see it.
fn site(
    side: &super::Side,
    row: &'static Operator,
    args: Passed,
    var: VarId,
) -> Result<Site, String> {
    let result = side.annotation(var).cloned().unwrap_or(Annotation::Object);
    tensors(&result).ok_or("the dims of its result are not known")?;
    Site::of(row, args, &result, &|var| side.annotation(var).cloned())
}

/// Whether the constants among the arguments of two calls are the same.
fn has_same_constants(row: &'static Operator, one: Passed, own: Passed) -> bool {
    let constants = |(args, attrs): Passed| -> Option<Vec<Atom>> {
        let mut found = Vec::new();
        for atom in passed(row, args, attrs).ok()?.into_iter().flatten() {
            match atom {
                Atom::Tuple(items) | Atom::List(items) => {
                    found.extend(items.iter().filter(|item| is_constant(item)).cloned())
                }
                single if is_constant(single) => found.push(single.clone()),
                _ => {}
            }
        }
        Some(found)
    };
    let (Some(one), Some(own)) = (constants(one), constants(own)) else { return false };
    one.len() == own.len() && one.iter().zip(&own).all(|(a, b)| is_same_constant(a, b))
}

fn is_constant(atom: &Atom) -> bool {
    matches!(atom, Atom::Constant(_) | Atom::External(_))
}
