//! Vertical fusion of two batched matrix products with row reductions between them: attention that is written out as a product,
//! scale, mask, softmax and a product becomes one tensor program. `block_rows` then needs a workspace of some rows of scores only
//! (Dao et al. 2022, §3.1), as it does for the operator.
//!
//! The pattern is one of loops and accesses, not of operators. From one product to the other every call goes through the same
//! rows, and reads what a call before it gives at its own row. So layouts, scales, masks and the way in which softmax is
//! written make no difference. Nothing is computed otherwise: the bits are the same.
//!
//! Threads share the batch of such a program and not its rows. Both products must therefore multiply matrices of each batch,
//! which excludes layers with weights. On a device threads share rows, and this pass does nothing.

use super::fuse_ops::{Graph, Group, grouped, may_be_one};
use super::stitch_rows::{Call, Programs, calls, share_rows};
use crate::pass::{Device, Exactness, Pass, PassContext};
use crate::tir_call::TirCall;
use relax_semantics::check::Phase;
use relax_semantics::tir::walk::{accesses, stored};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{BufferId, ScalarId, TExpr};
use relax_syntax::ir::{Atom, Block, Definition, Module, TensorProgram};
use relax_tir::kernel_kind::{Analysis, KernelKind, Rows};
use relax_tir::products::{SumOfProducts, mentions};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "stitch_products",
    doc: "Groups calls of tensor programs from a batched matrix product through row reductions to the product that reads \
          their rows, as in attention, into private functions marked primitive. On the processor.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Rows of a block of `block_rows`, so that fewer are worth no fusion: several register tiles high, and small enough for a block of
/// some thousand columns to stay in a cache.
pub const BLOCK_ROWS: i64 = 64;

/// Why calls between two products stay apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missed {
    Batch,
    FewRows,
    UsedElsewhere,
    OtherRows,
    MayTrap,
}

impl Missed {
    const ALL: [Missed; 5] =
        [Missed::Batch, Missed::FewRows, Missed::UsedElsewhere, Missed::OtherRows, Missed::MayTrap];

    fn text(self) -> &'static str {
        match self {
            Missed::Batch => "pairs: both products need a matrix for each batch",
            Missed::FewRows => "pairs: they have no more than 64 rows",
            Missed::UsedElsewhere => "pairs: a value between the products is used elsewhere",
            Missed::OtherRows => {
                "pairs: a call between the products is no tensor program that goes through their rows"
            }
            Missed::MayTrap => "pairs: a trap would change places with another",
        }
    }
}

/// Ranks of operands whose rows are looked for: of a batch of matrices at the least.
const AXES: std::ops::RangeInclusive<usize> = 2..=5;

/// The tensor programs of a module.
struct Known<'m> {
    programs: BTreeMap<&'m Name, &'m TensorProgram>,
    /// Those that go through rows, by how many loops count these.
    by_axes: BTreeMap<usize, Programs<'m>>,
    /// Those that do more than to move and map elements.
    reductions: BTreeSet<&'m Name>,
}

