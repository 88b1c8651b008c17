//! Entries: one thread that runs statements, or a block of threads. What a block does outside of its loops over threads is
//! done by the first thread, and everything that one part wrote is seen by the next.

use crate::printer::Printer;
use crate::stages::Plan;
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::ir::tensor::{Loop, Stmt, StmtKind, TExpr};
use relax_tir::barriers::{are_met, has_barrier};
use relax_tir::index_bounds::assume;
use relax_tir::launches::{has_threads, is_thread_loop, reads, thread_axis};
use std::fmt::Write;

const AXES: [&str; 3] = ["x", "y", "z"];

impl Printer<'_, '_> {
    /// One entry.
    pub(crate) fn stage(&mut self, plan: &Plan<'_>, entry: &str) -> Result<String, String> {
        self.lines.clear();
        self.indent = 1;
        (self.local_bytes, self.workgroup_bytes) = (0, 0);
        self.facts.push();
        for (var, value) in plan.launch.values() {
            self.bind_scalar(var, value);
        }
        self.size = plan.size;
        let body = &plan.launch.body;
        if let ([_, ..], Some(first)) = (plan.launch.blocks.as_slice(), body.first()) {
            self.quote(first);
        }
        for (axis, item) in &plan.launch.blocks {
            self.over_blocks(item, *axis);
        }
        let starts = |stmt: &&Stmt| has_threads(std::slice::from_ref(*stmt));
        if plan.launch.has_threads && body.iter().any(starts) {
            are_met(body.iter().copied(), [])?;
            self.at_block(body);
        } else {
            body.iter().for_each(|stmt| self.stmt(stmt));
        }
        for _ in &plan.launch.blocks {
            self.depth -= 1;
            self.leave(1);
            self.facts.pop();
        }
        self.line("rx_look_for_cut_loops();");
        let [x, y, z] = plan.size;
        self.facts.pop();
        let mut text = format!("@compute @workgroup_size({x}, {y}, {z})\n");
        let _ = writeln!(
            text,
            "fn {entry}(@builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) blocks: vec3<u32>,\n    \
             @builtin(local_invocation_id) thread: vec3<u32>) {{"
        );
        text.push_str(&std::mem::take(&mut self.lines));
        text.push_str("}\n\n");
        Ok(text)
    }

    /// Statements of a block of threads.
    fn at_block(&mut self, statements: &[&Stmt]) {
        for stmt in statements {
            match &stmt.kind {
                StmtKind::Let { var, value } => {
                    if reads(value) {
                        self.refuse("a block reads memory before its threads start");
                    }
                    self.bind_scalar(*var, value);
                }
                StmtKind::Alloc(buffer) => self.alloc_for_block(*buffer),
                StmtKind::For { loops, kind, body } if thread_axis(kind).is_some() => {
                    self.quote(stmt);
                    let axis = thread_axis(kind).unwrap_or(0);
                    self.over_threads(&loops[0], axis, body);
                    self.barrier();
                }
                StmtKind::For { loops, body, .. } if has_threads(std::slice::from_ref(*stmt)) => {
                    self.quote(stmt);
                    self.block_loop(loops, body);
                }
                StmtKind::If { condition, then, otherwise }
                    if has_threads(then) || has_threads(otherwise) =>
                {
                    if reads(condition) {
                        self.refuse("threads start where memory says so");
                    }
                    let text = self.expr(condition, relax_syntax::dtype::DType::Bool);
                    self.line(&format!("if {text} {{"));
                    self.block_body(then, Some(condition));
                    self.line("} else {");
                    self.block_body(otherwise, None);
                    self.line("}");
                }
                StmtKind::Barrier => self.barrier(),
                _ if has_threads(std::slice::from_ref(stmt)) => {
                    self.refuse("threads start within a block of statements");
                }
                _ => self.by_first(stmt),
            }
        }
    }

    fn block_body(&mut self, body: &[Stmt], holds: Option<&TExpr>) {
        self.indent += 1;
        self.facts.push();
        if let Some(condition) = holds {
            assume(&self.ranges, self.facts, condition);
        }
        self.at_block(&body.iter().collect::<Vec<_>>());
        self.facts.pop();
        self.indent -= 1;
    }

