//! What the collectives of [`super::ranks`] give, of tensors of any kind: those of the interpreter, or those of compiled code.

use crate::ops::dims::pick;
use crate::ops::{Limits, Operator, apply, lookup, normalize_axis};
use crate::ranks::Exchange;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Reduction, shard_extent};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

/// A tensor that ranks pass each other. Names of it are cheap.
pub trait Passed: Clone {
    /// The dtype of its elements.
    fn dtype(&self) -> DType;

    /// Its dims, outermost first.
    fn dims(&self) -> Vec<i64>;

    /// Some rows along an axis, from `begin` on. The tensor has them.
    ///
    /// # Errors
    /// Where there is no memory.
    fn rows(&self, axis: usize, begin: i64, count: i64) -> Result<Self, Stop>;

    /// The tensors one after the other along an axis. There is at least one, and they differ along this axis only.
    ///
    /// # Errors
    /// Where there is no memory.
    fn joined(parts: Vec<Self>, axis: usize) -> Result<Self, Stop>;

    /// The tensors reduced element by element, in their order, as `add`, `maximum` or `minimum` of two of them. There is at least
    /// one, and they are alike.
    ///
    /// # Errors
    /// Where there is no memory.
    fn reduced(parts: Vec<Self>, reduction: Reduction) -> Result<Self, Stop>;
}

/// Whether [`collective`] computes an operator.
#[must_use]
pub fn is_of_ranks(row: &Operator) -> bool {
    const NAMES: [&str; 5] = [
        "spmd.all_gather",
        "spmd.all_reduce",
        "spmd.all_to_all",
        "spmd.own_shard",
        "spmd.reduce_scatter",
    ];
    NAMES.contains(&row.name)
}

/// The result of an operator of ranks: `values` are its operands, in which nothing is read of `x`; what the ranks of the group pass comes
/// from `exchange`. The operands keep the constraints.
///
/// # Errors
/// What `exchange` says, or what other ranks pass does not fit.
///
/// # Panics
/// Where [`is_of_ranks`] is false, or the operands break a constraint.
pub fn collective<T: Passed>(
    row: &'static Operator,
    values: &[Value],
    x: T,
    exchange: &mut dyn FnMut(Exchange<T>) -> Result<Vec<T>, Stop>,
) -> Result<T, Stop> {
    let call = Call { row, values, rank: x.dims().len() };
    let mut exchanged = |attributes: &[&str], alike: (Option<usize>, &'static str)| {
        let parts = exchange(call.exchange(attributes, x.clone()))?;
        call.check_alike(&x, &parts, alike).map(|()| parts)
    };
    let (workers, rank) = (call.int("num_workers"), call.int("rank"));
    match row.name {
        "spmd.own_shard" => shard(&x, call.axis("axis"), (workers, rank)),
        "spmd.all_reduce" => {
            let parts = exchanged(&["op_type"], (None, "C3"))?;
            T::reduced(parts, call.reduction())
        }
        "spmd.reduce_scatter" => {
            let axis = call.axis("axis");
            let parts = exchanged(&["axis", "op_type"], (None, "C4"))?;
            let parts = parts.iter().map(|part| shard(part, axis, (workers, rank)));
            T::reduced(parts.collect::<Result<_, _>>()?, call.reduction())
        }
        "spmd.all_gather" => {
            let axis = call.axis("axis");
            T::joined(exchanged(&["axis", "extent"], (Some(axis), "C4"))?, axis)
        }
        "spmd.all_to_all" => {
            let (split, concat) = (call.axis("split_axis"), call.axis("concat_axis"));
            let attributes = ["split_axis", "concat_axis", "extent"];
            let parts = exchanged(&attributes, (Some(concat), "C4"))?;
            let parts = parts.iter().map(|part| shard(part, split, (workers, rank)));
            T::joined(parts.collect::<Result<_, _>>()?, concat)
        }
        other => panic!("invariant: `{other}` is no operator of ranks"),
    }
}

/// The rows of a tensor that belong to a rank.
fn shard<T: Passed>(x: &T, axis: usize, (workers, rank): (i64, i64)) -> Result<T, Stop> {
    let extent = x.dims()[axis];
    let rows = shard_extent(&Dim::Int(extent), workers, &Dim::Int(rank)).as_int().unwrap_or(0);
    let block = Dim::op(DimOp::CeilDiv, Dim::Int(extent), Dim::Int(workers)).as_int().unwrap_or(0);
    // An empty shard lies behind the last row.
    x.rows(axis, rank.saturating_mul(block).min(extent), rows)
}

