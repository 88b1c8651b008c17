//! Checks of values against annotations: each either holds for all dims, or is noted as what may stop the program.

use super::evaluate::{Ran, Scope, Side, declared};
use super::stops::Stop;
use super::values::{Id, Value};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Counterexample, Relation};

impl Side<'_> {
    /// Notes a claim that must hold for the program to go on, and takes it for granted from there on.
    pub(super) fn demand(&mut self, claim: Claim) {
        // One on numbers needs no proof.
        let is_calculated = claim.holds(&Counterexample::new()) == Some(true);
        if !is_calculated && self.facts.decide(&claim) != Answer::Proved {
            self.stop(Stop::Claim(claim.clone()));
            self.learnt |= !self.branch.is_empty();
            self.facts.assume(claim);
        }
    }

    /// Notes that a dim that is computed must have a value. Dims are integers of any size here.
    pub(super) fn needs_value(&mut self, dim: &Dim) {
        let Dim::Op(op, sides) = dim else { return };
        self.needs_value(&sides.0);
        self.needs_value(&sides.1);
        if matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv) {
            self.demand(Claim::new(sides.1.clone(), Relation::NotEqual, 0));
        }
    }

    /// Notes that dims of a shape that is computed must have values that are not negative.
    pub(super) fn needs_extents(&mut self, dims: &[Dim]) {
        for dim in dims {
            self.needs_value(dim);
            if !self.is_extent(dim) {
                self.demand(Claim::new(0, Relation::AtMost, dim.clone()));
            }
        }
    }

    /// Whether a dim is known not to be negative, as a sum, product, part, least or greatest of such dims is.
    fn is_extent(&mut self, dim: &Dim) -> bool {
        if let Dim::Op(DimOp::Add | DimOp::Mul | DimOp::Min | DimOp::Max, sides) = dim
            && self.is_extent(&sides.0)
            && self.is_extent(&sides.1)
        {
            return true;
        }
        if let Dim::Op(DimOp::FloorDiv | DimOp::CeilDiv, sides) = dim
            && matches!(sides.1, Dim::Int(1..))
            && self.is_extent(&sides.0)
        {
            return true;
        }
        let claim = Claim::new(0, Relation::AtMost, dim.clone());
        claim.holds(&Counterexample::new()) == Some(true)
            || self.facts.decide(&claim) == Answer::Proved
    }

    /// The check that a value has an annotation, which binds dims.
    pub(super) fn fits(
        &mut self,
        scope: &mut Scope,
        value: &Value,
        annotation: &Annotation,
    ) -> Ran<()> {
        match (self.settled(value.clone()), annotation) {
            (_, Annotation::Object) => Ok(()),
            (Value::Tuple(items), Annotation::Tuple(fields)) if items.len() == fields.len() => {
                let mut pairs = items.iter().zip(fields);
                pairs.try_for_each(|(item, field)| self.fits(scope, item, field))
            }
            // Any function is one.
            (Value::Function(_), Annotation::Callable(None)) => Ok(()),
            (Value::Shape(dims), Annotation::Shape(extents)) => match extents {
                Extents::Known(wanted) => self.same_dims(scope, &dims, wanted),
                Extents::Rank(rank) if *rank == dims.len() => Ok(()),
                Extents::Unknown => Ok(()),
                Extents::Rank(_) => Err("a shape of another rank".into()),
            },
            (Value::Entry(id), Annotation::Tensor(wanted)) => self.tensor_fits(scope, id, wanted),
            (Value::Entry(id), Annotation::Shape(Extents::Known(wanted)))
                if is_shape_of(self.annotation(id), wanted.len()) =>
            {
                let name = |at| Dim::Var(format!("v{}.{at}", self.table.find(id)).into());
                let dims: Vec<Dim> = (0..wanted.len()).map(name).collect();
                self.extents(&dims);
                self.same_dims(scope, &dims, wanted)
            }
            (value, annotation) => self.opaque_fits(scope, &value, annotation),
        }
    }

    /// The check that a binding is what its annotation says, where the dims of both are known.
    pub(super) fn annotated(&mut self, scope: &Scope, value: &Value, annotation: &Annotation) {
        let (Value::Entry(id), Annotation::Tensor(wanted)) =
            (self.settled(value.clone()), annotation)
        else {
            return;
        };
        let (Some((dims, dtype)), Some(said)) = (self.table.tensor(id), wanted.extents.dims())
        else {
            return;
        };
        if dims.len() != said.len() || wanted.dtype.is_some_and(|wanted| wanted != dtype) {
            self.stop(Stop::Opaque(format!("v{id} is {annotation}")));
            return;
        }
        let pairs = dims.iter().zip(said).map(|(dim, said)| (dim.clone(), scope.dim(said)));
        let claims: Vec<Claim> = pairs
            .filter(|(dim, said)| dim != said)
            .map(|(dim, said)| Claim::new(dim, Relation::Equal, said))
            .collect();
        claims.into_iter().for_each(|claim| self.demand(claim));
    }

    /// A tensor takes the extents that it is checked for.
    fn tensor_fits(&mut self, scope: &mut Scope, id: Id, wanted: &TensorType) -> Ran<()> {
        let id = self.table.find(id);
        let own = self.annotation(id).as_tensor().cloned();
        let (known, dtype) = match own {
            Some(tensor) => (tensor.extents, tensor.dtype),
            None => (Extents::Unknown, None),
        };
        let (rank, tells_dtype) = (wanted.extents.rank(), wanted.dtype.is_some());
        let tells_rank = rank.is_some() && known.rank() != rank;
        let tells_dtype = tells_dtype && dtype != wanted.dtype;
        // What a branch finds out does not hold behind it, where entries keep what they are. So nothing is learnt of it.
        if !self.branch.is_empty() && (tells_rank || tells_dtype) {
            return self.opaque_fits(scope, &Value::Entry(id), &Annotation::Tensor(wanted.clone()));
        }
        if let Some(rank) = rank.filter(|_| tells_rank) {
            if known.rank().is_some() {
                return Err("a tensor of another rank".into());
            }
            self.stop(Stop::Opaque(format!("rank of v{id} is {rank}")));
        }
        if tells_dtype {
            self.stop(Stop::Opaque(format!("dtype of v{id} is {:?}", wanted.dtype)));
        }
        let dims = match (known, rank) {
            (Extents::Known(dims), _) => dims,
            (Extents::Rank(rank), _) | (Extents::Unknown, Some(rank)) => {
                let name = |at| Dim::Var(format!("v{id}.{at}").into());
                let dims: Vec<Dim> = (0..rank).map(name).collect();
                self.extents(&dims);
                dims
            }
            (Extents::Unknown, None) => return Ok(()),
        };
        let refined = Extents::Known(dims.clone());
        let dtype = dtype.or(wanted.dtype);
        let refined = Annotation::Tensor(TensorType { extents: refined, dtype });
        let entry = &mut self.table.entries[id];
        let loose = std::mem::replace(&mut entry.annotation, refined);
        entry.loose.get_or_insert(loose);
        self.refined.insert(id);
        match &wanted.extents {
            Extents::Known(wanted) => self.same_dims(scope, &dims, wanted),
            _ => Ok(()),
        }
    }

    /// What this side knows of an entry: what only the other side's check told is not known here.
    pub(super) fn annotation(&self, id: Id) -> &Annotation {
        let id = self.table.find(id);
        let entry = self.table.get(id);
        match &entry.loose {
            Some(loose) if !self.refined.contains(&id) => loose,
            _ => &entry.annotation,
        }
    }

    /// What is known of a value by its text alone.
    fn opaque_fits(
        &mut self,
        scope: &mut Scope,
        value: &Value,
        annotation: &Annotation,
    ) -> Ran<()> {
        let annotation = annotation.map_dims(&mut |dim| scope.dim(dim));
        let mut bound = true;
        annotation.visit_dims(&mut |dim| {
            bound &= dim.vars_all(&|name| {
                !scope.declared.contains_key(name) || scope.dims.contains_key(name)
            })
        });
        if !bound {
            return Err("a check that binds dims of a value that is not known".into());
        }
        let exact = match value {
            Value::Entry(id) => self.table.get(*id).annotation == annotation,
            _ => false,
        };
        if !exact {
            let stop = format!("{} is {annotation}", self.key(value));
            self.stop(Stop::Opaque(stop));
        }
        Ok(())
    }

    fn same_dims(&mut self, scope: &mut Scope, known: &[Dim], wanted: &[Dim]) -> Ran<()> {
        if known.len() != wanted.len() {
            return Err("a tensor of another rank".into());
        }
        // Variables that stand alone are bound first.
        for (known, wanted) in known.iter().zip(wanted) {
            let Dim::Var(name) = wanted else { continue };
            if !scope.dims.contains_key(name) {
                scope.dims.insert(name.clone(), known.clone());
                if let Some(dim) = scope.declared.get(name) {
                    declared(dim, known).into_iter().for_each(|claim| self.demand(claim));
                }
            }
        }
        for (known, wanted) in known.iter().zip(wanted) {
            let wanted = scope.dim(wanted);
            if *known != wanted {
                self.demand(Claim::new(known.clone(), Relation::Equal, wanted));
            }
        }
        Ok(())
    }
}

/// Whether an annotation is of shapes of this rank, of which nothing else is known.
fn is_shape_of(annotation: &Annotation, rank: usize) -> bool {
    matches!(annotation, Annotation::Shape(Extents::Rank(own)) if *own == rank)
}
