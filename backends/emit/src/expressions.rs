//! Expressions as C. What may stop the kernel becomes statements before it, in the order of evaluation;
//! the value itself has no effect, so that it may be written where it is used.

use crate::checks::{Elided, is_plain};
use crate::dtypes::{self, held, is_half, suffix};
use crate::f32_narrowing;
use crate::message::Message;
use crate::printer::Printer;
use relax_runtime::program::Numerics;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::Relation;
use relax_syntax::ir::tensor::{BinOp, BufferId, Intrinsic, TExpr, UnOp};

impl Printer<'_, '_> {
    /// The value of an expression that has, or as a literal takes, the dtype `want`.
    pub(crate) fn expr(&mut self, expr: &TExpr, want: DType) -> String {
        if let Some(text) = self.replaced.of(expr) {
            return text;
        }
        match expr {
            TExpr::Int(value) => dtypes::integer(want, *value),
            TExpr::Float(value) => dtypes::float(want, *value),
            TExpr::Bool(value) => u8::from(*value).to_string(),
            TExpr::Scalar(id) => self.scalars[id].clone(),
            TExpr::Dim(name) => self.dims[name].clone(),
            TExpr::Load { buffer, indices } => {
                let values = self.indices(indices);
                let at = self.element(*buffer, indices, values);
                self.load(*buffer, &at)
            }
            TExpr::Unary(op, operand) => self.unary(*op, expr, operand, want),
            TExpr::Binary(BinOp::And | BinOp::Or, _) => self.short_circuit(expr),
            TExpr::Binary(op, operands) => self.binary(*op, expr, operands, want),
            TExpr::Select(parts) => self.select(parts, want),
            TExpr::Cast(target, operand) => {
                if *target == DType::F32
                    && let Some(text) = self.quick(operand)
                {
                    return text;
                }
                let source = self.typing.cast_source(operand, *target);
                let value = self.expr(operand, source);
                cast(source, *target, &value)
            }
            TExpr::Call(function, operands) => self.call(*function, expr, operands, want),
        }
    }

    /// Integers as i64, for indices and bounds.
    pub(crate) fn index(&mut self, expr: &TExpr) -> String {
        let dtype = self.typing.dtype(expr);
        let value = self.expr(expr, dtype);
        match dtype {
            DType::I64 => value,
            DType::U64 => format!("rx_index_u64({value})"),
            _ => format!("(int64_t){}", grouped(&value)),
        }
    }

    pub(crate) fn indices(&mut self, indices: &[TExpr]) -> Vec<String> {
        indices.iter().map(|index| self.index(index)).collect()
    }

    /// The element at an offset, as a value.
    pub(crate) fn load(&mut self, buffer: BufferId, at: &str) -> String {
        let name = self.buffers[&buffer].clone();
        if let Some(map) = self.watched.get(&buffer) {
            let (condition, name) =
                (format!("!{map}[{at}]"), self.program.buffer(buffer).name.clone());
            self.counted(Elided::No);
            let message = self.unwritten(buffer, &name, at);
            self.stop_if(&condition, "tir/uninitialized", message);
        }
        let dtype = self.program.buffer(buffer).dtype;
        let element = format!("{name}[{at}]");
        // GCC 12.2 miscompiles vectorized loops with masked loads: such a load must not become one.
        let element = if self.is_guarded { format!("RX_GUARDED({element})") } else { element };
        match dtype {
            DType::F16 if self.is_alone => format!("rx_f32_of_one_f16({element})"),
            half if is_half(half) => format!("rx_f32_of_{half}({element})"),
            _ => element,
        }
    }

    /// The words for an element at an offset that is read before something was written to it.
    fn unwritten(&mut self, buffer: BufferId, name: &str, at: &str) -> Message {
        let extents = self.extent_names(buffer);
        let index = |axis: usize| {
            let within: Vec<String> =
                extents[axis + 1..].iter().map(|extent| grouped(extent)).collect();
            let whole = if within.is_empty() { "1".to_owned() } else { within.join(" * ") };
            format!("(int64_t)({at}) / ({whole}) % {}", grouped(&extents[axis]))
        };
        let values: Vec<String> = (0..extents.len()).map(index).collect();
        let all = vec!["{}"; values.len()].join(", ");
        Message::with(format!("nothing was written to `{name}[{all}]` before"), values)
    }

    fn unary(&mut self, op: UnOp, expr: &TExpr, operand: &TExpr, want: DType) -> String {
        if op == UnOp::Not {
            let value = self.expr(operand, DType::Bool);
            return format!("!{}", grouped(&value));
        }
        let value = grouped(&self.expr(operand, want));
        if op == UnOp::Negate && want == DType::I64 && self.typing.is_index(operand) {
            return self.checked("__builtin_sub_overflow", "0", &value, expr, "-");
        }
        if self.is_cuda() && op == UnOp::Negate && want.is_integer() {
            return wrapped("-", want, "0", &value);
        }
        let sign = if op == UnOp::Negate { "-" } else { "~" };
        narrowed(want, format!("{sign}{value}"))
    }

