//! Calls of tensor programs that passes reason about: one result, its dims and dtype known, and the
//! operands spelled out.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Callee, Expr};

/// A `call_tir` that gives one tensor of known dims.
pub(crate) struct TirCall<'e> {
    pub(crate) program: &'e Name,
    pub(crate) args: &'e [Atom],
    pub(crate) out: &'e Annotation,
}

impl<'e> TirCall<'e> {
    /// `None`: something else, or its operands do not stand in the call.
    pub(crate) fn of(expr: &'e Expr) -> Option<Self> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = expr else { return None };
        if name != "call_tir" {
            return None;
        }
        let operand = |position: usize, names: [&str; 2]| {
            let named = attrs.iter().find(|(key, _)| names.iter().any(|name| key == *name));
            args.get(position).or(named.map(|(_, atom)| atom))
        };
        let Atom::Global(program) = operand(0, ["func", "gvar"])? else { return None };
        let (Atom::Tuple(args) | Atom::List(args)) = operand(1, ["args", "args"])? else {
            return None;
        };
        let Atom::Annotation(out) = operand(2, ["out", "out_sinfo"])? else { return None };
        let tensor = out.as_tensor()?;
        let known = tensor.dtype.is_some() && tensor.extents.dims().is_some();
        let flat = args.iter().all(|arg| !matches!(arg, Atom::Tuple(_) | Atom::List(_)));
        (known && flat && matches!(**out, Annotation::Tensor(_))).then_some(Self {
            program,
            args,
            out,
        })
    }
}
