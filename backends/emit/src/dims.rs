//! Dims as C: unchecked where the boundary has compared them with an extent, checked where they are new.

use crate::outline::Shared;
use crate::printer::Printer;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::tensor::BufferId;
use std::fmt::Write;

impl Printer<'_, '_> {
    /// A dim whose value is known to be there.
    pub(crate) fn dim_text(&self, dim: &Dim) -> String {
        match dim {
            Dim::Int(value) => crate::dtypes::integer(relax_syntax::dtype::DType::I64, *value),
            Dim::Var(name) => self.dims[name].clone(),
            Dim::Op(op, operands) => {
                let (a, b) = (self.dim_text(&operands.0), self.dim_text(&operands.1));
                match op {
                    DimOp::Add | DimOp::Sub | DimOp::Mul => format!("({a} {} {b})", op.symbol()),
                    _ => format!("{}({a}, {b})", function(*op)),
                }
            }
        }
    }

    /// A dim of which each step is checked: `stop` is what C does where there is no value.
    pub(crate) fn checked_dim(&mut self, dim: &Dim, stop: &str, lines: &mut Vec<String>) -> String {
        let Dim::Op(op, operands) = dim else { return self.dim_text(dim) };
        let a = self.checked_dim(&operands.0, stop, lines);
        let b = self.checked_dim(&operands.1, stop, lines);
        let name = self.names.fresh("d");
        match op {
            DimOp::Add | DimOp::Sub | DimOp::Mul => {
                let builtin = overflow_builtin(*op);
                lines.push(format!("int64_t {name};"));
                lines.push(format!("if ({builtin}((int64_t){a}, (int64_t){b}, &{name})) {stop}"));
            }
            DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv => {
                let overflows = match op {
                    DimOp::FloorMod => String::new(),
                    _ => format!(" || ({a} == INT64_MIN && {b} == -1)"),
                };
                lines.push(format!("if ({b} == 0{overflows}) {stop}"));
                lines.push(format!("const int64_t {name} = {}({a}, {b});", function(*op)));
            }
            DimOp::Min | DimOp::Max => {
                lines.push(format!("const int64_t {name} = {}({a}, {b});", function(*op)));
            }
        }
        name
    }

    /// The extents of a buffer as C.
    pub(crate) fn extent_names(&self, buffer: BufferId) -> Vec<String> {
        let shape = self.program.buffer(buffer).shape.iter().enumerate();
        shape
            .map(|(axis, dim)| match self.computed.get(&(buffer, axis)) {
                Some(name) => name.clone(),
                None => self.dim_text(dim),
            })
            .collect()
    }

    /// Names for the extents of parameters that are expressions.
    pub(crate) fn computed_extents(&mut self) -> String {
        let mut text = String::new();
        for buffer in self.program_buffers() {
            let info = self.program.buffer(buffer);
            for (axis, dim) in info.shape.iter().enumerate() {
                if matches!(dim, Dim::Op(..)) {
                    let name = self.names.fresh(&format!("{}_d{axis}", info.name));
                    let _ = writeln!(text, "    const int64_t {name} = {};", self.dim_text(dim));
                    self.shared.push(Shared { of: "int64_t".to_owned(), name: name.clone() });
                    self.computed.insert((buffer, axis), name);
                }
            }
        }
        text
    }
}

fn function(op: DimOp) -> &'static str {
    match op {
        DimOp::FloorDiv => "rx_floordiv_i64",
        DimOp::FloorMod => "rx_floormod_i64",
        DimOp::CeilDiv => "rx_ceildiv_i64",
        DimOp::Min => "rx_min_i64",
        DimOp::Max | DimOp::Add | DimOp::Sub | DimOp::Mul => "rx_max_i64",
    }
}

fn overflow_builtin(op: DimOp) -> &'static str {
    match op {
        DimOp::Sub => "__builtin_sub_overflow",
        DimOp::Mul => "__builtin_mul_overflow",
        _ => "__builtin_add_overflow",
    }
}
