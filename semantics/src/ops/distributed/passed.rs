//! What the collectives of [`super::ranks`] give, of tensors of any kind: those of the interpreter, or those of compiled code.

use crate::ops::dims::pick;
use crate::ops::{Eval, Limits, Operator, apply, lookup, normalize_axis};
use crate::ranks::{Alike, Exchange};
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

    /// The same tensor, as the rank of another one has it: what is made of it takes the memory of that rank.
    #[must_use]
    fn of_rank(&self, _own: &Self) -> Self {
        self.clone()
    }

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

/// What is known of a tensor without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The dtype of its elements.
    pub dtype: DType,
    /// Its dims, outermost first.
    pub dims: Vec<i64>,
}

impl Described {
    /// Of a tensor.
    pub fn of(tensor: &impl Passed) -> Self {
        Self { dtype: tensor.dtype(), dims: tensor.dims() }
    }
}

/// How the result of a collective is made of what the ranks of a group pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movement {
    /// The axis along which each rank takes its shard of what every rank passes; without one it takes all.
    pub cut: Option<usize>,
    /// How what it takes becomes one tensor.
    pub combined: Combined,
}

/// How tensors become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// One after the other along an axis, in the order of the ranks.
    Joined(usize),
    /// Element by element, in the order of the ranks.
    Reduced(Reduction),
    /// That of the rank `source`, on the rank `target`, or on all where there is none. Without it a rank has no rows.
    Sent {
        /// The rank whose tensor it is.
        source: usize,
        /// The rank that gets it: another one.
        target: Option<usize>,
    },
}

impl Movement {
    /// The ranks of a group of so many that take part, in order.
    #[must_use]
    pub fn members(&self, workers: usize) -> Vec<usize> {
        match self.combined {
            Combined::Sent { source, target: Some(target) } => {
                vec![source.min(target), source.max(target)]
            }
            _ => (0..workers).collect(),
        }
    }

    /// The result of a rank of `workers`, of what each rank that takes part passes.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn result<T: Passed>(
        &self,
        parts: Vec<T>,
        (workers, rank): (usize, usize),
    ) -> Result<T, Stop> {
        if let Combined::Sent { source, target } = self.combined {
            return self.sent(parts, (source, target), (workers, rank));
        }
        let parts: Vec<T> = match parts.get(rank) {
            Some(own) => parts.iter().map(|part| part.of_rank(own)).collect(),
            None => parts,
        };
        let shards = |axis: usize| {
            parts.iter().map(|part| shard(part, axis, (workers, rank))).collect::<Result<_, _>>()
        };
        let taken = match self.cut {
            Some(axis) => shards(axis)?,
            None => parts,
        };
        match self.combined {
            Combined::Joined(axis) => T::joined(taken, axis),
            Combined::Reduced(reduction) => T::reduced(taken, reduction),
            Combined::Sent { .. } => unreachable!("it has no shards"),
        }
    }

    fn sent<T: Passed>(
        &self,
        parts: Vec<T>,
        (source, target): (usize, Option<usize>),
        (workers, rank): (usize, usize),
    ) -> Result<T, Stop> {
        let members = self.members(workers);
        let part = |of: usize| members.iter().position(|&at| at == of).and_then(|at| parts.get(at));
        let (Some(own), Some(sent)) = (part(rank), part(source)) else {
            return Err(Stop::Unsupported(format!("rank {rank} takes no part in a send")));
        };
        match target {
            Some(target) if target != rank => without_rows(own),
            _ => Ok(sent.of_rank(own)),
        }
    }
}

/// What a rank has of a tensor that another one has: no rows; a scalar stays what it is.
///
/// # Errors
/// Where there is no memory.
pub fn without_rows<T: Passed>(x: &T) -> Result<T, Stop> {
    if x.dims().is_empty() { Ok(x.clone()) } else { x.rows(0, 0, 0) }
}

/// Whether [`collective`] computes an operator.
#[must_use]
pub fn is_of_ranks(row: &Operator) -> bool {
    row.name.starts_with("spmd.")
}

/// Takes part in a collective, after a test of the tensors that all ranks pass.
type Exchanging<'a, T> = dyn FnMut(Exchange<T>, &Alike<'_>) -> Result<T, Stop> + 'a;

