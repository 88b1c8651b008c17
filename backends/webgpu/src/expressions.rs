//! Expressions as WGSL. What may stop the kernel becomes statements before it, in the order of evaluation; the value itself
//! has no effect, so that it may be written where it is used.

use crate::Doubles;
use crate::dtypes::{self, held, is_half};
use crate::integers::{is_far, literal};
use crate::printer::Printer;
use relax_semantics::tir::ranges::is_comparison;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};
use relax_tir::index_bounds::Known;

impl Printer<'_, '_> {
    /// The value of an expression that has, or as a literal takes, the dtype `want`.
    pub(crate) fn expr(&mut self, expr: &TExpr, want: DType) -> String {
        if want == DType::I64 && self.typing.is_index(expr) {
            if let Some(value) = literal(expr) {
                return dtypes::integer(want, value, self.formats.doubles);
            }
            if !is_far(expr) {
                let index = self.index(expr);
                return format!("rx_wide_i32({index})");
            }
        }
        match expr {
            TExpr::Int(value) if want.is_float() => {
                self.kept(want, dtypes::integer(want, *value, self.formats.doubles))
            }
            TExpr::Int(value) => dtypes::integer(want, *value, self.formats.doubles),
            TExpr::Float(value) => {
                self.kept(want, dtypes::float(want, *value, self.formats.doubles))
            }
            TExpr::Bool(value) => value.to_string(),
            TExpr::Scalar(id) => self.scalars[id].clone(),
            TExpr::Dim(name) => {
                let name = self.dim(name);
                format!("rx_wide_i32({name})")
            }
            TExpr::Load { buffer, indices } => {
                let values: Vec<String> = indices.iter().map(|index| self.index(index)).collect();
                let at = self.element(*buffer, indices, values);
                self.load(*buffer, &at)
            }
            TExpr::Unary(op, operand) => self.unary(*op, operand, want),
            TExpr::Binary(BinOp::And | BinOp::Or, _) => self.short_circuit(expr),
            TExpr::Binary(op, operands) => self.binary(*op, operands, want),
            TExpr::Select(parts) => {
                let of = held(want, self.formats.doubles);
                self.select(parts, of, &|printer, side| printer.expr(side, want))
            }
            TExpr::Cast(target, operand) => {
                let source = self.typing.cast_source(operand, *target);
                let value = self.expr(operand, source);
                self.cast(source, *target, &value)
            }
            TExpr::Call(function, operands) => self.call(*function, operands, want),
        }
    }

    fn unary(&mut self, op: UnOp, operand: &TExpr, want: DType) -> String {
        if op == UnOp::Not {
            let value = self.expr(operand, DType::Bool);
            return format!("!({value})");
        }
        let value = self.expr(operand, want);
        match (op, want.class()) {
            (UnOp::Negate, _) if dtypes::is_wide(want) => format!("rx_neg_64({value})"),
            (UnOp::Negate, Class::Float) if held(want, self.formats.doubles) == "f64" => {
                format!("rx_neg_f64({value})")
            }
            (UnOp::Negate, Class::Float) => format!("rx_neg_f32({value})"),
            (UnOp::Negate, Class::Unsigned) => wrapped(want, format!("(0u - {value})")),
            (UnOp::Negate, _) => wrapped(want, format!("(-{value})")),
            _ => wrapped(want, format!("(~{value})")),
        }
    }

    fn short_circuit(&mut self, expr: &TExpr) -> String {
        let TExpr::Binary(op, operands) = expr else {
            unreachable!("invariant: called for `and` and `or`")
        };
        let first = self.expr(&operands.0, DType::Bool);
        let is_and = *op == BinOp::And;
        let first_is = if is_and { Known::Holds } else { Known::Fails };
        let (second, lines) =
            self.aside(first_is(&operands.0), |printer| printer.expr(&operands.1, DType::Bool));
        let symbol = if is_and { "&&" } else { "||" };
        if lines.is_empty() {
            return format!("(({first}) {symbol} ({second}))");
        }
        let name = self.names.fresh("t", "");
        self.line(&format!("var {name} = {first};"));
        let condition = if is_and { name.clone() } else { format!("!{name}") };
        self.line(&format!("if {condition} {{"));
        self.lines.push_str(&lines);
        self.line(&format!("    {name} = {second};"));
        self.line("}");
        name
    }

