//! Products that the threads of a warp form together ([`WarpProduct`]), for tensor cores: each thread holds its part of a block of
//! either factor, and `mma` adds to its sums. The loops stand beside, for devices that have no such units.
//!
//! All threads of a warp must come there. So they are the ones along x, 32 of them, which go through the product wherever they might
//! as well wait for each other; blocks are the same for all of them; and none of them may have stopped before.

use super::threads::Nest;
use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::barriers::are_met;
use relax_tir::warps::{LANES, SEGMENT, TERMS, WarpProduct};
use std::collections::BTreeSet;

/// Behind it stands what tensor cores do.
const IF_CORES: &str = "#if RX_TENSOR_CORES";
/// The same where a thread may stop.
const IF_NEVER: &str = "#if 0 // a thread may stop";

/// The threads of a nest that are warps.
#[derive(Clone, Debug)]
pub(crate) struct Warp {
    /// Along x.
    lane: ScalarId,
    /// Along the other axes.
    others: BTreeSet<ScalarId>,
}

impl Warp {
    /// None where not all threads of a warp come to each product, or there is none.
    pub(super) fn of(program: &TensorProgram, nest: &Nest<'_>) -> Option<Self> {
        let (mut lane, mut others) = (None, BTreeSet::new());
        for (axis, item) in &nest.loops {
            match (*axis, &item.start, &item.stop) {
                (0, TExpr::Int(0), TExpr::Int(LANES)) => lane = Some(item.var),
                _ => _ = others.insert(item.var),
            }
        }
        let lane = lane.filter(|_| nest.waits)?;
        let waiting = with_barriers(program, nest.body);
        let all = nest.loops.iter().map(|(_, item)| item.var);
        let is_met = waiting != nest.body && are_met(&waiting, all).is_ok();
        is_met.then_some(Self { lane, others })
    }

    /// Whether a product is that of the whole warp.
    pub(super) fn forms(&self, product: &WarpProduct) -> bool {
        let is_alike = |(first, (block, _)): (&TExpr, (ScalarId, i64))| {
            let mut alike = true;
            visit(first, &mut |part| match part {
                TExpr::Scalar(var) => alike &= *var == block || self.others.contains(var),
                TExpr::Load { .. } => alike = false,
                _ => {}
            });
            alike
        };
        product.lane == self.lane && product.firsts.iter().zip(product.blocks).all(is_alike)
    }
}

/// Statements with a barrier before each product: where threads could wait for each other, they are all there.
fn with_barriers(program: &TensorProgram, body: &[Stmt]) -> Vec<Stmt> {
    let mut done = Vec::new();
    for stmt in body {
        let mut stmt = stmt.clone();
        if WarpProduct::of(program, &stmt).is_some() {
            done.push(Stmt { kind: StmtKind::Barrier, span: stmt.span });
        } else if let StmtKind::For { body, .. } = &mut stmt.kind {
            *body = with_barriers(program, body);
        } else if let StmtKind::If { then, otherwise, .. } = &mut stmt.kind {
            (*then, *otherwise) = (with_barriers(program, then), with_barriers(program, otherwise));
        }
        done.push(stmt);
    }
    done
}

/// The lines of a function in which a thread may stop: others would wait for it.
pub(super) fn by_loops(lines: &str) -> String {
    lines.replace(IF_CORES, IF_NEVER)
}

impl Printer<'_, '_> {
    /// A product for tensor cores, and the loops that it is; false where it is none.
    pub(crate) fn warp_product(&mut self, stmt: &Stmt) -> bool {
        let Some(warp) = self.cuda.as_ref().and_then(|cuda| cuda.warp.clone()) else {
            return false;
        };
        let is_shared = |tile| self.cuda.as_ref().is_some_and(|cuda| cuda.is_shared(tile));
        let Some(product) = WarpProduct::of(self.program, stmt)
            .filter(|product| warp.forms(product) && product.tiles.into_iter().all(is_shared))
        else {
            return false;
        };
        let StmtKind::For { loops, kind, body } = &stmt.kind else { return false };
        self.line(IF_CORES);
        self.fragments(&product);
        self.line("#else");
        let first = self.lines.len();
        self.for_loop(loops, kind, body);
        // Sums of each element are loops, or compilers take seconds for it.
        let along = format!("for (int64_t {} = 0", self.scalars[&product.along.0]);
        let text = self.lines.split_off(first);
        self.lines.push_str(&text.replace(&along, &format!("_Pragma(\"unroll 1\") {along}")));
        self.line("#endif");
        true
    }

    /// What a thread holds of both factors, and what is added to its sums, 16 terms at a time.
    fn fragments(&mut self, product: &WarpProduct) {
        let (lane, (along, terms)) = (self.scalars[&product.lane].clone(), product.along);
        let (p, sums) = (self.scalars[&along].clone(), self.buffers[&product.sums].clone());
        let held = ["left", "right"].map(|name| self.names.fresh(name));
        let blocks = product.blocks.map(|(var, count)| (self.scalars[&var].clone(), count));
        let [(m, high), (n, wide)] = &blocks;
        let dtype = self.program.buffer(product.tiles[0]).dtype;
        let within = self.learned.clone();
        self.turns(&p, terms, TERMS);
        self.line(&format!("uint32_t {}[{high}][4], {}[{wide}][2];", held[0], held[1]));
        for (at, routine) in ["rx_left", "rx_right"].into_iter().enumerate() {
            let (var, (block, count)) = (product.blocks[at].0, &blocks[at]);
            let tile = self.buffers[&product.tiles[at]].clone();
            let extents = self.extent_names(product.tiles[at]);
            let lines = extents[1].clone();
            self.turns(block, *count, 1);
            self.facts.push();
            let item = Loop { var, start: TExpr::Int(0), stop: TExpr::Int(*count) };
            self.ranges.enter(self.facts, &item);
            let first = self.index(&product.firsts[at]);
            let (turned, segment, line) = match product.turned[at] {
                true => ("_turned", &first, &p),
                false => ("", &p, &first),
            };
            self.line(&format!(
                "{routine}{turned}({}[{block}], &{tile}[({segment} / {SEGMENT} * {lines} + {line}) * {SEGMENT}], \
                 {lines} * {SEGMENT}, {lane});",
                held[at]
            ));
            self.facts.pop();
            self.close();
        }
        self.turns(m, *high, 1);
        self.turns(n, *wide, 1);
        let [left, right] = &held;
        self.line(&format!(
            "rx_mma_{dtype}(&{sums}[({m} * {wide} + {n}) * 4], {left}[{m}], {right}[{n}]);"
        ));
        (0..3).for_each(|_| self.close());
        self.learned = within;
    }

    /// A loop without jumps.
    fn turns(&mut self, var: &str, stop: i64, step: i64) {
        self.line("#pragma unroll");
        self.line(&format!("for (int64_t {var} = 0; {var} < {stop}; {var} += {step}) {{"));
        self.indent += 1;
    }
}