/// The result of an operator of ranks, in whose operands nothing is read of `x`; `exchange` takes part in a collective.
///
/// # Errors
/// What `exchange` says, where what other ranks pass does not fit, and where the result is larger than a tensor may be.
///
/// # Panics
/// Where [`is_of_ranks`] is false.
pub fn collective<T: Passed>(
    eval: &Eval,
    x: T,
    exchange: &mut Exchanging<'_, T>,
) -> Result<T, Stop> {
    eval.out_tensor()?;
    let own = Described::of(&x);
    let axis = |param: &str| {
        normalize_axis(eval.int(param), own.dims.len()).expect("invariant: infer checks the axis")
    };
    let mut exchanged =
        |what: &[(&str, String)], movement: Movement, alike: (Option<usize>, &'static str)| {
            let passed = passed(eval, what, (movement, x.clone()));
            let members = movement.members(number(eval, "num_workers"));
            exchange(passed, &|parts| check_alike(eval, &own, (&members, parts), alike))
        };
    let (op_type, extent) = (|| eval.str("op_type").to_string(), || eval.int("extent").to_string());
    match eval.row.name {
        "spmd.own_shard" => {
            shard(&x, axis("axis"), (number(eval, "num_workers"), number(eval, "rank")))
        }
        "spmd.all_reduce" => {
            let movement = Movement { cut: None, combined: Combined::Reduced(reduction(eval)) };
            exchanged(&[("op_type", op_type())], movement, (None, "C3"))
        }
        "spmd.reduce_scatter" => {
            let axis = axis("axis");
            let what = [("axis", axis.to_string()), ("op_type", op_type())];
            let combined = Combined::Reduced(reduction(eval));
            exchanged(&what, Movement { cut: Some(axis), combined }, (None, "C4"))
        }
        "spmd.all_gather" => {
            let axis = axis("axis");
            let what = [("axis", axis.to_string()), ("extent", extent())];
            let movement = Movement { cut: None, combined: Combined::Joined(axis) };
            exchanged(&what, movement, (Some(axis), "C4"))
        }
        "spmd.all_to_all" => {
            let (split, concat) = (axis("split_axis"), axis("concat_axis"));
            let what = [
                ("split_axis", split.to_string()),
                ("concat_axis", concat.to_string()),
                ("extent", extent()),
            ];
            let movement = Movement { cut: Some(split), combined: Combined::Joined(concat) };
            exchanged(&what, movement, (Some(concat), "C4"))
        }
        "spmd.only" if number(eval, "target") != number(eval, "rank") => without_rows(&x),
        "spmd.only" => Ok(x),
        "spmd.send" | "spmd.broadcast" => match sending(eval) {
            Some((what, movement)) => exchanged(&what, movement, (Some(0), "C4")),
            None => Ok(x),
        },
        other => panic!("invariant: `{other}` is no operator of ranks"),
    }
}

/// Whose tensor is sent to whom, and the attributes of the call; `None` where this rank has no part in it: it has no rows of the
/// tensor, neither before nor after.
fn sending(eval: &Eval) -> Option<(Vec<(&'static str, String)>, Movement)> {
    let (source, rank) = (number(eval, "source"), number(eval, "rank"));
    let target = (eval.row.name == "spmd.send").then(|| number(eval, "target"));
    if target.is_some_and(|target| target == source || ![source, target].contains(&rank)) {
        return None;
    }
    let target_text = target.map(|target| ("target", target.to_string()));
    let what = [("source", source.to_string())].into_iter().chain(target_text);
    let what = what.chain([("extent", eval.int("extent").to_string())]).collect();
    Some((what, Movement { cut: None, combined: Combined::Sent { source, target } }))
}

/// The first row of an extent that belongs to a rank of `workers`, and the number of its rows.
#[must_use]
pub fn own_rows(extent: i64, (workers, rank): (usize, usize)) -> (i64, i64) {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let (workers, rank) = (Dim::Int(number(workers)), number(rank));
    let rows = shard_extent(&Dim::Int(extent), &workers, &Dim::Int(rank)).as_int().unwrap_or(0);
    let block = Dim::op(DimOp::CeilDiv, Dim::Int(extent), workers).as_int().unwrap_or(0);
    // An empty shard lies behind the last row.
    (rank.saturating_mul(block).min(extent), rows)
}

/// The rows of a tensor that belong to a rank.
fn shard<T: Passed>(x: &T, axis: usize, of: (usize, usize)) -> Result<T, Stop> {
    let (begin, rows) = own_rows(x.dims()[axis], of);
    x.rows(axis, begin, rows)
}

fn number(eval: &Eval, param: &str) -> usize {
    usize::try_from(eval.int(param)).unwrap_or(usize::MAX)
}

fn reduction(eval: &Eval) -> Reduction {
    let name = eval.str("op_type");
    let found = Reduction::ALL.into_iter().find(|reduction| reduction.name() == name.as_str());
    found.expect("invariant: infer checks the reduction")
}

/// What this rank passes, with the attributes that all ranks of the group must have.
fn passed<T>(
    eval: &Eval,
    what: &[(&str, String)],
    (movement, tensor): (Movement, T),
) -> Exchange<T> {
    let words: Vec<String> = what.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Exchange {
        what: format!("{}({})", eval.row.name, words.join(", ")),
        mesh: eval.str("device_mesh"),
        mesh_dim: number(eval, "mesh_dim"),
        workers: number(eval, "num_workers"),
        rank: number(eval, "rank"),
        movement,
        tensor,
    }
}

/// Demands of what ranks passed that all have the dtype of this one, and its dims but along `axis`.
fn check_alike(
    eval: &Eval,
    own: &Described,
    (members, parts): (&[usize], &[Described]),
    (axis, id): (Option<usize>, &'static str),
) -> Result<(), Stop> {
    let dims = &own.dims;
    for (rank, part) in members.iter().zip(parts) {
        let found = &part.dims;
        let same = found.len() == dims.len()
            && part.dtype == own.dtype
            && (0..dims.len()).all(|at| found[at] == dims[at] || Some(at) == axis);
        if !same {
            let message = format!(
                "rank {} passes {} {dims:?}, rank {rank} passes {} {found:?}",
                eval.int("rank"),
                own.dtype,
                part.dtype,
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