    fn binary(
        &mut self,
        op: BinOp,
        expr: &TExpr,
        operands: &(TExpr, TExpr),
        want: DType,
    ) -> String {
        let comparison = relax_semantics::tir::ranges::is_comparison(op);
        let dtype = if comparison { self.typing.compared(&operands.0, &operands.1) } else { want };
        let is_index = self.typing.is_index(&operands.0) && self.typing.is_index(&operands.1);
        let a = self.expr(&operands.0, dtype);
        let b = self.expr(&operands.1, dtype);
        if matches!(op, BinOp::ShiftLeft | BinOp::ShiftRight) {
            let bits = i64::try_from(dtype.size() * 8).expect("invariant: a dtype has few bits");
            let fits = self.ranges.is_integer_within(self.facts, &operands.1, &Dim::Int(bits));
            return self.shift(op, dtype, &a, &b, if fits { Elided::Yes } else { Elided::No });
        }
        if is_index && dtype == DType::I64 && !comparison {
            return self.index_operation(op, expr, operands, &a, &b);
        }
        self.operation(op, dtype, &a, &b)
    }

    /// Index arithmetic: leaving i64 stops the kernel.
    fn index_operation(
        &mut self,
        op: BinOp,
        expr: &TExpr,
        operands: &(TExpr, TExpr),
        a: &str,
        b: &str,
    ) -> String {
        match op {
            BinOp::Add => self.checked_sum("__builtin_add_overflow", a, b, expr, "+"),
            BinOp::Sub => self.checked_sum("__builtin_sub_overflow", a, b, expr, "-"),
            BinOp::Mul => self.checked_sum("__builtin_mul_overflow", a, b, expr, "*"),
            BinOp::FloorDiv | BinOp::Mod => self.index_division(op, operands, a, b),
            _ => self.operation(op, DType::I64, a, b),
        }
    }

    fn checked_sum(
        &mut self,
        builtin: &str,
        a: &str,
        b: &str,
        expr: &TExpr,
        symbol: &str,
    ) -> String {
        if self.stays(expr) {
            self.counted(Elided::Yes);
            let both = is_number(a) && is_number(b);
            let a = if both { format!("(int64_t){a}") } else { a.to_owned() };
            return format!("({a} {symbol} {b})");
        }
        self.counted(Elided::No);
        let name = self.names.fresh("t");
        self.line(&format!("int64_t {name};"));
        let words = format!("`{{}} {symbol} {{}}` leaves the range of i64");
        let message = Message::with(words, vec![a.to_owned(), b.to_owned()]);
        let condition = format!("{builtin}((int64_t){a}, (int64_t){b}, &{name})");
        self.stop_if(&condition, "tir/overflow", message);
        self.share("int64_t", &name);
        self.learned.numbers.extend(self.ranges.dim(expr));
        name
    }

    fn checked(&mut self, builtin: &str, a: &str, b: &str, expr: &TExpr, symbol: &str) -> String {
        self.checked_sum(builtin, a, b, expr, symbol)
    }

    fn index_division(&mut self, op: BinOp, operands: &(TExpr, TExpr), a: &str, b: &str) -> String {
        let (left, right) = (self.ranges.dim(&operands.0), self.ranges.dim(&operands.1));
        let zero = || Some(Dim::Int(0));
        if self.proves(zero(), Relation::Less, right) {
            self.counted(Elided::Yes);
            let (name, sign) = division(op);
            if self.proves(zero(), Relation::AtMost, left) {
                // A compiler turns the division by a number into products itself.
                let is_known = b.parse::<i64>().is_ok();
                return match (self.is_cuda() && !is_known, op) {
                    (false, _) => format!("({a} {sign} {b})"),
                    (true, BinOp::FloorDiv) => format!("rx_quotient({a}, {b})"),
                    (true, _) => format!("rx_rest({a}, {b})"),
                };
            }
            return format!("rx_{name}_i64({a}, {b})");
        }
        self.counted(Elided::No);
        let (a, b) = (self.temporary("int64_t", a), self.temporary("int64_t", b));
        self.not_zero(op, &a, &b);
        if op == BinOp::FloorDiv {
            let condition = format!("{a} == INT64_MIN && {b} == -1");
            let words = "`{} // {}` leaves the range of i64";
            let message = Message::with(words, vec![a.clone(), b.clone()]);
            self.stop_if(&condition, "tir/overflow", message);
        }
        format!("rx_{}_i64({a}, {b})", division(op).0)
    }