    /// WGSL's `select` evaluates both sides: only where neither can stop nor reads memory.
    pub(crate) fn select(
        &mut self,
        parts: &(TExpr, TExpr, TExpr),
        of: &str,
        print: &dyn Fn(&mut Self, &TExpr) -> String,
    ) -> String {
        let condition = self.expr(&parts.0, DType::Bool);
        let (a, first) = self.aside(Known::Holds(&parts.0), |printer| print(printer, &parts.1));
        let (b, second) = self.aside(Known::Fails(&parts.0), |printer| print(printer, &parts.2));
        let is_simple = |side: &TExpr| {
            let mut simple = true;
            visit(side, &mut |part| {
                simple &= !matches!(part, TExpr::Load { .. } | TExpr::Call(..));
            });
            simple
        };
        let plain = first.is_empty() && second.is_empty();
        if plain && is_simple(&parts.1) && is_simple(&parts.2) {
            return format!("select({b}, {a}, {condition})");
        }
        let name = self.names.fresh("t", "");
        self.line(&format!("var {name}: {of};"));
        self.line(&format!("if {condition} {{"));
        self.lines.push_str(&first);
        self.line(&format!("    {name} = {a};"));
        self.line("} else {");
        self.lines.push_str(&second);
        self.line(&format!("    {name} = {b};"));
        self.line("}");
        name
    }

    /// Prints what is evaluated in some cases only: its value, and the lines before it. What holds there is known; what is
    /// learnt on the way is forgotten.
    fn aside(
        &mut self,
        known: Known<'_>,
        print: impl FnOnce(&mut Self) -> String,
    ) -> (String, String) {
        let lines = std::mem::take(&mut self.lines);
        self.facts.push();
        known.assume(&self.ranges, self.facts);
        self.indent += 1;
        let value = print(self);
        self.indent -= 1;
        self.facts.pop();
        (value, std::mem::replace(&mut self.lines, lines))
    }

    fn binary(&mut self, op: BinOp, operands: &(TExpr, TExpr), want: DType) -> String {
        let (left, right) = (&operands.0, &operands.1);
        let comparison = is_comparison(op);
        let dtype = if comparison { self.typing.compared(left, right) } else { want };
        let indices = self.typing.is_index(left) && self.typing.is_index(right);
        if comparison && dtype == DType::I64 && indices && !is_far(left) && !is_far(right) {
            let (a, b) = (self.index(left), self.index(right));
            return self.operation(op, DType::I32, &a, &b);
        }
        let mut a = self.expr(left, dtype);
        let b = self.expr(right, dtype);
        if op == BinOp::Add && dtype.is_float() && (subtracts(left) || subtracts(right)) {
            a = self.kept(dtype, a);
        }
        self.operation(op, dtype, &a, &b)
    }

    /// A value of which the device's compiler knows nothing: WebGPU lets it take it that there are neither infinities, NaN nor
    /// signs of zeros, so that it would make 0 of `a - a`.
    pub(crate) fn kept(&self, dtype: DType, text: String) -> String {
        match held(dtype, self.formats.doubles) {
            "f32" => format!("rx_keep({text})"),
            "f64" => format!("rx_keep_f64({text})"),
            _ => text,
        }
    }

    fn call(&mut self, function: Intrinsic, operands: &[TExpr], want: DType) -> String {
        let values: Vec<String> = operands.iter().map(|operand| self.expr(operand, want)).collect();
        if want.is_integer() {
            let value = &values[0];
            return match want.class() {
                Class::Unsigned => value.clone(),
                _ if want == DType::I64 => format!("rx_abs_i64({value})"),
                _ => wrapped(want, format!("abs({value})")),
            };
        }
        let name = function.name();
        if self.formats.doubles == Doubles::Narrowed {
            return rounded(want, format!("rx_{name}_f32({})", values.join(", ")));
        }
        if want == DType::F64 {
            return format!("rx_{name}_f64({})", values.join(", "));
        }
        let exact = matches!(
            function,
            Intrinsic::Abs | Intrinsic::Floor | Intrinsic::Ceil | Intrinsic::Trunc
        );
        if exact {
            return format!("rx_{name}_f32({})", values.join(", "));
        }
        let wide: Vec<String> = values.iter().map(|value| format!("f64({value})")).collect();
        let name = match function {
            Intrinsic::Fma if want == DType::F32 => "rx_fma_of_narrow".to_owned(),
            _ => format!("rx_{name}_f64"),
        };
        self.cast(DType::F64, want, &format!("{name}({})", wide.join(", ")))
    }

