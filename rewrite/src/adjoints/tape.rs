//! The tape of a backward computation: bindings in order, each with the annotation that is deduced of it.

use crate::dims::same_dims;
use crate::names::Names;
use crate::passes::fold_constant::constant_of;
use relax_semantics::ops::lookup;
use relax_semantics::ops::traps::calls::{deduced, operand};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::{Answer, Facts};
use relax_syntax::ir::{Atom, Binding, Callee, Expr, VarId, VarInfo};
use relax_syntax::span::Span;
use std::sync::Arc;

/// A value, or why the adjoint of a call cannot be made.
pub(crate) type Made<T> = Result<T, String>;

/// A keyword argument.
pub(crate) type Keyword = (&'static str, Atom);

pub(crate) struct Tape<'a> {
    /// Variables of the function, those of the tape after its own.
    pub(crate) vars: Vec<VarInfo>,
    /// Of each variable.
    pub(crate) types: Vec<Annotation>,
    pub(crate) names: Names,
    pub(crate) facts: &'a mut dyn Facts,
    pub(crate) bindings: Vec<Binding>,
    /// The place of the call whose adjoint is made.
    pub(crate) span: Span,
}

impl Tape<'_> {
    pub(crate) fn bind(&mut self, name: &str, expr: Expr, found: Annotation) -> Atom {
        let var = self.variable(name, found);
        self.bindings.push(Binding { var, expr });
        Atom::Var(var)
    }

    /// A new variable, which the caller binds.
    pub(crate) fn variable(&mut self, name: &str, found: Annotation) -> VarId {
        let name = self.names.fresh(name);
        self.named_variable(name, found)
    }

    /// The same under a name that the caller chose.
    pub(crate) fn named_variable(&mut self, name: Name, found: Annotation) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name, annotation: None, span: self.span });
        self.types.push(found);
        var
    }

    /// 0, 1, … below an extent, in i64.
    pub(crate) fn iota(&mut self, extent: &Dim) -> Made<Atom> {
        let end = Atom::Dim(extent.clone());
        self.call("arange", &[&int(0), &end, &int(1), &dtype_atom(DType::I64)])
    }

    pub(crate) fn call(&mut self, op: &str, args: &[&Atom]) -> Made<Atom> {
        self.call_with(op, args, Vec::new())
    }

    pub(crate) fn call_with(
        &mut self,
        op: &str,
        args: &[&Atom],
        keywords: Vec<Keyword>,
    ) -> Made<Atom> {
        let row = lookup(op).expect("invariant: adjoints call operators of the table");
        let args: Vec<Atom> = args.iter().map(|&arg| arg.clone()).collect();
        let attrs: Vec<(Name, Atom)> =
            keywords.into_iter().map(|(key, value)| (Name::new(key), value)).collect();
        let found = deduced(row, (&args, &attrs), &self.types, self.facts);
        let (found, _) =
            found.ok_or_else(|| format!("a call of `{}` in it is refused", row.short_name()))?;
        let callee = Callee::Operator(Name::new(row.short_name()));
        let name = format!("d_{}", row.short_name().replace('.', "_"));
        Ok(self.bind(&name, Expr::Call { callee, args, attrs }, found))
    }

    pub(crate) fn annotation(&self, atom: &Atom) -> Annotation {
        operand(atom, &self.types).annotation
    }

    fn tensor(&self, atom: &Atom) -> Option<TensorType> {
        self.annotation(atom).as_tensor().cloned()
    }

    pub(crate) fn dims(&self, atom: &Atom) -> Option<Vec<Dim>> {
        Some(self.tensor(atom)?.extents.dims()?.to_vec())
    }

    pub(crate) fn known_dims(&self, atom: &Atom) -> Made<Vec<Dim>> {
        self.dims(atom).ok_or_else(|| "the dims of an operand are not known".to_owned())
    }

    pub(crate) fn rank(&self, atom: &Atom) -> Made<usize> {
        let rank = self.tensor(atom).and_then(|tensor| tensor.extents.rank());
        rank.ok_or_else(|| "the rank of an operand is not known".to_owned())
    }

    pub(crate) fn dtype(&self, atom: &Atom) -> Made<DType> {
        let dtype = self.tensor(atom).and_then(|tensor| tensor.dtype);
        dtype.ok_or_else(|| "the dtype of an operand is not known".to_owned())
    }

    /// The shape of a tensor: its dims, or a value that is read from it where they are not known, or where a step of
    /// their evaluation could leave i64.
    pub(crate) fn shape(&mut self, atom: &Atom) -> Made<Atom> {
        match self.dims(atom).filter(|dims| dims.iter().all(evaluates_when_it_fits)) {
            Some(dims) => Ok(Atom::Shape(dims)),
            None => self.call("shape_of", &[atom]),
        }
    }

    pub(crate) fn number(value: f64, dtype: DType) -> Atom {
        let number =
            if dtype.is_float() { Number::Float(value) } else { Number::Int(value as i128) };
        Atom::Constant(Arc::new(constant_of(&Tensor::scalar(dtype, number))))
    }

    /// An integer as a tensor of rank 0; none where the dtype does not have it.
    pub(crate) fn whole(value: i64, dtype: DType) -> Option<Atom> {
        let value = i128::from(value);
        let bits = 8 * dtype.size();
        let (low, high) = match dtype.class() {
            Class::Signed => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
            Class::Unsigned => (0, (1_i128 << bits) - 1),
            Class::Float | Class::Bool => return None,
        };
        (low..=high).contains(&value).then(|| {
            Atom::Constant(Arc::new(constant_of(&Tensor::scalar(dtype, Number::Int(value)))))
        })
    }

    /// A tensor of rank 0 that holds the value of a dim.
    pub(crate) fn scalar(&mut self, dim: &Dim, dtype: DType) -> Made<Atom> {
        match dim {
            // The interpreter of constants keeps integers exact; a float of that size rounds once either way.
            Dim::Int(value) => Ok(Self::number(*value as f64, dtype)),
            dim => self.call(
                "full",
                &[&Atom::Shape(Vec::new()), &Atom::Dim(dim.clone()), &dtype_atom(dtype)],
            ),
        }
    }

    pub(crate) fn zeros(&mut self, dims: Vec<Dim>, dtype: DType) -> Made<Atom> {
        self.call("zeros", &[&Atom::Shape(dims), &dtype_atom(dtype)])
    }

    pub(crate) fn cast(&mut self, value: &Atom, dtype: DType) -> Made<Atom> {
        if self.dtype(value) == Ok(dtype) {
            return Ok(value.clone());
        }
        self.call("astype", &[value, &dtype_atom(dtype)])
    }

    pub(crate) fn reshape(&mut self, value: &Atom, dims: Vec<Dim>) -> Made<Atom> {
        if self.dims(value).as_ref() == Some(&dims) {
            return Ok(value.clone());
        }
        self.call("reshape", &[value, &Atom::Shape(dims)])
    }

    pub(crate) fn permute(&mut self, value: &Atom, axes: &[usize]) -> Made<Atom> {
        if axes.iter().enumerate().all(|(at, &axis)| at == axis) {
            return Ok(value.clone());
        }
        self.call("permute_dims", &[value, &axes_atom(axes)])
    }

    pub(crate) fn equal(&mut self, a: &Dim, b: &Dim) -> bool {
        self.facts.equal(a, b) == Answer::Proved
    }

    /// A cotangent with the shape and dtype of what it is of: summed over the axes along which the
    /// operand was stretched. Which these are is decided by the dims where they are proved equal, and
    /// by the extents when the program runs where they are not: `n` may be 1 by accident.
    pub(crate) fn fit(&mut self, cotangent: &Atom, of: &Atom) -> Made<Atom> {
        let fitted = match (self.dims(cotangent), self.dims(of)) {
            (Some(own), Some(dims)) if same_dims(self.facts, &own, &dims) => cotangent.clone(),
            (_, Some(dims)) if dims.iter().all(evaluates_when_it_fits) => {
                self.call("collapse_sum_to", &[cotangent, &Atom::Shape(dims)])?
            }
            _ => self.call("collapse_sum_like", &[cotangent, of])?,
        };
        let dtype = self.dtype(of)?;
        self.cast(&fitted, dtype)
    }

    /// A field of a tuple.
    pub(crate) fn field(&mut self, tuple: &Atom, at: usize) -> Atom {
        if let Atom::Tuple(items) | Atom::List(items) = tuple {
            return items[at].clone();
        }
        let found = match self.annotation(tuple) {
            Annotation::Tuple(fields) => fields.get(at).cloned().unwrap_or(Annotation::Object),
            _ => Annotation::Object,
        };
        self.bind("d_field", Expr::Get(tuple.clone(), at), found)
    }
}