    fn not_zero(&mut self, op: BinOp, dividend: &str, divisor: &str) {
        let words = format!("`{{}} {} {{}}` divides by zero", operator(op));
        let message = Message::with(words, vec![dividend.to_owned(), divisor.to_owned()]);
        self.stop_if(&format!("{divisor} == 0"), "tir/division_by_zero", message);
    }

    /// `a op b` on values of one dtype, of which integers wrap.
    pub(crate) fn operation(&mut self, op: BinOp, dtype: DType, a: &str, b: &str) -> String {
        match op {
            BinOp::FloorDiv | BinOp::Mod if dtype.is_float() => {
                let call = format!("rx_{}_f64({a}, {b})", division(op).0);
                return cast(DType::F64, dtype, &call);
            }
            BinOp::FloorDiv | BinOp::Mod => return self.division(op, dtype, a, b),
            BinOp::ShiftLeft | BinOp::ShiftRight => {
                return self.shift(op, dtype, a, b, Elided::No);
            }
            BinOp::Min | BinOp::Max => {
                let name = if op == BinOp::Min { "min" } else { "max" };
                return format!("rx_{name}_{}({a}, {b})", suffix(dtype));
            }
            _ => {}
        }
        if self.is_cuda()
            && dtype.is_integer()
            && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul)
        {
            return wrapped(symbol(op), dtype, a, b);
        }
        let both = is_number(a) && is_number(b) && dtype.is_integer();
        let a = if both { format!("({}){a}", held(dtype)) } else { a.to_owned() };
        let text = format!("({a} {} {b})", symbol(op));
        match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div => narrowed(dtype, text),
            _ => text,
        }
    }

    fn division(&mut self, op: BinOp, dtype: DType, a: &str, b: &str) -> String {
        let is_positive = b.parse::<i64>().is_ok_and(|divisor| divisor > 0);
        self.counted(if is_positive { Elided::Yes } else { Elided::No });
        let (mut a, mut b) = (a.to_owned(), b.to_owned());
        if !is_positive {
            a = self.temporary(held(dtype), &a);
            b = self.temporary(held(dtype), &b);
            self.not_zero(op, &a, &b);
        }
        let (name, sign) = division(op);
        if dtype.class() == Class::Unsigned {
            return narrowed(dtype, format!("({a} {sign} {b})"));
        }
        narrowed(dtype, format!("rx_{name}_i64({a}, {b})"))
    }

    fn shift(&mut self, op: BinOp, dtype: DType, a: &str, b: &str, check: Elided) -> String {
        self.counted(check);
        let mut count = grouped(b);
        if check == Elided::No {
            let bits = dtype.size() * 8;
            count = self.temporary(held(dtype), b);
            let sign = operator(op);
            let words = format!(
                "`{{}} {sign} {{}}` shifts {dtype} by a count outside of 0 to {}",
                bits - 1
            );
            let message = Message::with(words, vec![a.to_owned(), count.clone()]);
            self.stop_if(&format!("(uint64_t){count} >= {bits}"), "tir/shift", message);
        }
        match op {
            BinOp::ShiftLeft => {
                format!("({})((uint64_t){} << {count})", held(dtype), grouped(a))
            }
            _ => narrowed(dtype, format!("({a} >> {count})")),
        }
    }

    fn call(
        &mut self,
        function: Intrinsic,
        expr: &TExpr,
        operands: &[TExpr],
        want: DType,
    ) -> String {
        let is_index = self.typing.is_index(&operands[0]);
        let values: Vec<String> = operands.iter().map(|operand| self.expr(operand, want)).collect();
        if function == Intrinsic::Abs && want.is_integer() {
            return self.integer_abs(expr, &values[0], want, is_index);
        }
        if function == Intrinsic::Fma {
            return fused(want, &values);
        }
        let name = function.name();
        let arguments = values.join(", ");
        if self.sums == Numerics::Reassociated
            && want == DType::F32
            && let Some(name) = f32_narrowing::name(function)
        {
            return format!("{name}({arguments})");
        }
        if self.about
            && want == DType::F64
            && let Some(name) = f32_narrowing::about(function)
        {
            return format!("{name}({arguments})");
        }
        if is_half(want) {
            return format!("rx_round_{want}_of_f64(rx_{name}_f64({arguments}))");
        }
        format!("rx_{name}_{want}({arguments})")
    }

    fn integer_abs(&mut self, _expr: &TExpr, value: &str, want: DType, is_index: bool) -> String {
        if want.class() == Class::Unsigned {
            return value.to_owned();
        }
        let value = self.temporary(held(want), value);
        if is_index && want == DType::I64 {
            self.counted(Elided::No);
            let message = "`abs` leaves the range of i64".to_owned();
            self.stop_if(&format!("{value} == INT64_MIN"), "tir/overflow", message);
        }
        if self.is_cuda() {
            return format!("({value} < 0 ? {} : {value})", wrapped("-", want, "0", &value));
        }
        narrowed(want, format!("({value} < 0 ? -{value} : {value})"))
    }
}

