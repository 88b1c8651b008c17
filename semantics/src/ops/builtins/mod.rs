//! Lowered built-ins: what is left of dims and annotations in P2.3 (paper §4.5).
//!
//! A function has a heap of numbered slots for the values of its symbolic variables. Checks of values
//! are calls: each says which check it is a part of (`boundary`, `match_cast`, `return`, …), so that it
//! fails with the same trap as the annotation that it stands for.

mod checks;
mod heap;

use super::{
    Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps, constraint,
    optional, required,
};
use crate::ops::Programs;
use crate::stop::Stop;
use crate::value::{ShapeHeap, Value};
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dtype::DType;

const BUILTIN: Programs = Programs::None("a virtual machine does it, no computation on tensors");

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "builtin.alloc_shape_heap",
        aliases: &[],
        family: Family::Builtins,
        doc: "A heap of `size` slots, each for an integer; nothing is stored yet.",
        params: &[required("size", Kind::Dim)],
        constraints: &[constraint("C1", "size is at least 0")],
        effect: Effect::Impure,
        traps: Traps::Never,
        infer: infer_heap,
        program: BUILTIN,
        eval: Evaluate::Values(heap::eval_alloc),
    },
    Operator {
        name: "builtin.check_kind",
        aliases: &[],
        family: Family::Builtins,
        doc: "Stops the program unless a value is a `tensor` or `shape` of `size` dims, a `tuple` of \
              `size` fields, a `scalar` or a `function`; `dtype` is that of a tensor or scalar. The trap \
              is `check/kind`, `check/dtype` or `check/rank`; a `check` with a slash in it is the id \
              itself.",
        params: &[
            required("value", Kind::Value),
            required("kind", Kind::Str),
            optional("size", Kind::OptionalDim, Literal::None),
            optional("dtype", Kind::OptionalDType, Literal::None),
            optional("check", Kind::Str, Literal::Str("match_cast")),
            optional("about", Kind::Str, Literal::Str("the value")),
            optional("expected", Kind::Str, Literal::Str("")),
        ],
        constraints: &[constraint("C1", "kind is one of these five")],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_check,
        program: BUILTIN,
        eval: Evaluate::Values(checks::eval_kind),
    },
    Operator {
        name: "builtin.match_shape",
        aliases: &[],
        family: Family::Builtins,
        doc: "Goes through the dims of a tensor or shape with one code each: `(\"store\", k)` stores the \
              dim in slot k, `(\"slot\", k)` and an integer must equal it, `None` passes over it. The trap is \
              `check/dim`.",
        params: &[
            required("value", Kind::Value),
            required("heap", Kind::Value),
            required("codes", Kind::Value),
            optional("check", Kind::Str, Literal::Str("match_cast")),
            optional("about", Kind::Str, Literal::Str("the value")),
            optional("expected", Kind::Str, Literal::Str("")),
        ],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_check,
        program: BUILTIN,
        eval: Evaluate::Values(checks::eval_match),
    },
    Operator {
        name: "builtin.check_bound",
        aliases: &[],
        family: Family::Builtins,
        doc: "Stops the program unless a slot keeps what is declared of its variable: `fact` is \
              `lower_bound`, `upper_bound` or `multiple_of`. The trap is `bound/lower`, `bound/upper` or \
              `bound/multiple_of`.",
        params: &[
            required("heap", Kind::Value),
            required("slot", Kind::Dim),
            required("fact", Kind::Str),
            required("limit", Kind::Dim),
            optional("name", Kind::Str, Literal::Str("")),
            optional("about", Kind::Str, Literal::Str("")),
        ],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_slot,
        program: BUILTIN,
        eval: Evaluate::Values(checks::eval_bound),
    },
    Operator {
        name: "builtin.check_extent",
        aliases: &[],
        family: Family::Builtins,
        doc: "Stops the program with `shape/negative` when a slot, a dim of a shape to be, is below 0.",
        params: &[
            required("heap", Kind::Value),
            required("slot", Kind::Dim),
            optional("about", Kind::Str, Literal::Str("")),
        ],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_slot,
        program: BUILTIN,
        eval: Evaluate::Values(checks::eval_extent),
    },
    Operator {
        name: "builtin.compute_dim",
        aliases: &[],
        family: Family::Builtins,
        doc: "Stores `a op b` in a slot, where op is one of `+ - * // % min max ceildiv` with floor \
              semantics, and an operand is an integer or `(\"slot\", k)`. What leaves i64 or divides by 0 \
              is the trap `check`.",
        params: &[
            required("heap", Kind::Value),
            required("slot", Kind::Dim),
            required("op", Kind::Str),
            required("a", Kind::Value),
            required("b", Kind::Value),
            optional("check", Kind::Str, Literal::Str("dim/value")),
            optional("about", Kind::Str, Literal::Str("")),
        ],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_slot,
        program: BUILTIN,
        eval: Evaluate::Values(heap::eval_compute),
    },
    Operator {
        name: "builtin.load_dim",
        aliases: &[],
        family: Family::Builtins,
        doc: "The integer in a slot.",
        params: &[required("heap", Kind::Value), required("slot", Kind::Dim)],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_load,
        program: BUILTIN,
        eval: Evaluate::Values(heap::eval_load),
    },
    Operator {
        name: "builtin.make_shape",
        aliases: &[],
        family: Family::Builtins,
        doc: "The shape whose dims are integers or slots: `(2, (\"slot\", 0))`.",
        params: &[required("heap", Kind::Value), required("codes", Kind::Value)],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_shape,
        program: BUILTIN,
        eval: Evaluate::Values(heap::eval_shape),
    },
    Operator {
        name: "builtin.make_annotation",
        aliases: &[],
        family: Family::Builtins,
        doc: "The annotation of a tensor whose dims are integers or slots, as an output of a call of \
              the reference library: `((2, (\"slot\", 0)), \"f32\")`.",
        params: &[
            required("heap", Kind::Value),
            required("codes", Kind::Value),
            optional("dtype", Kind::OptionalDType, Literal::None),
        ],
        constraints: HEAP_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_annotation,
        program: BUILTIN,
        eval: Evaluate::Values(heap::eval_annotation),
    },
];

