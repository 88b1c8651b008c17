//! The function that is called: symbolic variables are bound from the shapes that came, left to right,
//! then everything declared is compared with what came, as `relax_semantics::tir` does it. Last it takes the steps of the
//! kernel from those that are left.

use crate::dtypes;
use crate::message::Message;
use crate::printer::Printer;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::DimVar;
use relax_syntax::ir::tensor::{Param, Stmt};
use std::collections::BTreeSet;
use std::fmt::Write;

impl Printer<'_, '_> {
    /// The whole function.
    pub(crate) fn boundary(&mut self, symbol: &str, body: &[Stmt]) -> String {
        let mut bound = BTreeSet::new();
        let (mut lines, mut later, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tensors, mut ints) = (0, 0);
        let program = self.program;
        let mut scalars = Vec::new();
        for param in &program.params {
            match param {
                Param::Buffer(id) => {
                    let info = program.buffer(*id);
                    for (axis, dim) in info.shape.iter().enumerate() {
                        let actual = format!("tensors[{tensors}].shape[{axis}]");
                        match dim {
                            Dim::Var(name) if bound.insert(name.clone()) => {
                                lines
                                    .push(format!("const int64_t {} = {actual};", self.dims[name]));
                            }
                            _ => later.push((info.name.clone(), axis, dim, actual)),
                        }
                    }
                    let of = dtypes::stored(info.dtype);
                    arguments.push(format!("({of} *)tensors[{tensors}].data"));
                    tensors += 1;
                }
                Param::Scalar(_) => {
                    scalars.push(format!("ints[{ints}]"));
                    ints += 1;
                }
                Param::Dim(name) => {
                    if bound.insert(name.clone()) {
                        lines.push(format!("const int64_t {} = ints[{ints}];", self.dims[name]));
                    } else {
                        let message = format!(
                            "`{name}` is passed as another value than the buffers before it have"
                        );
                        let site = self.site("boundary/dim", message);
                        let own = &self.dims[name];
                        lines.push(format!("if (ints[{ints}] != {own}) return {site};"));
                    }
                    ints += 1;
                }
            }
        }
        for (name, axis, dim, actual) in later {
            self.compared_extent(&name, (axis, dim), &actual, &mut lines);
        }
        for dim in program.dims.iter().filter(|dim| bound.contains(&dim.name)) {
            self.declared_facts(dim, &mut lines);
        }
        let maps = self.maps();
        let map = |(at, _)| format!("(uint8_t *)tensors[{}].data", tensors + at);
        arguments.extend(maps.map(map));
        arguments.extend(self.dims.values().cloned());
        arguments.extend(scalars);
        arguments.extend(self.steps.iter().map(|_| "rx_left(threads)".to_owned()));
        let mut text = format!(
            "int32_t {symbol}(const rx_tensor *tensors, const int64_t *ints, const rx_threads *threads) {{\n    (void)tensors, (void)ints;\n"
        );
        for line in lines {
            let _ = writeln!(text, "    {line}");
        }
        text.push_str(&self.take_steps_at_call(body));
        arguments.insert(0, "threads".to_owned());
        let _ = writeln!(text, "    return {symbol}_body({});\n}}", arguments.join(", "));
        text
    }

    /// Stops where an extent is not what its dim says.
    fn compared_extent(
        &mut self,
        name: &Name,
        (axis, dim): (usize, &Dim),
        actual: &str,
        lines: &mut Vec<String>,
    ) {
        let site = self.site("boundary/dim", format!("dim {axis} of `{name}` is not {dim}"));
        let value = self.checked_dim(dim, &format!("return {site};"), lines);
        let message = match dim.as_int() {
            Some(extent) => {
                let words = format!("dim {axis} of `{name}` is {extent}, found {{}}");
                Message::with(words, vec![actual.to_owned()])
            }
            None => {
                let words = format!("dim {axis} of `{name}` is {dim} = {{}}, found {{}}");
                Message::with(words, vec![value.clone(), actual.to_owned()])
            }
        };
        let (site, note) = self.noted("boundary/dim", message);
        lines.push(format!("if ({actual} != {value}) {{ {note}return {site}; }}"));
    }

    /// What a `sym_var` line declares; without one, at least 0.
    fn declared_facts(&mut self, dim: &DimVar, lines: &mut Vec<String>) {
        let (name, own) = (&dim.name, self.dims[&dim.name].clone());
        let lower = dim.lower.unwrap_or(0).max(0);
        let mut stop = |trap: &str, words: String, condition: &str| {
            let message = Message::with(format!("{words}, found {{}}"), vec![own.clone()]);
            let (site, note) = self.noted(trap, message);
            lines.push(format!("if ({condition}) {{ {note}return {site}; }}"));
        };
        stop("bound/lower", format!("`{name}` is at least {lower}"), &format!("{own} < {lower}"));
        if let Some(upper) = dim.upper {
            let condition = format!("{own} > INT64_C({upper})");
            stop("bound/upper", format!("`{name}` is at most {upper}"), &condition);
        }
        if let Some(divisor) = dim.multiple_of {
            let condition = format!("rx_floormod_i64({own}, {divisor}) != 0");
            stop("bound/multiple_of", format!("`{name}` is a multiple of {divisor}"), &condition);
        }
    }
}
