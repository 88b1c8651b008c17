//! Entries: one thread that runs statements, or a block of threads. What a block does outside of its loops over threads is
//! done by the first thread, and everything that one part wrote is seen by the next.

use crate::printer::Printer;
use crate::stages::{Plan, block_axis, has_threads, is_thread_loop, reads, thread_axis};
use relax_rewrite::walk::visit_statements;
use relax_syntax::ir::tensor::{Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;
use std::fmt::Write;

const AXES: [&str; 3] = ["x", "y", "z"];

/// Whether a barrier stands among statements, at any depth.
pub(crate) fn has_barrier(statements: &[Stmt]) -> bool {
    let mut found = false;
    visit_statements(statements, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Barrier));
    found
}

impl Printer<'_, '_> {
    /// One entry.
    pub(crate) fn stage(&mut self, plan: &Plan<'_>, entry: &str) -> Result<String, String> {
        self.lines.clear();
        self.indent = 1;
        self.local_bytes = 0;
        self.facts.push();
        for (var, value) in &plan.bound {
            self.bind_scalar(*var, value);
        }
        let size = match &plan.threads {
            None => {
                for stmt in &plan.statements {
                    self.stmt(stmt);
                }
                [1; 3]
            }
            Some(shape) => {
                self.shape = (shape.blocks.map(|item| item.map(|item| item.var)), shape.size);
                check_uniform(&plan.statements)?;
                self.at_block(&plan.statements);
                shape.size
            }
        };
        self.facts.pop();
        let mut text = format!("@compute @workgroup_size({}, {}, {})\n", size[0], size[1], size[2]);
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
                StmtKind::For { loops, kind: LoopKind::Thread(name), body } => {
                    self.quote(stmt);
                    if let Some(axis) = block_axis(name) {
                        self.over_blocks(&loops[0], axis, body);
                    } else if let Some(axis) = thread_axis(name) {
                        self.over_threads(&loops[0], axis, body);
                        self.barrier();
                    }
                }
                StmtKind::For { loops, body, .. } if has_threads(body) => {
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
            self.ranges.assume(self.facts, condition);
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

    fn over_blocks(&mut self, item: &Loop, axis: usize, body: &[Stmt]) {
        let inner = body
            .iter()
            .filter(|stmt| !matches!(stmt.kind, StmtKind::Let { .. } | StmtKind::Alloc(_)));
        let inner: Vec<&Stmt> = inner.collect();
        let has_blocks = |stmt: &&Stmt| {
            let mut found = false;
            visit_statements(std::slice::from_ref(*stmt), &mut |stmt| {
                found |= matches!(&stmt.kind, StmtKind::For { kind: LoopKind::Thread(name), .. } if block_axis(name).is_some());
            });
            found
        };
        if inner.iter().any(has_blocks) && (inner.len() != 1 || !is_thread_loop(inner[0])) {
            self.refuse("blocks start within what a block does");
        }
        self.facts.push();
        let (start, stop) = (self.bound(&item.start), self.bound(&item.stop));
        let (var, at) = (self.scalars[&item.var].clone(), AXES[axis]);
        self.line(&format!(
            "for (var {var} = {start} + i32(block.{at}); {var} < {stop}; {var} += i32(blocks.{at})) {{"
        ));
        self.enter(item, start);
        self.depth += 1;
        if has_threads(body) {
            self.at_block(&body.iter().collect::<Vec<_>>());
        } else {
            self.line("if all(thread == vec3<u32>(0u, 0u, 0u)) {");
            self.nested(body);
            self.line("}");
        }
        self.depth -= 1;
        self.leave(1);
        self.facts.pop();
    }

    /// The outermost loop over threads of a part. Threads of axes that it has not do nothing, which they may only where nobody
    /// waits.
    fn over_threads(&mut self, item: &Loop, axis: usize, body: &[Stmt]) {
        let mut used = [false; 3];
        used[axis] = true;
        visit_statements(body, &mut |stmt| {
            if let StmtKind::For { kind: LoopKind::Thread(name), .. } = &stmt.kind
                && let Some(axis) = thread_axis(name)
            {
                used[axis] = true;
            }
        });
        let idle: Vec<String> = (0..3)
            .filter(|&axis| !used[axis] && self.shape.1[axis] > 1)
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
    pub(crate) fn inner_threads(&mut self, loops: &[Loop], name: &str, body: &[Stmt]) {
        let Some(axis) = thread_axis(name) else { return };
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
        let (var, at, size) = (self.scalars[&item.var].clone(), AXES[axis], self.shape.1[axis]);
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

/// Whether every barrier is reached by all threads of a block: what is around it does not depend on the thread or on memory.
fn check_uniform(statements: &[&Stmt]) -> Result<(), String> {
    let mut varying = BTreeSet::new();
    statements.iter().try_for_each(|stmt| uniform(stmt, &mut varying))
}

fn uniform(stmt: &Stmt, varying: &mut BTreeSet<ScalarId>) -> Result<(), String> {
    let error = || Err("a barrier stands where not all threads of a block may come".to_owned());
    let all = |body: &[Stmt], varying: &mut BTreeSet<ScalarId>| {
        body.iter().try_for_each(|stmt| uniform(stmt, varying))
    };
    match &stmt.kind {
        StmtKind::For { loops, kind, body } => {
            let is_thread = matches!(kind, LoopKind::Thread(name) if thread_axis(name).is_some());
            for item in loops {
                let varies = differs(&item.start, varying) || differs(&item.stop, varying);
                if varies && has_barrier(body) {
                    return error();
                }
                if is_thread || varies {
                    varying.insert(item.var);
                }
            }
            all(body, varying)
        }
        StmtKind::If { condition, then, otherwise } => {
            let waits = has_barrier(then) || has_barrier(otherwise);
            if waits && differs(condition, varying) {
                return error();
            }
            all(then, varying)?;
            all(otherwise, varying)
        }
        StmtKind::Block { axes, init, body, .. } => {
            if has_barrier(init) || has_barrier(body) {
                return Err("a barrier stands in a block of statements".to_owned());
            }
            for axis in axes {
                varying.insert(axis.var);
            }
            Ok(())
        }
        StmtKind::Let { var, value } => {
            if differs(value, varying) {
                varying.insert(*var);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn differs(expr: &TExpr, varying: &BTreeSet<ScalarId>) -> bool {
    let mut found = reads(expr);
    relax_rewrite::patterns::visit(expr, &mut |part| {
        found |= matches!(part, TExpr::Scalar(id) if varying.contains(id));
    });
    found
}
