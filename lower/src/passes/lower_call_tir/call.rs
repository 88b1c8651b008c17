//! A call of a tensor program, as far as the text spells it out.

use relax_rewrite::tir_call::spelled_dims;
use relax_semantics::ops::{Literal, bind, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Callee, Expr};

/// Dims and element type of an output.
pub(in super::super) type Output = (Vec<Dim>, DType);

/// `call_tir`, or `call_tir_inplace`.
pub(in super::super) struct TirCall {
    pub(in super::super) program: Name,
    /// Tensors.
    pub(in super::super) inputs: Vec<Atom>,
    /// The element types of the inputs.
    pub(in super::super) dtypes: Vec<DType>,
    /// Dims and element types of the outputs.
    pub(in super::super) outputs: Vec<Output>,
    /// Whether it gives a tuple.
    pub(in super::super) is_list: bool,
    /// For each output of `call_tir_inplace` the input that it is; `None` for a fresh one.
    pub(in super::super) in_place: Vec<Option<usize>>,
    pub(in super::super) scalars: Vec<Dim>,
}

impl TirCall {
    /// `None` where an argument or an output is a value that only the run knows.
    pub(in super::super) fn read(binding: &Binding, annotations: &[Annotation]) -> Option<Self> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let row = lookup(name)?;
        let given =
            |literal: Literal| if literal == Literal::None { Atom::None } else { default(literal) };
        let bound = bind(row, args.clone(), attrs.clone(), &given).ok()?;
        let at = |param: &str| row.params.iter().position(|p| p.name == param).map(|at| &bound[at]);
        let Some(Atom::Global(program)) = at("func") else { return None };
        let inputs = items(at("args")?)?;
        let dtype = |atom: &Atom| element_type(atom, annotations);
        let dtypes = inputs.iter().map(dtype).collect::<Option<_>>()?;
        let (outputs, is_list) = outputs(at("out")?)?;
        let in_place = at("inplace").map_or(Some(Vec::new()), positions)?;
        let scalars = at("sym_args").map_or(Some(Vec::new()), |atom| match atom {
            Atom::Var(var) => match &annotations[var.0 as usize] {
                Annotation::Shape(extents) => extents.dims().map(<[Dim]>::to_vec),
                _ => None,
            },
            spelled => dims(spelled),
        })?;
        let program = program.clone();
        Some(Self { program, inputs, dtypes, outputs, is_list, in_place, scalars })
    }
}

fn default(literal: Literal) -> Atom {
    match literal {
        Literal::Int(value) => Atom::Dim(Dim::Int(value)),
        _ => Atom::None,
    }
}

/// Several tensors, or one.
fn items(atom: &Atom) -> Option<Vec<Atom>> {
    let items = match atom {
        Atom::Tuple(items) | Atom::List(items) => items.clone(),
        single => vec![single.clone()],
    };
    let is_tensor =
        |atom: &Atom| matches!(atom, Atom::Var(_) | Atom::Constant(_) | Atom::External(_));
    items.iter().all(is_tensor).then_some(items)
}

pub(super) fn element_type(atom: &Atom, annotations: &[Annotation]) -> Option<DType> {
    match atom {
        Atom::Var(var) => annotations[var.0 as usize].as_tensor()?.dtype,
        Atom::Constant(constant) => Some(constant.dtype),
        Atom::External(external) => external.annotation.as_tensor()?.dtype,
        _ => None,
    }
}

fn outputs(atom: &Atom) -> Option<(Vec<Output>, bool)> {
    let single = |annotation: &Annotation| {
        // A distributed tensor is none of this process alone.
        let Annotation::Tensor(tensor) = annotation else { return None };
        Some((tensor.extents.dims()?.to_vec(), tensor.dtype?))
    };
    let of_item = |item: &Atom| match item {
        Atom::Annotation(annotation) => single(annotation),
        _ => None,
    };
    match atom {
        Atom::Annotation(annotation) => match &**annotation {
            Annotation::Tuple(items) => {
                Some((items.iter().map(single).collect::<Option<_>>()?, true))
            }
            one => Some((vec![single(one)?], false)),
        },
        Atom::List(items) | Atom::Tuple(items) => {
            Some((items.iter().map(of_item).collect::<Option<_>>()?, true))
        }
        _ => None,
    }
}

fn dims(atom: &Atom) -> Option<Vec<Dim>> {
    match atom {
        Atom::None => Some(Vec::new()),
        Atom::Dim(dim) => Some(vec![dim.clone()]),
        list => spelled_dims(list),
    }
}

fn positions(atom: &Atom) -> Option<Vec<Option<usize>>> {
    let literals = dims(atom)?.into_iter().map(|dim| dim.as_int());
    literals.map(|value| Some(usize::try_from(value?).ok())).collect()
}
