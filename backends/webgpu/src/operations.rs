//! Operations on two values of one dtype.

use crate::Doubles;
use crate::dtypes::{self, held, is_wide};
use crate::expressions::{rounded, wrapped};
use crate::printer::Printer;
use relax_emit::symbol;
use relax_semantics::tir::ranges::is_comparison;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::BinOp;

impl Printer<'_, '_> {
    /// `a op b`; integers wrap.
    pub(crate) fn operation(&mut self, op: BinOp, dtype: DType, a: &str, b: &str) -> String {
        match dtype.class() {
            Class::Float => self.float_operation(op, dtype, a, b),
            Class::Bool => {
                let symbol = match op {
                    BinOp::BitXor | BinOp::NotEqual => "!=",
                    BinOp::BitAnd => "&&",
                    BinOp::BitOr => "||",
                    _ => "==",
                };
                format!("(({a}) {symbol} ({b}))")
            }
            _ => match op {
                BinOp::FloorDiv | BinOp::Mod => self.division(op, dtype, a, b),
                BinOp::ShiftLeft | BinOp::ShiftRight => self.shift(op, dtype, a, b),
                _ if is_wide(dtype) => wide(op, dtype, a, b),
                BinOp::Min => format!("min({a}, {b})"),
                BinOp::Max => format!("max({a}, {b})"),
                _ => {
                    let text = format!("({a} {} {b})", symbol(op));
                    if is_arithmetic(op) { wrapped(dtype, text) } else { text }
                }
            },
        }
    }

    /// Floats that a device divides within some units are divided in f64 where there is one.
    fn float_operation(&mut self, op: BinOp, dtype: DType, a: &str, b: &str) -> String {
        let doubled = dtype == DType::F64 && self.formats.doubles == Doubles::Native;
        let of = if doubled { "f64" } else { "f32" };
        let called = match op {
            BinOp::FloorDiv => "floordiv",
            BinOp::Mod => "floormod",
            BinOp::Equal | BinOp::NotEqual if a == b && !doubled => {
                let symbol = if op == BinOp::Equal { "!" } else { "" };
                return format!("{symbol}rx_is_nan({a})");
            }
            // Devices that compare NaN in order say that it is not unlike itself.
            BinOp::NotEqual => return format!("!rx_truth({a} == {b})"),
            _ if is_comparison(op) => return format!("rx_truth({a} {} {b})", symbol(op)),
            BinOp::Min => return format!("rx_min_{of}({a}, {b})"),
            BinOp::Max => return format!("rx_max_{of}({a}, {b})"),
            BinOp::Div if self.formats.doubles == Doubles::Native && !doubled => {
                return self.cast(DType::F64, dtype, &format!("(f64(rx_keep({a})) / f64({b}))"));
            }
            BinOp::Div if !doubled => {
                return rounded(dtype, format!("rx_div_f32(rx_keep({a}), {b})"));
            }
            _ => {
                let is_kept = matches!(op, BinOp::Sub | BinOp::Div);
                let a = if is_kept { self.kept(dtype, a.to_owned()) } else { a.to_owned() };
                let text = format!("({a} {} {b})", symbol(op));
                return if is_arithmetic(op) { rounded(dtype, text) } else { text };
            }
        };
        if self.formats.doubles == Doubles::Native {
            let text = match doubled {
                true => format!("rx_{called}_f64({a}, {b})"),
                false => format!("rx_{called}_f64(f64({a}), f64({b}))"),
            };
            return self.cast(DType::F64, dtype, &text);
        }
        rounded(dtype, format!("rx_{called}_f32({a}, {b})"))
    }

    fn division(&mut self, op: BinOp, dtype: DType, a: &str, b: &str) -> String {
        let a = self.temporary(a);
        let b = self.temporary(b);
        let (of, one) =
            (held(dtype, self.formats.doubles), dtypes::integer(dtype, 1, self.formats.doubles));
        let zero = match dtype {
            _ if is_wide(dtype) => format!("rx_equal_64({b}, vec2<u32>(0u, 0u))"),
            _ => format!("{b} == {of}(0)"),
        };
        let zero = self.temporary(&zero);
        self.stop_if(&zero);
        let b = match dtype {
            _ if is_wide(dtype) => {
                self.temporary(&format!("select({b}, {one}, vec2<bool>({zero}))"))
            }
            _ => self.temporary(&format!("select({b}, {one}, {zero})")),
        };
        let name = if op == BinOp::FloorDiv { "floordiv" } else { "floormod" };
        match dtype.class() {
            _ if is_wide(dtype) => format!("rx_{name}_{dtype}({a}, {b})"),
            Class::Unsigned => {
                format!("({a} {} {b})", if op == BinOp::FloorDiv { "/" } else { "%" })
            }
            _ => wrapped(dtype, format!("rx_{name}_i32({a}, {b})")),
        }
    }

    fn shift(&mut self, op: BinOp, dtype: DType, a: &str, b: &str) -> String {
        let bits = dtype.size() * 8;
        let count = match dtype.class() {
            _ if is_wide(dtype) => {
                let count = self.temporary(b);
                self.temporary(&format!("select({count}.x, 64u, {count}.y != 0u)"))
            }
            _ => self.temporary(&format!("u32({b})")),
        };
        let outside = self.temporary(&format!("{count} >= {bits}u"));
        self.stop_if(&outside);
        let count = format!("min({count}, {}u)", bits - 1);
        let left = op == BinOp::ShiftLeft;
        if is_wide(dtype) {
            let name = if left { "rx_shl_64".to_owned() } else { format!("rx_shr_{dtype}") };
            return format!("{name}({a}, {count})");
        }
        wrapped(dtype, format!("({a} {} {count})", if left { "<<" } else { ">>" }))
    }
}

fn wide(op: BinOp, dtype: DType, a: &str, b: &str) -> String {
    match op {
        BinOp::Add => format!("rx_add_64({a}, {b})"),
        BinOp::Sub => format!("rx_sub_64({a}, {b})"),
        BinOp::Mul => format!("rx_mul_64({a}, {b})"),
        BinOp::Min => format!("rx_least_{dtype}({a}, {b})"),
        BinOp::Max => format!("rx_most_{dtype}({a}, {b})"),
        BinOp::Equal => format!("rx_equal_64({a}, {b})"),
        BinOp::NotEqual => format!("!rx_equal_64({a}, {b})"),
        BinOp::Less => format!("rx_less_{dtype}({a}, {b})"),
        BinOp::Greater => format!("rx_less_{dtype}({b}, {a})"),
        BinOp::LessEqual => format!("!rx_less_{dtype}({b}, {a})"),
        BinOp::GreaterEqual => format!("!rx_less_{dtype}({a}, {b})"),
        _ => format!("({a} {} {b})", symbol(op)),
    }
}

fn is_arithmetic(op: BinOp) -> bool {
    matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div)
}
