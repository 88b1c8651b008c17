//! What the collectives of [`super::ranks`] give, of tensors of any kind: those of the interpreter, or those of compiled code.

use crate::ops::dims::pick;
use crate::ops::{Eval, Limits, Operator, apply, lookup, normalize_axis};
use crate::ranks::Exchange;
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
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
    row.name.starts_with("spmd.")
}

/// The result of an operator of ranks, in whose operands nothing is read of `x`; what the ranks of the group pass comes from
/// `exchange`.
///
/// # Errors
/// What `exchange` says, where what other ranks pass does not fit, and where the result is larger than a tensor may be.
///
/// # Panics
/// Where [`is_of_ranks`] is false.
pub fn collective<T: Passed>(
    eval: &Eval,
    x: T,
    exchange: &mut dyn FnMut(Exchange<T>) -> Result<Vec<T>, Stop>,
) -> Result<T, Stop> {
    eval.out_tensor()?;
    let rank_of_x = x.dims().len();
    let axis = |param: &str| {
        normalize_axis(eval.int(param), rank_of_x).expect("invariant: infer checks the axis")
    };
    let mut exchanged = |what: &[(&str, String)], alike: (Option<usize>, &'static str)| {
        let parts = exchange(passed(eval, what, x.clone()))?;
        check_alike(eval, &x, &parts, alike).map(|()| parts)
    };
    let (workers, rank) = (eval.int("num_workers"), eval.int("rank"));
    let shards = |parts: Vec<T>, axis: usize| {
        parts.iter().map(|part| shard(part, axis, (workers, rank))).collect::<Result<_, _>>()
    };
    let (op_type, extent) = (|| eval.str("op_type").to_string(), || eval.int("extent").to_string());
    match eval.row.name {
        "spmd.own_shard" => shard(&x, axis("axis"), (workers, rank)),
        "spmd.all_reduce" => {
            let parts = exchanged(&[("op_type", op_type())], (None, "C3"))?;
            T::reduced(parts, reduction(eval))
        }
        "spmd.reduce_scatter" => {
            let axis = axis("axis");
            let what = [("axis", axis.to_string()), ("op_type", op_type())];
            T::reduced(shards(exchanged(&what, (None, "C4"))?, axis)?, reduction(eval))
        }
        "spmd.all_gather" => {
            let axis = axis("axis");
            let what = [("axis", axis.to_string()), ("extent", extent())];
            T::joined(exchanged(&what, (Some(axis), "C4"))?, axis)
        }
        "spmd.all_to_all" => {
            let (split, concat) = (axis("split_axis"), axis("concat_axis"));
            let what = [
                ("split_axis", split.to_string()),
                ("concat_axis", concat.to_string()),
                ("extent", extent()),
            ];
            T::joined(shards(exchanged(&what, (Some(concat), "C4"))?, split)?, concat)
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

fn reduction(eval: &Eval) -> Reduction {
    let name = eval.str("op_type");
    let found = Reduction::ALL.into_iter().find(|reduction| reduction.name() == name.as_str());
    found.expect("invariant: infer checks the reduction")
}

/// What this rank passes, with the attributes that all ranks of the group must have.
fn passed<T>(eval: &Eval, what: &[(&str, String)], tensor: T) -> Exchange<T> {
    let number = |param: &str| usize::try_from(eval.int(param)).unwrap_or(usize::MAX);
    let words: Vec<String> = what.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Exchange {
        what: format!("{}({})", eval.row.name, words.join(", ")),
        mesh: eval.str("device_mesh"),
        mesh_dim: number("mesh_dim"),
        workers: number("num_workers"),
        rank: number("rank"),
        tensor,
    }
}

/// Demands of what ranks passed that all have the dtype of this one, and its dims but along `axis`.
fn check_alike<T: Passed>(
    eval: &Eval,
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
                eval.int("rank"),
                own.dtype(),
                part.dtype(),
            );
            return Err(eval.trap(id, message));
        }
    }
    Ok(())
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