impl<'m> Known<'m> {
    fn of(module: &'m Module) -> Self {
        let programs = module.definitions.iter().filter_map(|definition| match definition {
            Definition::Tensor(program) => Some((&program.name, program)),
            Definition::Graph(_) => None,
        });
        let programs: BTreeMap<&Name, &TensorProgram> = programs.collect();
        let by_axes = AXES.map(|axes| {
            let rows = |program: &'m TensorProgram| Some((program, Rows::along(program, axes)?));
            let all = programs.iter().filter_map(|(name, program)| Some((*name, rows(program)?)));
            (axes, all.collect())
        });
        let by_axes = by_axes.collect();
        let reduces = |program: &TensorProgram| Analysis::of(program).kind > KernelKind::Injective;
        let reductions = programs.iter().filter(|(_, program)| reduces(program));
        let reductions = reductions.map(|(name, _)| *name).collect();
        Self { programs, by_axes, reductions }
    }
}

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    if context.settings.device != Device::Cpu {
        return Ok(module.clone());
    }
    let programs = Known::of(module);
    let (pairs, missed) = (RefCell::new(0), RefCell::new(Vec::new()));
    let result = grouped(module, context, "stitched", &|block, graph, never_stop| {
        let search = Search::of(block, graph, never_stop, &programs);
        let (groups, left) = search.groups();
        *pairs.borrow_mut() += groups.len();
        // A block is searched until no group is left: the last search tells what stays.
        if groups.is_empty() {
            missed.borrow_mut().extend(left);
        }
        groups
    });
    let (pairs, missed) = (pairs.into_inner(), missed.into_inner());
    context.count_of("joined", pairs, pairs + missed.len(), "pairs of products");
    for reason in Missed::ALL {
        let count = missed.iter().filter(|&&own| own == reason).count();
        if count > 0 {
            context.count("left", count, reason.text());
        }
    }
    Ok(result)
}

/// A block whose pairs of products are looked for.
struct Search<'b> {
    graph: &'b Graph,
    never_stop: &'b [bool],
    /// Calls that go through rows, by how many loops count these.
    calls: BTreeMap<usize, Vec<Option<Call<'b>>>>,
    /// Calls of programs with one sum of products.
    products: BTreeMap<usize, Product<'b>>,
    /// Calls that do more than to move and map elements.
    reductions: BTreeSet<usize>,
}

impl<'b> Search<'b> {
    fn of(block: &'b Block, graph: &'b Graph, never_stop: &'b [bool], known: &'b Known) -> Self {
        let places = block.bindings.iter().enumerate().map(|(at, binding)| (binding.var, at));
        let places: BTreeMap<_, _> = places.collect();
        let product = |at: usize| {
            let call = TirCall::of(&block.bindings[at].expr)?;
            let program = known.programs.get(call.program)?;
            let args = call.args.iter().zip(program.buffer_params());
            let args = args.filter_map(|(arg, buffer)| {
                let Atom::Var(var) = arg else { return None };
                Some((buffer, *places.get(var)?))
            });
            Product::of(program, args.collect())
        };
        let products = (0..block.bindings.len()).filter_map(|at| Some((at, product(at)?)));
        let calls = known.by_axes.iter().map(|(axes, programs)| (*axes, calls(block, programs)));
        let reduces = |at: &usize| {
            let call = TirCall::of(&block.bindings[*at].expr);
            call.is_some_and(|call| known.reductions.contains(call.program))
        };
        Self {
            graph,
            never_stop,
            calls: calls.collect(),
            products: products.collect(),
            reductions: (0..block.bindings.len()).filter(reduces).collect(),
        }
    }

    /// Disjoint groups, and why other pairs of products stay apart.
    fn groups(&self) -> (Vec<Group>, Vec<Missed>) {
        let (mut groups, mut missed): (Vec<Group>, _) = (Vec::new(), Vec::new());
        for (&last, product) in self.products.iter().rev() {
            let Some((first, group, axes)) = self.before(last, product) else { continue };
            if groups.iter().any(|other| !other.is_disjoint(&group)) {
                continue;
            }
            // A layer with weights is no pair.
            if axes > 1 && !product.is_batched(axes) {
                continue;
            }
            match self.fits(first, last, &group, axes) {
                Ok(()) => groups.push(group),
                Err(reason) => missed.push(reason),
            }
        }
        groups.reverse();
        (groups, missed)
    }

