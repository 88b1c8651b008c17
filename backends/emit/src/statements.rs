//! Statements as C, in the order of the text.

use crate::checks::Elided;
use crate::dtypes::{held, is_half};
use crate::message::Message;
use crate::printer::Printer;
use relax_runtime::program::Numerics;
use relax_semantics::tir::reductions;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{
    Axis, AxisKind, BinOp, BufferId, Loop, LoopKind, Stmt, StmtKind, TExpr,
};
use relax_tir::index_bounds::{assume, assume_not};
use relax_tir::unique_bindings::are_same_but_names;

/// The text of a value, or of the factors of a product that a device adds to an f32 sum with one rounding, where sums may
/// be rounded otherwise.
pub(crate) enum Term {
    Value(String),
    Product(Factors),
}

pub(crate) struct Factors(String, String);

impl Factors {
    pub(crate) fn added_to(&self, sum: &str) -> String {
        format!("fmaf({}, {}, {sum})", self.0, self.1)
    }
}

impl Printer<'_, '_> {
    /// Statements of one body; what they make known is forgotten after it.
    pub(crate) fn body(&mut self, statements: &[Stmt]) {
        self.parts(&[statements], "");
    }

    /// The same with a line between parts of it.
    pub(crate) fn parts(&mut self, parts: &[&[Stmt]], between: &str) {
        self.facts.push();
        let within = self.learned.clone();
        let (replaced, shared) = (self.replaced.len(), self.shared.len());
        for (at, mut rest) in parts.iter().copied().enumerate() {
            if at > 0 {
                self.line(between);
            }
            while let [stmt, after @ ..] = rest {
                self.span = stmt.span;
                rest = after;
                self.take_steps(stmt);
                match after {
                    [next, later @ ..] if self.shares(stmt, next) => {
                        // It has the bounds of the first loop.
                        self.take_steps(next);
                        rest = later;
                    }
                    _ => self.stmt(stmt),
                }
            }
        }
        self.replaced.truncate(replaced);
        self.shared.truncate(shared);
        self.learned = within;
        self.facts.pop();
    }

    pub(crate) fn nested(&mut self, statements: &[Stmt]) {
        self.indent += 1;
        self.body(statements);
        self.indent -= 1;
    }

    pub(crate) fn stmt(&mut self, stmt: &Stmt) {
        let guarded = self.is_guarded;
        // The condition around a loop is none of the loop's own.
        self.is_guarded &= !matches!(stmt.kind, StmtKind::For { .. });
        self.print_stmt(stmt);
        self.is_guarded = guarded;
    }