/// A built-in on heaps of dims, or a check of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapBuiltin {
    /// Takes a heap.
    Alloc,
    /// Checks the kind of a value, its rank and dtype.
    CheckKind,
    /// Checks dims of a value, and stores them.
    MatchShape,
    /// Checks what is declared of a slot.
    CheckBound,
    /// Checks that a slot is not below 0.
    CheckExtent,
    /// Stores a dim that is computed.
    ComputeDim,
    /// Gives a dim.
    LoadDim,
    /// Gives a shape.
    MakeShape,
    /// Gives the annotation of a tensor.
    MakeAnnotation,
}

/// Which built-in on heaps or check of a value a row is.
#[must_use]
pub fn heap_builtin(row: &Operator) -> Option<HeapBuiltin> {
    Some(match row.name {
        "builtin.alloc_shape_heap" => HeapBuiltin::Alloc,
        "builtin.check_kind" => HeapBuiltin::CheckKind,
        "builtin.match_shape" => HeapBuiltin::MatchShape,
        "builtin.check_bound" => HeapBuiltin::CheckBound,
        "builtin.check_extent" => HeapBuiltin::CheckExtent,
        "builtin.compute_dim" => HeapBuiltin::ComputeDim,
        "builtin.load_dim" => HeapBuiltin::LoadDim,
        "builtin.make_shape" => HeapBuiltin::MakeShape,
        "builtin.make_annotation" => HeapBuiltin::MakeAnnotation,
        _ => return None,
    })
}

const HEAP_CONSTRAINTS: &[super::Constraint] = &[
    constraint("C1", "heap is a shape heap that has the slots"),
    constraint("C2", "codes, operands, op and fact are as described"),
    constraint("C3", "what is read was stored"),
];

