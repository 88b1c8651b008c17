//! What all threads of a block run alike, and who does what: a nest of `threadIdx` loops is shared among them, other
//! stores are the first thread's, scalars are everyone's. In between they meet, where memory was touched, so that
//! one statement has ended before the next one begins.

use super::Place;
use super::copies::loaded_by_warps;
use super::cores::Warp;
use super::groups::Group;
use super::meetings::parted;
use super::threads::{allocates, thread_loops};
use crate::printer::Printer;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{Loop, Stmt, StmtKind, TExpr};
use relax_tir::index_bounds::{assume, assume_not};
use relax_tir::launches::{has_threads, reads, thread_axis};

const AXES: [&str; 3] = ["x", "y", "z"];

impl Printer<'_, '_> {
    /// The statements of one function.
    pub(crate) fn group(&mut self, group: &Group<'_>) {
        for stmt in &group.launch.scalars {
            if let StmtKind::Let { value, .. } = &stmt.kind {
                self.learn_count(value);
            }
            self.stmt(stmt);
        }
        for (axis, item) in &group.launch.blocks {
            let (first, step) =
                (format!("blockIdx.{}", AXES[*axis]), format!("gridDim.{}", AXES[*axis]));
            self.shared_loop(item, &first, Some(&step));
        }
        let body = &group.launch.body;
        let statements: Vec<Stmt> = body.iter().map(|stmt| (*stmt).clone()).collect();
        let opened = group.launch.blocks.len();
        self.cuda().place = Place::Thread;
        if group.is_alone {
            self.body(&statements);
        } else {
            self.cuda().place = Place::Block;
            // The memory of a block is used again when it takes its next turn.
            self.cuda().dirty = opened > 0 && allocates(body);
            self.cuda().is_only_nest = group.nests == 1;
            self.block_body(&statements);
        }
        self.cuda().place = Place::Program;
        for _ in 0..opened {
            self.close();
            self.facts.pop();
        }
    }

    /// A loop whose iterations are dealt out, without a step as many as there are to get one; it is closed by whoever opened it.
    fn shared_loop(&mut self, item: &Loop, first: &str, step: Option<&str>) {
        let (start, stop) = (self.bound(&item.start, "start"), self.bound(&item.stop, "stop"));
        let var = self.scalars[&item.var].clone();
        let from =
            if start == "0" { first.to_owned() } else { format!("{start} + (int64_t){first}") };
        let opened = match step {
            Some(step) => {
                format!("for (int64_t {var} = {from}; {var} < {stop}; {var} += {step}) {{")
            }
            None => "{".to_owned(),
        };
        self.line(&opened);
        self.indent += 1;
        if step.is_none() {
            self.line(&format!("const int64_t {var} = {from};"));
        }
        self.facts.push();
        self.ranges.enter(self.facts, item);
        self.learn_few(item);
        self.sources.bind_loop(item);
        self.starts.insert(item.var, start);
    }

    /// Blocks are no more than elements: where that is proved of their number as a whole, it is plain of each.
    fn learn_few(&mut self, item: &Loop) {
        let stop = self.ranges.dim(&item.stop).filter(|stop| !matches!(stop, Dim::Int(_)));
        let few = Dim::Int(super::call::MOST);
        if self.proves(stop, Relation::AtMost, Some(few.clone()))
            && let Some(var) = self.ranges.dim(&TExpr::Scalar(item.var))
        {
            self.facts.assume(Claim::new(var, Relation::Less, few));
        }
    }

    /// A product of numbers of tiles is no more than that of the extents, of which each tile has a part: `-(-a // c) <= a`.
    fn learn_count(&mut self, value: &TExpr) {
        let Some(count) = self.ranges.dim(value) else { return };
        if !matches!(count, Dim::Op(DimOp::Mul, _)) {
            return;
        }
        if let Some(most) = self.most_of(&count) {
            self.facts.assume(Claim::new(0, Relation::AtMost, count.clone()));
            self.facts.assume(Claim::new(count, Relation::AtMost, most));
        }
    }

