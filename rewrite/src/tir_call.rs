//! Calls of tensor programs, as the passes read them.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::is_atomic;
use relax_syntax::ir::{Atom, Callee, Expr};
use std::sync::Arc;

const CALL_TIR: &str = "call_tir";

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
        let AnyTirCall { program, args, out, scalars } = AnyTirCall::of(expr)?;
        let Atom::Annotation(out) = out else { return None };
        let Annotation::Tensor(tensor) = &**out else { return None };
        let is_known = tensor.dtype.is_some() && tensor.extents.dims().is_some();
        is_known.then_some(Self { program, args, out, scalars })
    }
}

/// A `call_tir` with any outputs.
pub(crate) struct AnyTirCall<'e> {
    pub(crate) program: &'e Name,
    pub(crate) args: &'e [Atom],
    /// An annotation, or a list of them.
    out: &'e Atom,
    /// Values of the scalars that the program takes beside its buffers.
    pub(crate) scalars: Vec<Dim>,
}

impl<'e> AnyTirCall<'e> {
    /// `None`: something else, or its operands do not stand in the call.
    pub(crate) fn of(expr: &'e Expr) -> Option<Self> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = expr else { return None };
        if name != CALL_TIR {
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
        let out = operand(2, ["out", "out_sinfo"])?;
        let flat = args.iter().all(|arg| !matches!(arg, Atom::Tuple(_) | Atom::List(_)));
        let scalars = match operand(3, ["sym_args", "tir_vars"]) {
            None | Some(Atom::None) => Vec::new(),
            Some(atom) => spelled_dims(atom)?,
        };
        flat.then_some(Self { program, args, out, scalars })
    }

    /// The annotation of its result: a tuple for a list of outputs.
    pub(crate) fn result(&self) -> Option<Annotation> {
        let one = |atom: &Atom| match atom {
            Atom::Annotation(out) => Some((**out).clone()),
            _ => None,
        };
        match self.out {
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().map(one).collect::<Option<_>>().map(Annotation::Tuple)
            }
            atom => one(atom),
        }
    }
}

/// A call of a tensor program that takes no scalars.
pub(crate) fn call_tir(program: Name, args: Vec<Atom>, result: Annotation) -> Expr {
    let one = |out| Atom::Annotation(Arc::new(out));
    let out = match result {
        Annotation::Tuple(fields) => Atom::List(fields.into_iter().map(one).collect()),
        result => one(result),
    };
    let callee = Callee::Operator(Name::new(CALL_TIR));
    let args = vec![Atom::Global(program), Atom::List(args), out];
    Expr::Call { callee, args, attrs: Vec::new() }
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
