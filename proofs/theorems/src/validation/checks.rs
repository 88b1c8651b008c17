//! Checks of values against annotations: each either holds for all dims, or is noted as what may stop the program.

use super::evaluate::{Ran, Scope, Side, declared};
use super::stops::Stop;
use super::values::{Id, Value};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
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
            (Value::Entry(id), Annotation::Shape(wanted)) if self.may_be_shape(id, wanted) => {
                let dims = self.shape_told(id, wanted.rank())?;
                match (dims, wanted) {
                    (Some(dims), Extents::Known(wanted)) => self.same_dims(scope, &dims, wanted),
                    _ => Ok(()),
                }
            }
            (Value::Entry(id), Annotation::Tuple(fields)) if self.may_be_tuple(id, fields) => {
                self.tuple_told(id, fields.len())?;
                let mut fields = fields.iter().enumerate();
                fields.try_for_each(|(at, field)| {
                    let part = self.part(&Value::Entry(id), at);
                    self.fits(scope, &part, field)
                })
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
        let rank = wanted.extents.rank();
        // What a branch finds out does not hold behind it, where entries keep what they are. So nothing is learnt of it.
        if !self.branch.is_empty() && self.tells(id, rank, wanted.dtype) {
            return self.opaque_fits(scope, &Value::Entry(id), &Annotation::Tensor(wanted.clone()));
        }
        match (self.tensor_told(id, rank, wanted.dtype)?, &wanted.extents) {
            (Some(dims), Extents::Known(wanted)) => self.same_dims(scope, &dims, wanted),
            _ => Ok(()),
        }
    }

    /// Whether a check of a tensor tells more than is known of it.
    fn tells(&self, id: Id, rank: Option<usize>, dtype: Option<DType>) -> bool {
        let own = self.annotation(id).as_tensor();
        let known = own.map(|tensor| (tensor.extents.rank(), tensor.dtype));
        let (known_rank, known_dtype) = known.unwrap_or((None, None));
        known.is_none()
            || rank.is_some_and(|_| rank != known_rank)
            || dtype.is_some_and(|_| dtype != known_dtype)
    }

    /// The check of what is a tensor, perhaps of a rank and dtype: they are known from there on. Gives its dims, where their
    /// number is known.
    pub(super) fn tensor_told(
        &mut self,
        id: Id,
        rank: Option<usize>,
        dtype: Option<DType>,
    ) -> Ran<Option<Vec<Dim>>> {
        let id = self.table.find(id);
        if !self.branch.is_empty() && self.tells(id, rank, dtype) {
            return Err("a check in a branch that tells more of a tensor".into());
        }
        let known = match self.annotation(id).clone() {
            Annotation::Object => {
                self.stop(Stop::Opaque(format!("v{id} is a tensor")));
                TensorType { extents: Extents::Unknown, dtype: None }
            }
            own => own.as_tensor().cloned().ok_or("a check of another kind")?,
        };
        if let Some(rank) = rank.filter(|_| known.extents.rank() != rank) {
            if known.extents.rank().is_some() {
                return Err("a tensor of another rank".into());
            }
            self.stop(Stop::Opaque(format!("rank of v{id} is {rank}")));
        }
        if dtype.is_some() && dtype != known.dtype {
            self.stop(Stop::Opaque(format!("dtype of v{id} is {dtype:?}")));
        }
        let dims = match (known.extents, rank) {
            (Extents::Known(dims), _) => Some(dims),
            (Extents::Rank(rank), _) | (Extents::Unknown, Some(rank)) => {
                Some(self.own_dims(id, rank))
            }
            (Extents::Unknown, None) => None,
        };
        let extents = dims.clone().map_or(Extents::Unknown, Extents::Known);
        let dtype = known.dtype.or(dtype);
        self.refine(id, Annotation::Tensor(TensorType { extents, dtype }));
        Ok(dims)
    }

    /// Names for the dims of an entry.
    fn own_dims(&mut self, id: Id, rank: usize) -> Vec<Dim> {
        let dims: Vec<Dim> = (0..rank).map(|at| Dim::Var(format!("v{id}.{at}").into())).collect();
        self.extents(&dims);
        dims
    }

    /// An entry is this from here on, for this side.
    fn refine(&mut self, id: Id, annotation: Annotation) {
        let entry = &mut self.table.entries[id];
        if entry.annotation != annotation {
            let loose = std::mem::replace(&mut entry.annotation, annotation);
            entry.loose.get_or_insert(loose);
        }
        self.refined.insert(id);
    }

    /// Whether a check against an annotation of shapes tells dims, or finds those that are known.
    fn may_be_shape(&self, id: Id, wanted: &Extents) -> bool {
        match self.annotation(id) {
            Annotation::Shape(Extents::Rank(rank)) => wanted.rank() == Some(*rank),
            Annotation::Shape(Extents::Unknown) | Annotation::Object => self.branch.is_empty(),
            _ => false,
        }
    }

    fn may_be_tuple(&self, id: Id, fields: &[Annotation]) -> bool {
        match self.annotation(id) {
            Annotation::Tuple(own) => own.len() == fields.len(),
            Annotation::Object => self.branch.is_empty(),
            _ => false,
        }
    }

    /// As [`Side::tensor_told`], for a shape.
    pub(super) fn shape_told(&mut self, id: Id, rank: Option<usize>) -> Ran<Option<Vec<Dim>>> {
        let id = self.table.find(id);
        match self.annotation(id) {
            Annotation::Shape(Extents::Rank(own)) if rank.is_none_or(|rank| rank == *own) => {
                let own = *own;
                Ok(Some(self.own_dims(id, own)))
            }
            Annotation::Shape(Extents::Unknown) | Annotation::Object if self.branch.is_empty() => {
                let rank_text = rank.map_or_else(String::new, |rank| format!(" of {rank} dims"));
                self.stop(Stop::Opaque(format!("v{id} is a shape{rank_text}")));
                let Some(rank) = rank else { return Ok(None) };
                self.refine(id, Annotation::Shape(Extents::Rank(rank)));
                Ok(Some(self.own_dims(id, rank)))
            }
            _ => Err("a check of another kind".into()),
        }
    }

    /// The check of what is a tuple of so many fields: they are objects from there on.
    pub(super) fn tuple_told(&mut self, id: Id, size: usize) -> Ran<()> {
        let id = self.table.find(id);
        match self.annotation(id) {
            Annotation::Tuple(fields) if fields.len() == size => Ok(()),
            Annotation::Object if self.branch.is_empty() => {
                self.stop(Stop::Opaque(format!("v{id} is a tuple of {size} fields")));
                self.refine(id, Annotation::Tuple(vec![Annotation::Object; size]));
                Ok(())
            }
            _ => Err("a check of another kind".into()),
        }
    }

    /// A field of a tuple that is not taken apart; what is not known to have it may stop the program.
    pub(super) fn part(&mut self, whole: &Value, at: usize) -> Value {
        let key = format!("part {at} of {}", self.key(whole));
        let is_there = match whole {
            Value::Entry(id) => {
                matches!(self.annotation(*id), Annotation::Tuple(fields) if at < fields.len())
            }
            _ => false,
        };
        self.opaque(key.clone(), Annotation::Object, (!is_there).then_some(key))
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
        self.unless_known(value, &annotation);
        Ok(())
    }

    /// Notes a check by its text.
    pub(super) fn unless_known(&mut self, value: &Value, annotation: &Annotation) {
        let exact = match value {
            Value::Entry(id) => self.table.get(*id).annotation == *annotation,
            _ => false,
        };
        if !exact {
            let stop = format!("{} is {annotation}", self.key(value));
            self.stop(Stop::Opaque(stop));
        }
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