    /// What a number is at most that is made so that it is not negative: without its quotients.
    fn most_of(&mut self, dim: &Dim) -> Option<Dim> {
        let Dim::Op(op, both) = dim else {
            let is_extent = self.proves(Some(Dim::Int(0)), Relation::AtMost, Some(dim.clone()));
            return is_extent.then(|| dim.clone());
        };
        match (op, &both.0, &both.1) {
            (DimOp::Mul, a, b) => Some(Dim::op(DimOp::Mul, self.most_of(a)?, self.most_of(b)?)),
            (DimOp::FloorDiv, a, Dim::Int(1..)) => self.most_of(a),
            (DimOp::FloorMod, _, Dim::Int(divisor @ 1..)) => Some(Dim::Int(divisor - 1)),
            (DimOp::Min, a, Dim::Int(most @ 0..)) => self.most_of(a).map(|_| Dim::Int(*most)),
            (DimOp::Min, a, b) => self.most_of(b).and_then(|_| self.most_of(a)),
            // Of a number that is 0 or 1.
            (DimOp::Sub, Dim::Int(1), of) => self.most_of(of).filter(|most| *most == Dim::Int(1)),
            (DimOp::Sub, Dim::Int(0), Dim::Op(DimOp::FloorDiv, ceiling)) => {
                match (&ceiling.0, &ceiling.1) {
                    (Dim::Op(DimOp::Sub, of), Dim::Int(1..)) if of.0 == Dim::Int(0) => {
                        self.most_of(&of.1)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn block_body(&mut self, statements: &[Stmt]) {
        self.facts.push();
        let within = self.learned.clone();
        let mut rest = statements;
        while let [stmt, after @ ..] = rest {
            self.span = stmt.span;
            let alone = rest.iter().take_while(|stmt| is_of_one(stmt)).count();
            if alone > 0 {
                self.first_thread(&rest[..alone]);
                rest = &rest[alone..];
            } else {
                self.block_stmt(stmt);
                rest = after;
            }
        }
        self.learned = within;
        self.facts.pop();
    }

    fn block_stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Let { value, .. } => {
                self.everyone_reads(&[value]);
                self.stmt(stmt);
            }
            StmtKind::Alloc(_) => self.stmt(stmt),
            StmtKind::For { kind, .. } if thread_axis(kind).is_some() => self.nest(stmt),
            StmtKind::For { loops, body, .. } => self.block_loop(loops, body),
            StmtKind::If { condition, then, otherwise } => {
                self.everyone_reads(&[condition]);
                self.block_branch(condition, then, otherwise);
            }
            _ => {
                self.cuda()
                    .refused
                    .get_or_insert_with(|| "threads start in a block of statements".to_owned());
            }
        }
    }

    /// All threads meet, if memory was touched since they last did.
    fn meet(&mut self) {
        if std::mem::take(&mut self.cuda().dirty) {
            self.line("__syncthreads();");
        }
    }

    /// What everyone evaluates must have been written, and nobody may write there before all have.
    fn everyone_reads(&mut self, values: &[&TExpr]) {
        if values.iter().any(|value| reads(value)) {
            self.meet();
            self.cuda().dirty = true;
        }
    }

    fn first_thread(&mut self, statements: &[Stmt]) {
        self.meet();
        self.line("if (rx_thread() == 0) {");
        self.cuda().place = Place::Thread;
        self.nested(statements);
        self.cuda().place = Place::Block;
        self.line("}");
        self.cuda().dirty = true;
    }

    fn block_loop(&mut self, loops: &[Loop], body: &[Stmt]) {
        let bounds: Vec<&TExpr> = loops.iter().flat_map(|item| [&item.start, &item.stop]).collect();
        self.everyone_reads(&bounds);
        // All bounds are computed before the first loop is entered.
        let bounds: Vec<(String, String)> = loops
            .iter()
            .map(|item| (self.bound(&item.start, "start"), self.bound(&item.stop, "stop")))
            .collect();
        self.facts.push();
        for (item, (start, stop)) in loops.iter().zip(bounds) {
            let var = self.scalars[&item.var].clone();
            self.line(&format!("for (int64_t {var} = {start}; {var} < {stop}; {var}++) {{"));
            self.indent += 1;
            self.ranges.enter(self.facts, item);
            self.sources.bind_loop(item);
            self.starts.insert(item.var, start);
        }
        // As the iteration before left it.
        self.cuda().dirty = true;
        self.block_body(body);
        loops.iter().for_each(|_| self.close());
        self.facts.pop();
        self.cuda().dirty = true;
    }

    fn block_branch(&mut self, condition: &TExpr, then: &[Stmt], otherwise: &[Stmt]) {
        let text = self.expr(condition, relax_syntax::dtype::DType::Bool);
        let dirty = self.cuda().dirty;
        self.line(&format!("if ({text}) {{"));
        self.facts.push();
        assume(&self.ranges, self.facts, condition);
        self.indent += 1;
        self.block_body(then);
        self.indent -= 1;
        self.facts.pop();
        self.cuda().dirty = dirty;
        self.line("} else {");
        self.facts.push();
        assume_not(&self.ranges, self.facts, condition);
        self.indent += 1;
        self.block_body(otherwise);
        self.indent -= 1;
        self.facts.pop();
        self.line("}");
        self.cuda().dirty = true;
    }

    /// Loops over threads, in turns where there are more iterations than threads. Threads that wait for each other
    /// are as many as there are iterations.
    fn nest(&mut self, stmt: &Stmt) {
        let Some(nest) = thread_loops(stmt) else { return };
        self.meet();
        for (axis, item) in &nest.loops {
            let (first, step) =
                (format!("threadIdx.{}", AXES[*axis]), format!("blockDim.{}", AXES[*axis]));
            // Threads that wait for each other are as many as there are iterations, and one where there are none.
            let is_sure =
                nest.waits && matches!((&item.start, &item.stop), (TExpr::Int(0), TExpr::Int(1..)));
            self.shared_loop(item, &first, Some(step.as_str()).filter(|_| !is_sure));
        }
        self.others_rest(&nest.loops);
        self.cuda().place = Place::Thread;
        let warp = Warp::of(self.program, &nest);
        self.cuda().copies = loaded_by_warps(self.program, nest.body, warp.as_ref());
        self.cuda().warp = warp;
        let parts = match self.cuda().is_only_nest {
            true => parted(self.program, &nest),
            false => vec![nest.body],
        };
        self.parts(&parts, "__syncwarp();");
        self.wait_for_copies();
        self.cuda().copies.clear();
        self.cuda().warp = None;
        self.cuda().place = Place::Block;
        for _ in &nest.loops {
            self.close();
            self.facts.pop();
        }
        self.cuda().dirty = true;
    }

    /// A nest of fewer axes than the block has is for threads that are the first along the others.
    fn others_rest(&mut self, loops: &[(usize, &Loop)]) {
        let others: Vec<String> = (0..AXES.len())
            .filter(|axis| self.cuda.as_ref().is_some_and(|cuda| cuda.axes[*axis]))
            .filter(|axis| loops.iter().all(|(own, _)| own != axis))
            .map(|axis| format!("threadIdx.{} != 0", AXES[axis]))
            .collect();
        if !others.is_empty() {
            self.line(&format!("if ({}) continue;", others.join(" || ")));
        }
    }
}

/// Whether a statement is done by one thread.
fn is_of_one(stmt: &Stmt) -> bool {
    !matches!(stmt.kind, StmtKind::Let { .. } | StmtKind::Alloc(_))
        && !has_threads(std::slice::from_ref(stmt))
}