    /// A conversion of a value.
    pub(crate) fn cast(&self, from: DType, to: DType, value: &str) -> String {
        if from == to {
            return value.to_owned();
        }
        if from.is_float() {
            return self.cast_float(from, to, value);
        }
        let value = match from {
            DType::Bool => format!("select(0u, 1u, {value})"),
            _ => value.to_owned(),
        };
        let signed = from.class() == Class::Signed;
        match to {
            DType::Bool if dtypes::is_wide(from) => {
                format!("!rx_equal_64({value}, vec2<u32>(0u, 0u))")
            }
            DType::Bool => format!("({value} != {})", if signed { "0i" } else { "0u" }),
            DType::I64 | DType::U64 if dtypes::is_wide(from) => value,
            DType::I64 | DType::U64 if signed => format!("rx_wide_i32({value})"),
            DType::I64 | DType::U64 => format!("vec2<u32>({value}, 0u)"),
            DType::F64 if self.formats.doubles == Doubles::Native => match from {
                DType::I64 | DType::U64 => format!("rx_f64_of_{from}({value})"),
                _ => format!("f64({value})"),
            },
            DType::F32 | DType::F64 => match from {
                DType::I64 | DType::U64 => format!("rx_f32_of_{from}({value})"),
                _ if signed => format!("rx_f32_of_i32({value})"),
                _ => format!("rx_f32_of_u32({value})"),
            },
            DType::F16 | DType::BF16 => self.half_of_integer(from, to, &value),
            _ => {
                let low = if dtypes::is_wide(from) { format!("{value}.x") } else { value };
                let of = held(to, self.formats.doubles);
                wrapped(to, format!("{of}({low})"))
            }
        }
    }

    /// Rounded to odd first, so that it is rounded once in all.
    fn half_of_integer(&self, from: DType, to: DType, value: &str) -> String {
        let wide = match from {
            _ if dtypes::is_wide(from) => value.to_owned(),
            _ if from.class() == Class::Signed => format!("rx_wide_i32({value})"),
            _ => format!("vec2<u32>({value}, 0u)"),
        };
        let name = if from.class() == Class::Signed { "rx_odd_i64" } else { "rx_odd_u64" };
        rounded(to, format!("{name}({wide})"))
    }

    fn cast_float(&self, from: DType, to: DType, value: &str) -> String {
        let doubled = from == DType::F64 && self.formats.doubles == Doubles::Native;
        let of = if doubled { "f64" } else { "f32" };
        let zero = if doubled { "0.0lf" } else { "0.0f" };
        match to {
            DType::Bool => format!("!({value} == {zero})"),
            DType::F16 | DType::BF16 if doubled => rounded(to, format!("rx_odd_f32({value})")),
            DType::F16 | DType::BF16 => rounded(to, value.to_owned()),
            DType::F32 if doubled => format!("f32({value})"),
            DType::F64 if self.formats.doubles == Doubles::Native => format!("f64({value})"),
            DType::F32 | DType::F64 => value.to_owned(),
            DType::I64 | DType::U64 => format!("rx_{to}_of_{of}({value})"),
            DType::I8 | DType::I16 | DType::I32 => {
                let bits = to.size() * 8 - 1;
                let (low, high) = (-(1_i64 << bits), (1_i64 << bits) - 1);
                let (low, high) = (dtypes::index(low), dtypes::index(high));
                format!("rx_i32_of_{of}({value}, {low}, {high})")
            }
            DType::U8 | DType::U16 | DType::U32 => {
                let high = (1_u64 << (to.size() * 8)) - 1;
                format!("rx_u32_of_{of}({value}, {high}u)")
            }
        }
    }
}

/// Whether a value is a difference or a quotient, or one of its parts is.
pub(crate) fn subtracts(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| {
        found |= matches!(
            part,
            TExpr::Binary(BinOp::Sub | BinOp::Div, _) | TExpr::Unary(UnOp::Negate, _)
        );
    });
    found
}

/// What an operation of integers gives, in its width.
pub(crate) fn wrapped(dtype: DType, text: String) -> String {
    match dtype {
        DType::I8 => format!("(({text} << 24u) >> 24u)"),
        DType::I16 => format!("(({text} << 16u) >> 16u)"),
        DType::U8 => format!("({text} & 0xffu)"),
        DType::U16 => format!("({text} & 0xffffu)"),
        _ => text,
    }
}

/// What an operation of floats gives, in its dtype.
pub(crate) fn rounded(dtype: DType, text: String) -> String {
    if is_half(dtype) { format!("rx_round_{dtype}({text})") } else { text }
}