    fn print_stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { .. }
                if self.sums == Numerics::Reassociated
                    && !self.takes_steps_within(stmt)
                    && (self.multiply(stmt) || self.rounded(stmt) || self.fill(stmt)) => {}
            StmtKind::For { kind: LoopKind::Parallel, .. } if self.parallel_loop(stmt) => {}
            StmtKind::For { loops, kind, body } if self.vector_loop(kind, loops, body) => {}
            StmtKind::For { .. } if self.warp_product(stmt) => {}
            StmtKind::For { loops, kind, body } => self.for_loop(loops, kind, body),
            StmtKind::Block { axes, init, body, .. } => self.block(axes, init, body),
            StmtKind::Store { buffer, indices, update, value } => {
                self.store(*buffer, indices, *update, value);
            }
            StmtKind::Let { var, value } => {
                let dtype = self.typing.dtype(value);
                let text = self.expr(value, dtype);
                let name = self.scalars[var].clone();
                self.line(&format!("const {} {name} = {text};", held(dtype)));
                self.share(held(dtype), &name);
                match dtype {
                    DType::I64 => self.ranges.bind_data(*var, value),
                    _ => self.ranges.bind(*var, value),
                }
                self.sources.bind(*var, value);
            }
            StmtKind::If { condition, then, otherwise } => {
                self.branch(condition, then, otherwise);
            }
            StmtKind::Alloc(buffer) => self.alloc(*buffer),
            StmtKind::Barrier if self.is_cuda() => {
                self.wait_for_copies();
                self.line("__syncthreads();");
            }
            StmtKind::Barrier => unreachable!("invariant: programs with barriers are left out"),
            StmtKind::Check(check) => {
                let holds = self.expr(&check.condition, DType::Bool);
                let values = check.values.iter().map(|value| self.index(value)).collect();
                let message = Message::with(check.message.clone(), values);
                self.counted(Elided::No);
                self.stop_if(&format!("!({holds})"), check.trap.clone(), message);
                assume(&self.ranges, self.facts, &check.condition);
            }
        }
    }

    fn store(&mut self, buffer: BufferId, indices: &[TExpr], update: Option<BinOp>, value: &TExpr) {
        let dtype = self.program.buffer(buffer).dtype;
        let values = self.indices(indices);
        let term = self.term(update, dtype, value);
        let at = self.element(buffer, indices, values);
        let mut text = match (term, update) {
            (Term::Value(text), _) if self.forwarded.contains(&buffer) => {
                let name = self.temporary(held(dtype), &text);
                self.replaced.push(TExpr::Load { buffer, indices: indices.to_vec() }, name);
                return;
            }
            (Term::Value(text), None) => text,
            (Term::Value(text), Some(op)) => {
                let old = self.load(buffer, &at);
                self.operation(op, dtype, &old, &text)
            }
            (Term::Product(factors), _) => factors.added_to(&self.load(buffer, &at)),
        };
        if is_half(dtype) {
            text = format!("rx_{dtype}_of_f32({text})");
        }
        if let Some(lane) = self.cuda.as_ref().and_then(|cuda| cuda.lanes.get(&buffer)).cloned() {
            self.line(&format!("{lane} = {text};"));
            return;
        }
        if self.is_copied(buffer) {
            // A copy to the same element may be under way.
            self.wait_for_copies();
        }
        let name = self.buffers[&buffer].clone();
        self.line(&format!("{name}[{at}] = {text};"));
        if let Some(map) = self.watched.get(&buffer).cloned() {
            self.line(&format!("{map}[{at}] = 1;"));
        }
    }

    /// What is stored, or combined with what is there.
    pub(crate) fn term(&mut self, update: Option<BinOp>, dtype: DType, value: &TExpr) -> Term {
        let is_free = self.cuda.as_ref().is_some_and(|cuda| cuda.contracts);
        match value {
            TExpr::Binary(BinOp::Mul, both)
                if is_free && update == Some(BinOp::Add) && dtype == DType::F32 =>
            {
                let [a, b] = [&both.0, &both.1].map(|factor| self.expr(factor, dtype));
                Term::Product(Factors(a, b))
            }
            value => Term::Value(self.expr(value, dtype)),
        }
    }

    fn branch(&mut self, condition: &TExpr, then: &[Stmt], otherwise: &[Stmt]) {
        let text = self.expr(condition, DType::Bool);
        self.line(&format!("if ({text}) {{"));
        self.facts.push();
        assume(&self.ranges, self.facts, condition);
        let guarded = std::mem::replace(&mut self.is_guarded, self.cuda.is_none());
        self.nested(then);
        self.facts.pop();
        if !otherwise.is_empty() {
            self.line("} else {");
            self.facts.push();
            assume_not(&self.ranges, self.facts, condition);
            let outer = self.is_out_of_range;
            // Loop versions: the second one is for what is out of range.
            self.is_out_of_range |= are_same_but_names(then, otherwise);
            self.nested(otherwise);
            self.is_out_of_range = outer;
            self.facts.pop();
        }
        self.line("}");
        self.is_guarded = guarded;
    }

    /// All bounds are computed before the first loop is entered: they cannot use its variables.
    pub(crate) fn for_loop(&mut self, loops: &[Loop], kind: &LoopKind, body: &[Stmt]) {
        self.facts.push();
        let (within, shared) = (self.learned.clone(), self.shared.len());
        let divisors = self.divisors.len();
        let bounds: Vec<(String, String)> = loops
            .iter()
            .map(|item| {
                let start = self.bound(&item.start, "start");
                (start, self.bound(&item.stop, "stop"))
            })
            .collect();
        let mut opened = 0;
        for (at, (item, bound)) in loops.iter().zip(bounds).enumerate() {
            if at + 1 == loops.len() {
                if self.accumulate(item, &bound, body) {
                    break;
                }
                if self.guarded_loop(item, &bound, body) {
                    break;
                }
                self.name_divisors(item, body);
                if self.write_past(item, &bound, body) {
                    break;
                }
            }
            let (start, stop) = bound;
            let var = self.scalars[&item.var].clone();
            if self.is_cuda() && *kind == LoopKind::Unroll {
                // What is indexed by it can be in registers.
                self.line("#pragma unroll");
            }
            self.line(&format!("for (int64_t {var} = {start}; {var} < {stop}; {var}++) {{"));
            self.share("int64_t", &var);
            self.indent += 1;
            opened += 1;
            self.ranges.enter(self.facts, item);
            self.sources.bind_loop(item);
            self.starts.insert(item.var, start);
        }
        if opened == loops.len() {
            self.body(body);
        }
        for _ in 0..opened {
            self.close();
        }
        self.shared.truncate(shared);
        self.divisors.truncate(divisors);
        self.learned = within;
        self.facts.pop();
    }

    pub(crate) fn bound(&mut self, expr: &TExpr, wish: &str) -> String {
        let text = self.index(expr);
        if matches!(expr, TExpr::Int(_) | TExpr::Dim(_) | TExpr::Scalar(_)) {
            return text;
        }
        let name = self.names.fresh(wish);
        self.line(&format!("const int64_t {name} = {text};"));
        self.share("int64_t", &name);
        name
    }

    fn block(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        self.facts.push();
        let within = self.learned.clone();
        for axis in axes {
            self.axis(axis);
        }
        if !init.is_empty() {
            self.init(axes, init, body);
        }
        self.sources.bind_axes(axes);
        self.body(body);
        self.learned = within;
        self.facts.pop();
    }

    fn init(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        let firsts: Vec<String> = if axes.is_empty() {
            let vars = reductions(&self.sources, init, body);
            vars.iter()
                .map(|var| format!("{} == {}", self.scalars[var], self.starts[var]))
                .collect()
        } else {
            let reduced = axes.iter().filter(|axis| axis.kind == AxisKind::Reduce);
            reduced.map(|axis| format!("{} == 0", self.scalars[&axis.var])).collect()
        };
        let condition = if firsts.is_empty() { "1".to_owned() } else { firsts.join(" && ") };
        self.sources.bind_axes(axes);
        self.line(&format!("if ({condition}) {{"));
        self.nested(init);
        self.line("}");
    }

    fn axis(&mut self, axis: &Axis) {
        let (extent, value) = (self.index(&axis.extent), self.index(&axis.value));
        let name = self.scalars[&axis.var].clone();
        let (low, high) = (self.ranges.dim(&axis.value), self.ranges.dim(&axis.extent));
        let inside = self.proves(Some(Dim::Int(0)), Relation::AtMost, low.clone())
            && self.proves(low, Relation::Less, high.clone());
        self.line(&format!("const int64_t {name} = {value};"));
        self.share("int64_t", &name);
        self.counted(if inside { Elided::Yes } else { Elided::No });
        if !inside {
            let words = format!(
                "the axis `{}` is {{}}, outside of 0..{{}}",
                self.program.scalar(axis.var).name
            );
            let message = Message::with(words, vec![name.clone(), extent.clone()]);
            let condition = format!("{name} < 0 || {name} >= {extent}");
            self.stop_if(&condition, "tir/axis_range", message);
        }
        self.ranges.bind(axis.var, &axis.value);
        if let (Some(own), Some(extent)) = (self.ranges.dim(&TExpr::Scalar(axis.var)), high) {
            self.facts.assume(Claim::new(0, Relation::AtMost, own.clone()));
            self.facts.assume(Claim::new(own, Relation::Less, extent));
        }
    }
}
