//! Calls of tensor programs, as the passes read them.

use crate::dims::is_atomic;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Callee, Expr};

/// A `call_tir` that gives one tensor of known dims.
pub(crate) struct TirCall<'e> {
    pub(crate) program: &'e Name,
    pub(crate) args: &'e [Atom],
    pub(crate) out: &'e Annotation,
    /// Values of the scalars that the program takes beside its buffers.
    pub(crate) scalars: Vec<Dim>,
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
        let scalars = match operand(3, ["sym_args", "tir_vars"]) {
            None | Some(Atom::None) => Vec::new(),
            Some(atom) => spelled_dims(atom)?,
        };
        let is_one = matches!(**out, Annotation::Tensor(_));
        (known && flat && is_one).then_some(Self { program, args, out, scalars })
    }
}

/// The dims of a list of scalars, where they are spelled.
#[must_use]
pub fn spelled_dims(atom: &Atom) -> Option<Vec<Dim>> {
    let items = match atom {
        // The call stops where an extent is negative, which a list may be.
        Atom::Shape(dims) if dims.iter().all(is_atomic) => return Some(dims.clone()),
        Atom::Tuple(items) | Atom::List(items) => items,
        _ => return None,
    };
    let each = items.iter().map(|item| match item {
        Atom::Dim(dim) => Some(dim.clone()),
        _ => None,
    });
    each.collect()
}

/// Whether every output of a `call_tir_inplace` stands in the place of an argument.
pub(crate) fn has_no_fresh_output(expr: &Expr) -> bool {
    let Expr::Call { args, attrs, .. } = expr else { return false };
    let named = attrs
        .iter()
        .find(|(key, _)| key == "inplace" || key == "inplace_indices")
        .map(|(_, atom)| atom);
    let places = args.get(2).or(named).and_then(spelled_dims);
    places.is_some_and(|places| places.iter().all(|place| place.as_int().is_some_and(|at| at >= 0)))
}