/// An integer, or where one is stored.
enum Code {
    Literal(i64),
    Slot(i64),
    Store(i64),
    Skip,
}

fn code(eval: &Eval, value: &Value) -> Result<Code, Stop> {
    let wrong = || eval.trap("C2", format!("{} is no code of a dim", value.kind()));
    match value {
        Value::None => Ok(Code::Skip),
        Value::Prim(..) => integer(value).map(Code::Literal).ok_or_else(wrong),
        Value::Tuple(items) => match items.as_slice() {
            [Value::Str(what), slot] => match (what.as_str(), integer(slot)) {
                ("slot", Some(slot)) => Ok(Code::Slot(slot)),
                ("store", Some(slot)) => Ok(Code::Store(slot)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Prim(DType::I64, crate::tensor::Number::Int(value)) => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// One code a dim.
fn codes(eval: &Eval) -> Result<Vec<Code>, Stop> {
    match eval.value("codes") {
        Value::Tuple(items) => items.iter().map(|item| code(eval, item)).collect(),
        other => Err(eval.trap("C2", format!("codes are a tuple, found {}", other.kind()))),
    }
}

fn shape_heap<'e>(eval: &'e Eval) -> Result<&'e ShapeHeap, Stop> {
    match eval.value("heap") {
        Value::Heap(heap) => Ok(heap),
        other => {
            Err(eval.trap("C1", format!("`heap` must be a shape heap, found {}", other.kind())))
        }
    }
}

/// What a slot holds; `None` when nothing was stored.
fn load(eval: &Eval, slot: i64) -> Result<Option<i64>, Stop> {
    let missing = || eval.trap("C1", format!("the heap has no slot {slot}"));
    shape_heap(eval)?.load(slot).ok_or_else(missing)
}

fn store(eval: &Eval, slot: i64, value: i64) -> Result<(), Stop> {
    if shape_heap(eval)?.store(slot, value) {
        return Ok(());
    }
    Err(eval.trap("C1", format!("the heap has no slot {slot}")))
}

/// What a slot holds.
fn stored(eval: &Eval, slot: i64) -> Result<i64, Stop> {
    let empty = || eval.trap("C3", format!("nothing was stored in slot {slot}"));
    load(eval, slot)?.ok_or_else(empty)
}

fn infer_heap(infer: &mut Infer) -> Result<Annotation, Reject> {
    if infer.int("size")? < 0 {
        return Err(infer.reject("C1", "a heap has at least 0 slots"));
    }
    Ok(Annotation::Object)
}

fn unit() -> Annotation {
    Annotation::Tuple(Vec::new())
}

/// Texts are literals.
fn infer_texts(infer: &Infer) -> Result<(), Reject> {
    for param in infer.row.params.iter().filter(|param| param.kind == Kind::Str) {
        infer.str(param.name)?;
    }
    Ok(())
}

fn infer_check(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer_texts(infer)?;
    if infer.row.params.iter().any(|param| param.name == "size") {
        infer.optional_dtype("dtype")?;
        if !infer.is_none("size") {
            infer.int("size")?;
        }
        if !checks::KINDS.contains(&infer.str("kind")?.as_str()) {
            return Err(infer.reject("C1", "`kind` must be one of the five kinds"));
        }
    }
    Ok(unit())
}

fn infer_slot(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer_texts(infer)?;
    infer.int("slot")?;
    if infer.row.params.iter().any(|param| param.name == "limit") {
        infer.int("limit")?;
    }
    Ok(unit())
}

fn infer_load(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.int("slot")?;
    Ok(Annotation::Prim(DType::I64))
}

fn infer_annotation(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.optional_dtype("dtype")?;
    Ok(Annotation::Object)
}

fn infer_shape(infer: &mut Infer) -> Result<Annotation, Reject> {
    Ok(Annotation::Shape(match &infer.operand("codes").annotation {
        Annotation::Tuple(items) => Extents::Rank(items.len()),
        _ => Extents::Unknown,
    }))
}
