//! Operators that compute something else in training than at inference are written as operators that do not (TVM:
//! `DecomposeOpsForInference` and `DecomposeOpsForTraining`), which passes on elementwise operators and reductions know.
//!
//! Unlike there, a call keeps its meaning: batch normalization by given statistics is one of inference, that by statistics of the
//! data one of training. The operators compute in f64 and round once, with sums in the same order: every bit is the same.

use crate::blocks::for_each_block;
use crate::casts::astype;
use crate::in_place::updated_in_place;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use crate::written::{Normalized, Writer, call, constant, number, rewrite_bodies};
use relax_semantics::check::Phase;
use relax_semantics::ops::{Operator, by_position, lookup, normalize_axis};
use relax_semantics::philox::{dropout_scale, dropout_threshold};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::graph::Literals;
use relax_syntax::ir::{Atom, Binding, Block, Callee, Expr, Module, VarId};
use relax_syntax::resolve::expr_uses;
use std::collections::BTreeSet;

/// The record of the pass for inference.
pub static INFERENCE: Pass = Pass {
    name: "decompose_ops_for_inference",
    doc: "Writes batch_norm by given statistics as elementwise operators, and dropout without a state as data and ones.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run: |module, context| run(module, context, Purpose::Inference),
};

/// The record of the pass for training.
pub static TRAINING: Pass = Pass {
    name: "decompose_ops_for_training",
    doc: "Writes batch_norm by statistics of the data and layer_norm as means, variances and elementwise operators, and dropout \
          with a state as random bits and a choice.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run: |module, context| run(module, context, Purpose::Training),
};

const BATCH_NORM: &str = "nn.batch_norm";
const DROPOUT: &str = "nn.dropout";
const LAYER_NORM: &str = "nn.layer_norm";

/// The reductions of a normalization.
const MOMENTS: [&str; 2] = ["mean", "variance"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Inference,
    Training,
}

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext, purpose: Purpose) -> Result<Module, Diagnostic> {
    let mut traps = TrapAnalysis::new(module, context.checked);
    let (result, decomposed) = rewrite_bodies(module, &mut |writer, body| {
        let mut walk = Walk {
            purpose,
            annotations: &context.checked.annotations[&writer.function.name],
            updated: updated_in_place(module, writer.function),
            traps: &mut traps,
            decomposed: 0,
            writer,
        };
        for_each_block(body, &mut |block| walk.block(block));
        walk.decomposed
    });
    context.count("decomposed", decomposed, "operators");
    Ok(result)
}

struct Walk<'a, 'm> {
    purpose: Purpose,
    annotations: &'a [Annotation],
    updated: BTreeSet<VarId>,
    traps: &'a mut TrapAnalysis<'m>,
    decomposed: usize,
    writer: Writer<'a>,
}

/// A call that does not trap.
struct Site {
    row: &'static Operator,
    /// One a parameter, defaults included.
    params: Vec<Atom>,
    /// The operand `data`.
    dtype: DType,
    rank: usize,
    result: VarId,
}

impl Site {
    fn param(&self, name: &str) -> &Atom {
        &self.params[self.row.param(name)]
    }

    /// The operand, where the flag says that it is used.
    fn if_set(&self, flag: &str, name: &str) -> Option<Atom> {
        (*self.param(flag) == Atom::Bool(true)).then(|| self.param(name).clone())
    }

    fn float(&self, name: &str) -> Option<f64> {
        match self.param(name) {
            Atom::Float(value) => Some(*value),
            Atom::Dim(dim) => dim.as_int().map(|value| value as f64),
            _ => None,
        }
    }

    fn is_none(&self, name: &str) -> bool {
        *self.param(name) == Atom::None
    }
}

impl Walk<'_, '_> {
    fn block(&mut self, block: &mut Block) {
        for mut binding in std::mem::take(&mut block.bindings) {
            if let Some(site) = self.site(&binding)
                && let Some(expr) = self.decomposed(&site)
            {
                self.decomposed += 1;
                binding.expr = expr;
            }
            self.writer.made.push(binding);
        }
        block.bindings = std::mem::take(&mut self.writer.made);
    }