pub(crate) fn dtype_atom(dtype: DType) -> Atom {
    Atom::Str(Name::new(dtype.name()))
}

pub(crate) fn axes_atom(axes: &[usize]) -> Atom {
    Atom::List(axes.iter().map(|&axis| int(axis)).collect())
}

pub(crate) fn int(value: usize) -> Atom {
    Atom::Dim(Dim::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

pub(crate) fn times(a: &Dim, b: &Dim) -> Dim {
    Dim::op(DimOp::Mul, a.clone(), b.clone())
}

pub(crate) fn plus(a: &Dim, b: &Dim) -> Dim {
    Dim::op(DimOp::Add, a.clone(), b.clone())
}

pub(crate) fn minus(a: &Dim, b: &Dim) -> Dim {
    Dim::op(DimOp::Sub, a.clone(), b.clone())
}

/// Whether a value of this annotation can be one of floats.
pub(crate) fn may_be_float(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(_) | Annotation::DTensor(_) => {
            annotation.as_tensor().is_some_and(|tensor| tensor.dtype.is_none_or(DType::is_float))
        }
        Annotation::Tuple(items) => items.iter().any(may_be_float),
        Annotation::Object => true,
        Annotation::Prim(_) | Annotation::Shape(_) | Annotation::Callable(_) => false,
    }
}

/// An annotation without the dims that mention other variables than these.
pub(crate) fn over(annotation: &Annotation, known: &dyn Fn(&Name) -> bool) -> Annotation {
    match annotation {
        Annotation::Tensor(TensorType { extents: Extents::Known(dims), dtype })
            if !dims.iter().all(|dim| dim.vars_all(known)) =>
        {
            Annotation::Tensor(TensorType { extents: Extents::Rank(dims.len()), dtype: *dtype })
        }
        Annotation::Tuple(items) => {
            Annotation::Tuple(items.iter().map(|item| over(item, known)).collect())
        }
        other => other.clone(),
    }
}
