//! Statements that one thread runs, in the order of the text.

use crate::access::constant_count;
use crate::dtypes;
use crate::expressions::subtracts;
use crate::printer::{Place, Printer};
use crate::stages::Way;
use relax_semantics::tir::ranges::is_proved;
use relax_semantics::tir::reductions;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{
    Axis, AxisKind, BinOp, BufferId, Loop, Scope, Stmt, StmtKind, TExpr,
};
use relax_tir::index_bounds::{assume, assume_not};
use relax_tir::launches::thread_axis;

/// Bytes of arrays of one thread.
const LOCAL: i64 = 4 << 10;
/// Workgroup memory that every device has.
const WORKGROUP: i64 = 16 << 10;

impl Printer<'_, '_> {
    /// Statements of one body; what they make known is forgotten after it.
    pub(crate) fn body(&mut self, statements: &[Stmt]) {
        self.facts.push();
        for stmt in statements {
            self.stmt(stmt);
        }
        self.facts.pop();
    }

    pub(crate) fn nested(&mut self, statements: &[Stmt]) {
        self.indent += 1;
        self.body(statements);
        self.indent -= 1;
    }

    pub(crate) fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                self.quote(stmt);
                match thread_axis(kind).filter(|_| self.way == Way::Launched) {
                    Some(axis) => self.inner_threads(loops, axis, body),
                    None => self.for_loop(loops, body),
                }
            }
            StmtKind::Block { axes, init, body, .. } => self.block(axes, init, body),
            StmtKind::Store { buffer, indices, update, value } => {
                self.quote(stmt);
                self.store(*buffer, indices, *update, value);
            }
            StmtKind::Let { var, value } => self.bind_scalar(*var, value),
            StmtKind::If { condition, then, otherwise } => {
                let text = self.expr(condition, DType::Bool);
                self.line(&format!("if {text} {{"));
                self.facts.push();
                assume(&self.ranges, self.facts, condition);
                self.nested(then);
                self.facts.pop();
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.facts.push();
                    assume_not(&self.ranges, self.facts, condition);
                    self.nested(otherwise);
                    self.facts.pop();
                }
                self.line("}");
            }
            StmtKind::Alloc(buffer) => self.alloc(*buffer),
            StmtKind::Barrier => self.barrier(),
            StmtKind::Check(check) => {
                self.quote(stmt);
                let holds = self.expr(&check.condition, DType::Bool);
                self.stop_if(&format!("!({holds})"));
            }
        }
    }

    pub(crate) fn barrier(&mut self) {
        self.line("workgroupBarrier();");
        self.line("storageBarrier();");
    }

    /// The line of the program that a statement comes from.
    pub(crate) fn quote(&mut self, stmt: &Stmt) {
        let Some(source) = self.source.filter(|_| !stmt.span.is_synthetic()) else { return };
        let (line, _) = source.line_column(stmt.span.start);
        let text = format!("// {line}: {}", source.line(line).trim());
        self.line(&text);
    }

    pub(crate) fn bind_scalar(&mut self, var: relax_syntax::ir::tensor::ScalarId, value: &TExpr) {
        let dtype = self.typing.dtype(value);
        let narrow = dtype == DType::I64 && self.typing.is_index(value);
        let text = if narrow { self.index(value) } else { self.expr(value, dtype) };
        let text = self.kept(dtype, text);
        let of = if narrow { "i32" } else { dtypes::held(dtype, self.formats.doubles) };
        let name = self.scalars[&var].clone();
        self.line(&format!("let {name}: {of} = {text};"));
        self.ranges.bind(var, value);
        self.sources.bind(var, value);
    }

    fn store(&mut self, buffer: BufferId, indices: &[TExpr], update: Option<BinOp>, value: &TExpr) {
        let dtype = self.program.buffer(buffer).dtype;
        let values: Vec<String> = indices.iter().map(|index| self.index(index)).collect();
        let mut text = self.expr(value, dtype);
        let at = self.element(buffer, indices, values);
        if let Some(op) = update {
            let mut old = self.load(buffer, &at);
            if dtype.is_float() && subtracts(value) {
                old = self.kept(dtype, old);
            }
            text = self.operation(op, dtype, &old, &text);
        }
        self.write(buffer, &at, text);
    }

    /// All bounds are computed before the first loop is entered: they cannot use its variables.
    fn for_loop(&mut self, loops: &[Loop], body: &[Stmt]) {
        self.facts.push();
        let bounds: Vec<(String, String)> =
            loops.iter().map(|item| (self.bound(&item.start), self.bound(&item.stop))).collect();
        for (item, (start, stop)) in loops.iter().zip(bounds) {
            let var = self.scalars[&item.var].clone();
            self.line(&format!("for (var {var} = {start}; {var} < {stop}; {var}++) {{"));
            self.enter(item, start);
        }
        self.depth += loops.len();
        self.body(body);
        self.depth -= loops.len();
        self.leave(loops.len());
        self.facts.pop();
    }

    /// What is known within a loop.
    pub(crate) fn enter(&mut self, item: &Loop, start: String) {
        self.indent += 1;
        self.ranges.enter(self.facts, item);
        self.sources.bind_loop(item);
        self.starts.insert(item.var, start);
    }

    pub(crate) fn leave(&mut self, count: usize) {
        for _ in 0..count {
            self.indent -= 1;
            self.line("}");
        }
    }

    /// A bound of a loop. One that comes from memory and is beyond 32 bits is given to the interpreter.
    pub(crate) fn bound(&mut self, expr: &TExpr) -> String {
        let text = self.index(expr);
        if matches!(expr, TExpr::Int(_) | TExpr::Dim(_) | TExpr::Scalar(_)) && !text.contains('(') {
            return text;
        }
        let name = self.temporary(&text);
        if self.typing.is_index(expr) && self.typing.dtype(expr) == DType::I64 {
            return name;
        }
        let beyond = self.temporary(&format!("{name} == 2147483647i || {name} == -2147483647i"));
        self.stop_if(&beyond);
        self.temporary(&format!("select({name}, 0i, {beyond})"))
    }

    fn block(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        self.facts.push();
        self.line("{");
        self.indent += 1;
        for axis in axes {
            self.axis(axis);
        }
        if !init.is_empty() {
            self.init(axes, init, body);
        }
        self.sources.bind_axes(axes);
        self.body(body);
        self.leave(1);
        self.facts.pop();
    }

    fn init(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        let firsts: Vec<String> = if axes.is_empty() {
            let vars = reductions(&self.sources, init, body);
            let first = |var| format!("{} == {}", self.scalars[var], self.starts[var]);
            vars.iter().map(first).collect()
        } else {
            let reduced = axes.iter().filter(|axis| axis.kind == AxisKind::Reduce);
            reduced.map(|axis| format!("{} == 0i", self.scalars[&axis.var])).collect()
        };
        let condition = if firsts.is_empty() { "true".to_owned() } else { firsts.join(" && ") };
        self.sources.bind_axes(axes);
        self.line(&format!("if {condition} {{"));
        self.nested(init);
        self.line("}");
    }

    fn axis(&mut self, axis: &Axis) {
        let (extent, value) = (self.index(&axis.extent), self.index(&axis.value));
        let name = self.scalars[&axis.var].clone();
        let (low, high) = (self.ranges.dim(&axis.value), self.ranges.dim(&axis.extent));
        let inside = match (&low, &high) {
            (Some(low), Some(high)) => {
                is_proved(self.facts, &Claim::new(0, Relation::AtMost, low.clone()))
                    && is_proved(self.facts, &Claim::new(low.clone(), Relation::Less, high.clone()))
            }
            _ => false,
        };
        self.line(&format!("let {name} = {value};"));
        if !inside {
            self.stop_if(&format!("{name} < 0i || {name} >= {extent}"));
        }
        self.ranges.bind(axis.var, &axis.value);
        if let (Some(own), Some(extent)) = (self.ranges.dim(&TExpr::Scalar(axis.var)), high) {
            self.facts.assume(Claim::new(0, Relation::AtMost, own.clone()));
            self.facts.assume(Claim::new(own, Relation::Less, extent));
        }
    }

    /// An array of the thread, or nothing where the buffer lies in memory of the device; there it begins anew.
    pub(crate) fn alloc(&mut self, buffer: BufferId) {
        if let Some(place) = self.written.get(&buffer).cloned()
            && self.places.contains_key(&buffer)
            && self.depth > 0
        {
            self.forget(buffer, &place);
            return;
        }
        if self.places.contains_key(&buffer) && self.is_bound(buffer) {
            return;
        }
        let info = self.program.buffer(buffer);
        if info.scope == Scope::Shared && self.way == Way::Launched {
            return self.refuse(format!("a thread allocates `{}`, which threads share", info.name));
        }
        let Some(count) = constant_count(&info.shape) else {
            return self.refuse(format!("a thread allocates `{}`, whose size differs", info.name));
        };
        let wish = info.name.clone();
        let of = dtypes::stored(info.dtype, self.formats);
        self.local_bytes = self.local_bytes.saturating_add(count.saturating_mul(8));
        if self.local_bytes > LOCAL {
            return self.refuse(format!("the arrays of a thread take more than {LOCAL} bytes"));
        }
        let name = self.names.fresh("b", &wish);
        self.line(&format!("var {name}: array<{of}, {}>;", count.max(1)));
        self.places.insert(buffer, Place::Own(name));
        if self.watched.contains(&buffer) {
            let name = self.names.fresh("w", &wish);
            self.line(&format!("var {name}: array<u32, {}>;", count.max(1)));
            self.written.insert(buffer, Place::Own(name));
        }
    }

    /// Whether a buffer is one of the storage buffers.
    fn is_bound(&self, buffer: BufferId) -> bool {
        self.bound.contains(&buffer)
    }

    /// Nothing of a buffer is written any more.
    fn forget(&mut self, buffer: BufferId, place: &Place) {
        if !self.is_bound(buffer) {
            return self.refuse("a buffer of a thread is allocated twice".to_owned());
        }
        let shape = self.program.buffer(buffer).shape.clone();
        let extents: Vec<String> = shape.iter().map(|dim| self.extent(dim)).collect();
        let count = if extents.is_empty() { "1i".to_owned() } else { extents.join(" * ") };
        let at = self.names.fresh("t", "");
        self.line(&format!("for (var {at} = 0i; {at} < {count}; {at}++) {{"));
        self.indent += 1;
        self.write_at(place, &at, DType::U32, "0u");
        self.leave(1);
    }

    /// A variable of the workgroup for a buffer that a block of threads allocates.
    pub(crate) fn alloc_for_block(&mut self, buffer: BufferId) {
        let info = self.program.buffer(buffer);
        let Some(count) = constant_count(&info.shape) else {
            return self.refuse(format!("a block allocates `{}`, whose size differs", info.name));
        };
        let is_watched = self.watched.contains(&buffer);
        let of = dtypes::stored(info.dtype, self.formats);
        let words = dtypes::words(info.dtype, count.unsigned_abs(), self.formats);
        let bytes = i64::try_from(words.saturating_mul(4)).unwrap_or(i64::MAX);
        self.workgroup_bytes = self.workgroup_bytes.saturating_add(bytes);
        self.workgroup_bytes += if is_watched { count.saturating_mul(4) } else { 0 };
        if self.workgroup_bytes > WORKGROUP {
            return self.refuse(format!("a block of threads shares more than {WORKGROUP} bytes"));
        }
        let wish = info.name.clone();
        let name = self.names.fresh("b", &wish);
        let text = format!("var<workgroup> {name}: array<{of}, {}>;\n", count.max(1));
        self.workgroup.push_str(&text);
        self.places.insert(buffer, Place::Own(name));
        if is_watched {
            self.watch_for_block(buffer, count.max(1));
        }
    }

    /// Which elements were written, noted in workgroup memory; at the allocation none are.
    fn watch_for_block(&mut self, buffer: BufferId, count: i64) {
        let wish = self.program.buffer(buffer).name.clone();
        let name = self.names.fresh("w", &wish);
        self.workgroup.push_str(&format!("var<workgroup> {name}: array<u32, {count}>;\n"));
        let [x, y, z] = self.size;
        let at = self.names.fresh("t", "");
        let own = format!("i32((thread.z * {y}u + thread.y) * {x}u + thread.x)");
        self.line(&format!("for (var {at} = {own}; {at} < {count}i; {at} += {}i) {{", x * y * z));
        self.line(&format!("    {name}[{at}] = 0u;"));
        self.line("}");
        self.barrier();
        self.written.insert(buffer, Place::Own(name));
    }
}