    /// The product whose rows another one multiplies by a matrix, with everything between them, and how many loops count rows.
    /// `None` if there is none, or nothing between them reduces.
    fn before(&self, last: usize, product: &Product) -> Option<(usize, Group, usize)> {
        product.row_factors.iter().find_map(|&(ref operands, axes)| {
            // Everything that the factor is made of, up to the next products.
            let (mut reached, mut work) = (BTreeSet::new(), operands.clone());
            let mut firsts = Vec::new();
            while let Some(at) = work.pop() {
                if self.products.contains_key(&at) {
                    firsts.push(at);
                } else if reached.insert(at) {
                    work.extend(self.graph.operands(at));
                }
            }
            let first = firsts.into_iter().max()?;
            // Of that, what is made of the product.
            let mut group = Group::from([first]);
            for at in reached {
                if self.graph.operands(at).any(|operand| group.contains(&operand)) {
                    group.insert(at);
                }
            }
            let mut between = group.iter().filter(|&&at| at != first);
            between.any(|at| self.reductions.contains(at)).then(|| {
                group.insert(last);
                (first, group, axes)
            })
        })
    }

    fn fits(&self, first: usize, last: usize, group: &Group, axes: usize) -> Result<(), Missed> {
        let calls = self.calls.get(&axes).map(Vec::as_slice).unwrap_or_default();
        if axes > 1 && !share_rows(calls, group, Some(axes)) {
            return Err(Missed::OtherRows);
        }
        let ends = [&self.products[&first], &self.products[&last]];
        if !ends.iter().all(|product| product.is_batched(axes)) {
            return Err(Missed::Batch);
        }
        let rows = calls[last].as_ref().and_then(|call| call.rows.get(axes - 1));
        if let Some(Dim::Int(..=BLOCK_ROWS)) = rows {
            return Err(Missed::FewRows);
        }
        let stays = |&at: &usize| at == last || self.graph.is_used_within(at, group);
        if !group.iter().all(stays) {
            return Err(Missed::UsedElsewhere);
        }
        if !may_be_one(self.never_stop, group, &|_| true) {
            return Err(Missed::MayTrap);
        }
        Ok(())
    }
}

/// A call of a program with one sum of products.
struct Product<'b> {
    sum: SumOfProducts<'b>,
    /// Of each factor `W[…, i, j]`, where `j` is what is summed over, the bindings that it is made of, and how many loops stand
    /// before `j`.
    row_factors: Vec<(Vec<usize>, usize)>,
}

impl<'b> Product<'b> {
    /// `args` are the bindings that parameters are passed.
    fn of(program: &'b TensorProgram, args: BTreeMap<BufferId, usize>) -> Option<Self> {
        let body = program.body.as_ref()?;
        let mut sums = body.iter().filter_map(|stmt| SumOfProducts::of(program, stmt));
        let sum = sums.next()?;
        if sums.next().is_some() {
            return None;
        }
        let own = sum.row_factors().filter(|factor| {
            let loops = sum.loops.iter().map(|item| TExpr::Scalar(item.var));
            loops.zip(&factor.indices[..factor.indices.len() - 1]).all(|(var, index)| var == *index)
        });
        // A factor that is computed first is what it is computed from.
        let made_of = |buffer: BufferId| -> Vec<usize> {
            if let Some(&place) = args.get(&buffer) {
                return vec![place];
            }
            let mut read = BTreeSet::new();
            for stmt in body {
                let stmt = std::slice::from_ref(stmt);
                if stored(stmt).contains(&buffer) {
                    accesses(stmt, &mut |other, _, _| _ = read.insert(other));
                }
            }
            read.iter().filter_map(|other| args.get(other).copied()).collect()
        };
        let row_factors =
            own.map(|factor| (made_of(factor.buffer), factor.indices.len() - 1)).collect();
        Some(Self { sum, row_factors })
    }

    /// Whether both factors are other ones for each batch: threads have something to share.
    fn is_batched(&self, axes: usize) -> bool {
        let batch = self.sum.loops.iter().take(axes - 1);
        let batch = batch.filter(|item| item.stop != TExpr::Int(1)).map(|item| item.var);
        let batch: Vec<ScalarId> = batch.collect();
        let depends = |factor: &&TExpr| {
            let factor = std::slice::from_ref(*factor);
            batch.iter().any(|var| mentions(factor, *var))
        };
        self.sum.factors.iter().all(depends)
    }
}