/// Rounded once, after the sum.
fn fused(dtype: DType, values: &[String]) -> String {
    let operands = values.join(", ");
    match dtype {
        DType::F64 => format!("fma({operands})"),
        DType::F32 => format!("fmaf({operands})"),
        _ => format!("rx_round_{dtype}_of_f64(rx_fma_odd({operands}))"),
    }
}

/// Integers that wrap where the language has no flag for it: as unsigned ones.
fn wrapped(symbol: &str, dtype: DType, a: &str, b: &str) -> String {
    let wide = if dtype.size() == 8 { "uint64_t" } else { "uint32_t" };
    format!("({})(({wide}){} {symbol} ({wide}){})", held(dtype), grouped(a), grouped(b))
}

/// Names of the functions and of the operators of C that are the same where nothing is negative.
/// As the text has it.
fn operator(op: BinOp) -> &'static str {
    match op {
        BinOp::FloorDiv => "//",
        BinOp::Mod => "%",
        BinOp::ShiftLeft => "<<",
        BinOp::ShiftRight => ">>",
        _ => "/",
    }
}

fn division(op: BinOp) -> (&'static str, &'static str) {
    if op == BinOp::FloorDiv { ("floordiv", "/") } else { ("floormod", "%") }
}

/// An expression that may stand as an operand of a prefix operator: a name or number, maybe with one
/// bracket after it, or one bracket.
pub(crate) fn grouped(text: &str) -> String {
    if is_primary(text) { text.to_owned() } else { format!("({text})") }
}

fn is_primary(text: &str) -> bool {
    let Some(open) = text.find(['(', '[']) else { return is_plain(text) };
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return is_plain(&text[..open]) && at + 1 == text.len();
        }
    }
    false
}

fn is_number(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || matches!(c, '(' | ')' | '-'))
}

/// A result of C as a value of its dtype: C computes narrow integers as int, and 16-bit floats as floats.
fn narrowed(dtype: DType, text: String) -> String {
    match dtype {
        DType::F16 | DType::BF16 => format!("rx_round_{dtype}({text})"),
        DType::F32 | DType::F64 | DType::I64 => text,
        _ => format!("({}){}", held(dtype), grouped(&text)),
    }
}

/// Conversion: to a float rounded once; float to integer truncated, saturated, NaN to 0; integer to
/// integer wrapped; to bool: nonzero.
fn cast(from: DType, to: DType, value: &str) -> String {
    let half = is_half(to);
    match (from, to) {
        _ if from == to => value.to_owned(),
        (_, DType::Bool) => format!("({} != 0)", grouped(value)),
        (DType::F64, _) if half => format!("rx_round_{to}_of_f64({value})"),
        (_, _) if from.is_float() && half => format!("rx_round_{to}({value})"),
        (DType::F16 | DType::BF16, DType::F32) => value.to_owned(),
        (DType::I64 | DType::U64, _) if half => {
            format!("rx_round_{to}_of_f64(rx_odd_f64_of_{from}({value}))")
        }
        (_, _) if half => format!("rx_round_{to}_of_f64((double){})", grouped(value)),
        (_, _) if from.is_float() && to.is_integer() => format!("rx_{to}_of_f64({value})"),
        _ => format!("({}){}", held(to), grouped(value)),
    }
}

/// As C and the languages after it write it.
///
/// # Panics
/// For operators that are calls, or checked.
#[must_use]
pub fn symbol(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::BitAnd => "&",
        BinOp::BitOr => "|",
        BinOp::BitXor => "^",
        BinOp::Equal => "==",
        BinOp::NotEqual => "!=",
        BinOp::Less => "<",
        BinOp::LessEqual => "<=",
        BinOp::Greater => ">",
        BinOp::GreaterEqual => ">=",
        _ => unreachable!("invariant: the other operators are calls or checked"),
    }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn what_binds_tighter_than_a_prefix_needs_no_bracket() {
        for text in ["x", "12", "(a + b)", "x[i * 4 + (j)]", "rx_max_f32(a, b)"] {
            assert_eq!(grouped(text), text);
        }
        assert_eq!(grouped("(a) + (b)"), "((a) + (b))");
        assert_eq!(grouped("a + f(b)"), "(a + f(b))");
    }
}