    fn site(&mut self, binding: &Binding) -> Option<Site> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let known = [BATCH_NORM, DROPOUT, LAYER_NORM];
        let row = lookup(name).filter(|row| known.contains(&row.name))?;
        let params = by_position(row, args, attrs)?;
        let Atom::Var(data) = params[row.param("data")] else { return None };
        let Annotation::Tensor(tensor) = &self.annotations[data.0 as usize] else { return None };
        let (dtype, rank) = (tensor.dtype?, tensor.extents.rank()?);
        let mut used = BTreeSet::new();
        expr_uses(&binding.expr, &mut used);
        let fits = used.is_disjoint(&self.updated)
            && self.traps.is_removable(self.writer.function, binding);
        fits.then_some(Site { row, params, dtype, rank, result: binding.var })
    }

    fn decomposed(&mut self, site: &Site) -> Option<Expr> {
        match (site.row.name, self.purpose) {
            (DROPOUT, Purpose::Inference) if site.is_none("state") => {
                let data = site.param("data").clone();
                let mask = call("ones_like", vec![data.clone()]);
                let mask = self.writer.bind("mask", site.result, mask);
                Some(Expr::Atom(Atom::Tuple(vec![data, mask])))
            }
            (DROPOUT, Purpose::Training) if !site.is_none("state") => self.dropout(site),
            (LAYER_NORM, Purpose::Training) => self.layer_norm(site),
            (BATCH_NORM, purpose) => {
                let training = *site.param("training") == Atom::Bool(true);
                (training == (purpose == Purpose::Training)).then_some(())?;
                self.batch_norm(site, training)
            }
            _ => None,
        }
    }

    /// Random bits, compared; elements that stay are multiplied in the dtype of the operator.
    fn dropout(&mut self, site: &Site) -> Option<Expr> {
        let (result, dtype, rate) = (site.result, site.dtype, site.float("rate")?);
        let (data, writer) = (site.param("data").clone(), &mut self.writer);
        let shape = writer.bind("shape", result, call("shape_of", vec![data.clone()]));
        let operands = vec![site.param("state").clone(), shape, site.param("stream").clone()];
        let drawn = writer.bind("drawn", result, call("random_bits", operands));
        let bits = writer.bind("bits", result, Expr::Get(drawn, 1));
        let least = Literals::Int(vec![i128::from(dropout_threshold(rate))]);
        let compared = call("greater_equal", vec![bits, constant(DType::U32, least)]);
        let kept = writer.bind("kept", result, compared);
        let (wide, scale) = dropout_scale(rate, dtype);
        let mut scaled = data;
        if dtype != wide {
            scaled = writer.bind("wide", result, astype(scaled, wide));
        }
        let scale = constant(wide, Literals::Float(vec![scale]));
        scaled = writer.bind("scaled", result, call("multiply", vec![scaled, scale]));
        if dtype != wide {
            scaled = writer.bind("scaled", result, astype(scaled, dtype));
        }
        let zero = constant(dtype, Literals::Float(vec![0.0]));
        let chosen = call("where", vec![kept.clone(), scaled, zero]);
        let chosen = writer.bind("chosen", result, chosen);
        let mask = writer.bind("mask", result, astype(kept, dtype));
        Some(Expr::Atom(Atom::Tuple(vec![chosen, mask])))
    }

    /// Where the axes are the last ones in order, so that scale and shift broadcast.
    fn layer_norm(&mut self, site: &Site) -> Option<Expr> {
        let (result, epsilon) = (site.result, site.float("epsilon")?);
        let (Atom::Tuple(items) | Atom::List(items)) = (match site.param("axes") {
            one @ Atom::Dim(_) => Atom::List(vec![one.clone()]),
            list => list.clone(),
        }) else {
            return None;
        };
        let place = |item: &Atom| match item {
            Atom::Dim(Dim::Int(axis)) => normalize_axis(*axis, site.rank),
            _ => None,
        };
        let axes: Vec<usize> = items.iter().map(place).collect::<Option<_>>()?;
        axes.iter().copied().eq(site.rank - axes.len()..site.rank).then_some(())?;
        let x = self.writer.wide("wide", result, site.param("data").clone(), site.dtype);
        let kept = vec![(Name::new("keepdims"), Atom::Bool(true))];
        let [mean, variance] = MOMENTS.map(|name| {
            let reduced = reduced(name, x.clone(), &axes, kept.clone());
            self.writer.bind(name, result, reduced)
        });
        let [gamma, beta] = [("scale", "gamma"), ("center", "beta")].map(|(flag, name)| {
            let value = site.if_set(flag, name)?;
            Some(self.writer.wide(name, result, value, site.dtype))
        });
        let norm = Normalized { x, mean, variance, gamma, beta, epsilon };
        Some(self.writer.normalized(norm, site.dtype, result))
    }

    /// By given statistics, which are passed on, or by those of the data, which move the running ones.
    fn batch_norm(&mut self, site: &Site, training: bool) -> Option<Expr> {
        let (result, dtype, rank) = (site.result, site.dtype, site.rank);
        let (epsilon, momentum) = (site.float("epsilon")?, site.float("momentum")?);
        let Atom::Dim(Dim::Int(axis)) = site.param("axis") else { return None };
        let axis = normalize_axis(*axis, rank)?;
        let behind = rank - axis - 1;
        let running = ["moving_mean", "moving_var"].map(|name| site.param(name).clone());
        let x = self.writer.wide("wide", result, site.param("data").clone(), dtype);
        let statistics = if training {
            let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
            MOMENTS.map(|name| {
                let reduced = reduced(name, x.clone(), &others, Vec::new());
                self.writer.bind(name, result, reduced)
            })
        } else {
            running.clone().map(|value| self.writer.wide("statistic", result, value, dtype))
        };
        let new = if training {
            let [old_mean, old_variance] = running;
            let [mean, variance] = statistics.clone();
            [(old_mean, mean), (old_variance, variance)]
                .map(|(old, new)| self.moved(site, momentum, old, new))
        } else {
            running
        };
        let [gamma, beta] = [("scale", "gamma"), ("center", "beta")].map(|(flag, name)| {
            let value = self.writer.wide(name, result, site.if_set(flag, name)?, dtype);
            Some(self.writer.stretched(value, behind, result))
        });
        let [mean, variance] = statistics.map(|value| self.writer.stretched(value, behind, result));
        let norm = Normalized { x, mean, variance, gamma, beta, epsilon };
        let normalized = self.writer.normalized(norm, dtype, result);
        let normalized = self.writer.bind("normalized", result, normalized);
        let [mean, variance] = new;
        Some(Expr::Atom(Atom::Tuple(vec![normalized, mean, variance])))
    }

    /// `(1 - momentum) * old + momentum * new`
    fn moved(&mut self, site: &Site, momentum: f64, old: Atom, new: Atom) -> Atom {
        let (result, writer) = (site.result, &mut self.writer);
        let old = writer.wide("running", result, old, site.dtype);
        let [old, new] = [(1.0 - momentum, old), (momentum, new)].map(|(factor, value)| {
            writer.bind("running", result, call("multiply", vec![number(factor), value]))
        });
        let moved = writer.bind("running", result, call("add", vec![old, new]));
        if site.dtype == DType::F64 {
            return moved;
        }
        writer.bind("running", result, astype(moved, site.dtype))
    }
}

/// A reduction over some axes.
fn reduced(name: &str, x: Atom, axes: &[usize], mut attrs: Vec<(Name, Atom)>) -> Expr {
    let axes = axes
        .iter()
        .map(|&axis| Atom::Dim(Dim::Int(i64::try_from(axis).expect("invariant: a rank is small"))));
    attrs.insert(0, (Name::new("axis"), Atom::List(axes.collect())));
    Expr::Call { callee: Callee::Operator(Name::new(name)), args: vec![x], attrs }
}