/// The call of an operator.
struct Call<'a> {
    row: &'static Operator,
    values: &'a [Value],
    /// Of the operand.
    rank: usize,
}

impl Call<'_> {
    fn value(&self, param: &str) -> &Value {
        &self.values[self.row.param(param)]
    }

    fn int(&self, param: &str) -> i64 {
        match self.value(param) {
            Value::Prim(_, Number::Int(value)) => i64::try_from(*value).unwrap_or(i64::MAX),
            other => panic!("invariant: `{param}` is an integer, found {}", other.kind()),
        }
    }

    fn text(&self, param: &str) -> Name {
        match self.value(param) {
            Value::Str(text) => text.clone(),
            other => panic!("invariant: `{param}` is a text, found {}", other.kind()),
        }
    }

    fn axis(&self, param: &str) -> usize {
        normalize_axis(self.int(param), self.rank).expect("invariant: infer checks the axis")
    }

    fn reduction(&self) -> Reduction {
        let name = self.text("op_type");
        let found = Reduction::ALL.into_iter().find(|reduction| reduction.name() == name.as_str());
        found.expect("invariant: infer checks the reduction")
    }

    /// An attribute as all ranks of the group must have it.
    fn shown(&self, param: &str) -> String {
        match self.value(param) {
            Value::Str(text) => text.to_string(),
            _ if param.ends_with("axis") => self.axis(param).to_string(),
            _ => self.int(param).to_string(),
        }
    }

    fn exchange<T>(&self, attributes: &[&str], tensor: T) -> Exchange<T> {
        let number = |param: &str| usize::try_from(self.int(param)).unwrap_or(usize::MAX);
        let words: Vec<String> =
            attributes.iter().map(|name| format!("{name}={}", self.shown(name))).collect();
        Exchange {
            what: format!("{}({})", self.row.name, words.join(", ")),
            mesh: self.text("device_mesh"),
            mesh_dim: number("mesh_dim"),
            workers: number("num_workers"),
            rank: number("rank"),
            tensor,
        }
    }

    /// Demands of what ranks passed that all have the dtype of this one, and its dims but along `axis`.
    fn check_alike<T: Passed>(
        &self,
        own: &T,
        parts: &[T],
        (axis, id): (Option<usize>, &'static str),
    ) -> Result<(), Stop> {
        let dims = own.dims();
        for (rank, part) in parts.iter().enumerate() {
            let found = part.dims();
            let same = found.len() == dims.len()
                && part.dtype() == own.dtype()
                && (0..dims.len()).all(|at| found[at] == dims[at] || Some(at) == axis);
            if !same {
                let message = format!(
                    "rank {} passes {} {dims:?}, rank {rank} passes {} {found:?}",
                    self.int("rank"),
                    own.dtype(),
                    part.dtype(),
                );
                return Err(Stop::trap(format!("{}/{id}", self.row.short_name()), message));
            }
        }
        Ok(())
    }
}

impl Passed for Tensor {
    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn dims(&self) -> Vec<i64> {
        self.shape().iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect()
    }

    fn rows(&self, axis: usize, begin: i64, count: i64) -> Result<Self, Stop> {
        let rows = (begin..begin + count).filter_map(|row| usize::try_from(row).ok());
        Ok(pick(self, axis, &rows.collect::<Vec<_>>()))
    }

    fn joined(parts: Vec<Self>, axis: usize) -> Result<Self, Stop> {
        let parts = Value::Tuple(parts.into_iter().map(Value::Tensor).collect());
        applied("concat", vec![parts, Value::int(i64::try_from(axis).unwrap_or(i64::MAX))])
    }

    fn reduced(parts: Vec<Self>, reduction: Reduction) -> Result<Self, Stop> {
        let operator = match reduction {
            Reduction::Sum => "add",
            Reduction::Max => "maximum",
            Reduction::Min => "minimum",
        };
        let mut parts = parts.into_iter();
        let first = parts.next().expect("invariant: a group has a rank");
        parts.try_fold(first, |sum, part| {
            applied(operator, vec![Value::Tensor(sum), Value::Tensor(part)])
        })
    }
}

fn applied(operator: &str, args: Vec<Value>) -> Result<Tensor, Stop> {
    let row = lookup(operator).expect("invariant: the table has the row");
    match apply(row, args, Vec::new(), &Limits::default(), None)? {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(Stop::Unsupported(format!("a tensor, found {}", other.kind()))),
    }
}
