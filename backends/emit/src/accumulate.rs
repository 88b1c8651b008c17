//! A loop that combines values with one element: the element is held in a variable, and where sums may be
//! formed in any order, in lanes. Only where nothing in the loop may stop the kernel; else the loop is
//! printed as it stands.

use crate::dtypes::{held, is_half};
use crate::printer::Printer;
use crate::statements::Term;
use relax_runtime::program::Numerics;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, Stmt, StmtKind, TExpr};
use relax_tir::products::mentions;

/// Terms of f32 that are added before their sum goes on in f64.
const BLOCK: usize = 1024;

/// `T[…] = T[…] op value` for each value of a loop variable.
struct Accumulation<'s> {
    buffer: BufferId,
    indices: &'s [TExpr],
    op: BinOp,
    value: &'s TExpr,
    /// Whether the value comes before what it is combined with.
    first: bool,
}

/// The terms of a sum in blocks.
pub(crate) enum Terms<'t> {
    /// Values.
    Each(String),
    /// Values, which are also stored.
    Kept { to: &'t str, value: String },
    /// Exponentials of a row less what is the same for all of it, which are also stored.
    Row { to: &'t str, row: String, less: String },
}

impl Printer<'_, '_> {
    /// Prints the innermost loop and its body, if it is one; else nothing.
    pub(crate) fn accumulate(
        &mut self,
        item: &Loop,
        bounds: &(String, String),
        body: &[Stmt],
    ) -> bool {
        let Some(found) = find(item, body) else { return false };
        let dtype = self.program.buffer(found.buffer).dtype;
        if is_half(dtype) || dtype == DType::Bool || self.notes_elements(found.buffer) {
            return false;
        }
        let kept = (self.lines.len(), self.sites.len(), self.checks, self.may_stop);
        let within = self.learned.clone();
        self.facts.push();
        let text = self.accumulated(item, bounds, &found, dtype);
        self.facts.pop();
        self.learned = within;
        let plain = self.lines.len() == kept.0;
        self.lines.truncate(kept.0);
        if !plain {
            self.sites.truncate(kept.1);
            (self.checks, self.may_stop) = (kept.2, kept.3);
            return false;
        }
        text.iter().for_each(|line| self.line(line));
        true
    }

    /// The lines; whatever else is printed on the way says that it does not work.
    fn accumulated(
        &mut self,
        item: &Loop,
        bounds: &(String, String),
        found: &Accumulation,
        dtype: DType,
    ) -> Vec<String> {
        // The element is there though the loop may have no iteration.
        let values = self.indices(found.indices);
        let at = self.element(found.buffer, found.indices, values);
        let element = format!("{}[{at}]", self.buffers[&found.buffer]);
        self.ranges.enter(self.facts, item);
        if let Some(inner) = self.narrow_extremum(found, dtype) {
            return self.extremum(item, bounds, found, (&element, dtype), inner);
        }
        let (start, stop) = bounds;
        if let Some(value) = self.narrow_term(found, dtype) {
            let var = self.scalars[&item.var].clone();
            return self.block_sum((&var, &bounds.0, &bounds.1), &element, &Terms::Each(value));
        }
        let sum = self.names.fresh("sum");
        let next = match self.term(Some(found.op), dtype, found.value) {
            Term::Product(factors) => factors.added_to(&sum),
            Term::Value(value) => {
                let (a, b) = if found.first { (&value, &sum) } else { (&sum, &value) };
                self.operation(found.op, dtype, a, b)
            }
        };
        let var = self.scalars[&item.var].clone();
        let mut lines = vec![format!("{} {sum} = {element};", held(dtype))];
        if let Some(name) = self.lanes(found.op, dtype).filter(|_| !self.is_cuda()) {
            lines.push(format!("#pragma omp simd reduction({name} : {sum})"));
        }
        lines.push(format!(
            "for (int64_t {var} = {start}; {var} < {stop}; {var}++) {sum} = {next};"
        ));
        lines.push(format!("{element} = {sum};"));
        lines
    }

    /// The term of a sum in f64 that may be formed of f32s.
    fn narrow_term(&mut self, found: &Accumulation, dtype: DType) -> Option<String> {
        if found.op != BinOp::Add || dtype != DType::F64 || !self.narrows {
            return None;
        }
        match found.value {
            TExpr::Cast(DType::F64, inner) if self.typing.dtype(inner) == DType::F32 => {
                Some(self.expr(inner, DType::F32))
            }
            value => self.quick(value),
        }
    }

    /// Sums of f32 in lanes, so many terms at a time, and of those one in f64: each lane adds few, so that long sums
    /// stay as good as short ones.
    pub(crate) fn block_sum(
        &mut self,
        (var, start, stop): (&str, &str, &str),
        element: &str,
        terms: &Terms,
    ) -> Vec<String> {
        let [sum, block, end, part] =
            ["sum", "block", "end", "some"].map(|wish| self.names.fresh(wish));
        let next = format!("{block} + {BLOCK}");
        let (each, term) = match terms {
            Terms::Row { to, row, less } => (
                format!("{var} = {end}"),
                format!("{part} = rx_exp_row(&{to}, {row}, {less}, {end} - {var});"),
            ),
            Terms::Kept { to, value } => {
                (format!("{var}++"), format!("{part} += ({to} = {value});"))
            }
            Terms::Each(value) => (format!("{var}++"), format!("{part} += {value};")),
        };
        let mut lines = vec![
            format!("double {sum} = {element};"),
            format!("for (int64_t {block} = {start}; {block} < {stop}; {block} += {BLOCK}) {{"),
            format!("    const int64_t {end} = {stop} - {block} < {BLOCK} ? {stop} : {next};"),
            format!("    float {part} = 0;"),
        ];
        if !matches!(terms, Terms::Row { .. }) {
            lines.push(format!("    #pragma omp simd reduction(+ : {part})"));
        }
        lines.extend([
            format!("    for (int64_t {var} = {block}; {var} < {end}; {each}) {term}"),
            format!("    {sum} += (double){part};"),
            "}".to_owned(),
            format!("{element} = {sum};"),
        ]);
        lines
    }

    /// Values of f32 that are compared, in f32 or converted to f64 for that only.
    fn narrow_extremum<'s>(&self, found: &Accumulation<'s>, dtype: DType) -> Option<&'s TExpr> {
        let compares = matches!(found.op, BinOp::Max | BinOp::Min);
        if !compares || self.sums != Numerics::Reassociated {
            return None;
        }
        match found.value {
            TExpr::Cast(DType::F64, inner)
                if dtype == DType::F64 && self.typing.dtype(inner) == DType::F32 =>
            {
                Some(inner)
            }
            value => (dtype == DType::F32).then_some(value),
        }
    }

    /// The greatest of f32s is the same in f32, and as integers of their order: there a vector waits for one operation
    /// only, and lanes are combined without a branch. Whether a value is NaN is noted beside.
    fn extremum(
        &mut self,
        item: &Loop,
        (start, stop): &(String, String),
        found: &Accumulation,
        (element, dtype): (&str, DType),
        inner: &TExpr,
    ) -> Vec<String> {
        if found.op == BinOp::Max {
            let most = self.names.fresh("most");
            if let Some(mut lines) = self.greatest(item, (start, stop), inner, &most) {
                lines.push(format!("{element} = rx_max_{dtype}({element}, {most});"));
                return lines;
            }
        }
        let value = self.expr(inner, DType::F32);
        let (name, limit, better) = match found.op {
            BinOp::Max => ("max", "-INFINITY", '>'),
            _ => ("min", "INFINITY", '<'),
        };
        let var = self.scalars[&item.var].clone();
        let [most, odd, each, own] =
            ["most", "odd", "each", "own"].map(|wish| self.names.fresh(wish));
        vec![
            format!("int32_t {most} = rx_key_f32({limit}), {odd} = 0;"),
            format!("#pragma omp simd reduction({name} : {most}) reduction(| : {odd})"),
            format!("for (int64_t {var} = {start}; {var} < {stop}; {var}++) {{"),
            format!("    const float {each} = {value};"),
            format!("    const int32_t {own} = rx_key_f32({each});"),
            format!("    {most} = {own} {better} {most} ? {own} : {most};"),
            format!("    {odd} |= {each} != {each};"),
            "}".to_owned(),
            format!(
                "{element} = rx_{name}_{dtype}({element}, ({})({odd} ? NAN : rx_f32_of_key({most})));",
                held(dtype)
            ),
        ]
    }

    /// How lanes are combined, where they may be.
    fn lanes(&self, op: BinOp, dtype: DType) -> Option<&'static str> {
        let any_order = self.sums == Numerics::Reassociated || dtype.is_integer();
        match op {
            BinOp::Add if any_order => Some("+"),
            BinOp::Max if any_order && dtype.is_float() => Some("rx_most"),
            BinOp::Min if any_order && dtype.is_float() => Some("rx_least"),
            _ => None,
        }
    }
}

fn find<'s>(item: &Loop, body: &'s [Stmt]) -> Option<Accumulation<'s>> {
    let [Stmt { kind: StmtKind::Store { buffer, indices, update, value }, .. }] = body else {
        return None;
    };
    let own = |expr: &TExpr| matches!(expr, TExpr::Load { buffer: from, indices: at } if from == buffer && at == indices);
    let (op, value, first) = match (update, value) {
        (Some(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul)), value) => (*op, value, false),
        (None, TExpr::Binary(op @ (BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max), both)) => {
            if own(&both.0) {
                (*op, &both.1, false)
            } else if own(&both.1) {
                (*op, &both.0, true)
            } else {
                return None;
            }
        }
        _ => return None,
    };
    let mut reads = mentions(indices, item.var);
    let mut seen = |part: &TExpr| {
        reads |= matches!(part, TExpr::Load { buffer: from, .. } if from == buffer);
    };
    visit(value, &mut seen);
    indices.iter().for_each(|index| visit(index, &mut seen));
    (!reads).then_some(Accumulation { buffer: *buffer, indices, op, value, first })
}