    /// A loop that all threads of a block go through together.
    fn block_loop(&mut self, loops: &[Loop], body: &[Stmt]) {
        if loops.iter().any(|item| reads(&item.start) || reads(&item.stop)) {
            self.refuse("threads start as often as memory says");
        }
        self.facts.push();
        let bounds: Vec<(String, String)> =
            loops.iter().map(|item| (self.bound(&item.start), self.bound(&item.stop))).collect();
        for (item, (start, stop)) in loops.iter().zip(bounds) {
            let var = self.scalars[&item.var].clone();
            self.line(&format!("for (var {var} = {start}; {var} < {stop}; {var}++) {{"));
            self.enter(item, start);
        }
        self.indent -= 1;
        self.depth += 1;
        self.block_body(body, None);
        self.depth -= 1;
        self.indent += 1;
        self.leave(loops.len());
        self.facts.pop();
    }

    /// What no loop over threads is around, is done once.
    fn by_first(&mut self, stmt: &Stmt) {
        self.line("if all(thread == vec3<u32>(0u, 0u, 0u)) {");
        self.indent += 1;
        self.stmt(stmt);
        self.leave(1);
        self.barrier();
    }

    /// A loop over blocks, in turns where there are more iterations than blocks; it is closed by whoever opened it.
    fn over_blocks(&mut self, item: &Loop, axis: usize) {
        self.facts.push();
        let (start, stop) = (self.bound(&item.start), self.bound(&item.stop));
        let (var, at) = (self.scalars[&item.var].clone(), AXES[axis]);
        self.line(&format!(
            "for (var {var} = {start} + i32(block.{at}); {var} < {stop}; {var} += i32(blocks.{at})) {{"
        ));
        self.enter(item, start);
        self.depth += 1;
    }

    /// The outermost loop over threads of a part. Threads of axes that it has not do nothing, which they may only where nobody
    /// waits.
    fn over_threads(&mut self, item: &Loop, axis: usize, body: &[Stmt]) {
        let mut used = [false; 3];
        used[axis] = true;
        visit_statements(body, &mut |stmt| {
            if let StmtKind::For { kind, .. } = &stmt.kind
                && let Some(axis) = thread_axis(kind)
            {
                used[axis] = true;
            }
        });
        let idle: Vec<String> = (0..3)
            .filter(|&axis| !used[axis] && self.size[axis] > 1)
            .map(|axis| format!("thread.{} == 0u", AXES[axis]))
            .collect();
        let waits = has_barrier(body);
        if idle.is_empty() {
            self.thread_loop(item, axis, body, waits);
            return;
        }
        if waits {
            self.refuse("a barrier is not reached by all threads of a block");
        }
        self.line(&format!("if {} {{", idle.join(" && ")));
        self.indent += 1;
        self.thread_loop(item, axis, body, waits);
        self.leave(1);
    }

    /// A loop over threads within another one.
    pub(crate) fn inner_threads(&mut self, loops: &[Loop], axis: usize, body: &[Stmt]) {
        self.thread_loop(&loops[0], axis, body, has_barrier(body));
    }

    fn thread_loop(&mut self, item: &Loop, axis: usize, body: &[Stmt], waits: bool) {
        let alone = |stmt: &Stmt| {
            is_thread_loop(stmt) || matches!(stmt.kind, StmtKind::Let { .. } | StmtKind::Barrier)
        };
        if has_threads(body) && !body.iter().all(alone) {
            self.refuse("a thread does something beside starting others");
        }
        self.facts.push();
        let (start, stop) = (self.bound(&item.start), self.bound(&item.stop));
        let (var, at, size) = (self.scalars[&item.var].clone(), AXES[axis], self.size[axis]);
        if waits {
            let exact = match (&item.start, &item.stop) {
                (TExpr::Int(start), TExpr::Int(stop)) => stop.checked_sub(*start) == Some(size),
                _ => false,
            };
            if !exact {
                self.refuse("a barrier is not reached by all threads of a block");
            }
            self.line("{");
            self.enter(item, start.clone());
            self.line(&format!("let {var} = {start} + i32(thread.{at});"));
        } else {
            self.line(&format!(
                "for (var {var} = {start} + i32(thread.{at}); {var} < {stop}; {var} += {size}i) {{"
            ));
            self.enter(item, start);
        }
        self.depth += 1;
        self.body(body);
        self.depth -= 1;
        self.leave(1);
        self.facts.pop();
    }
}
