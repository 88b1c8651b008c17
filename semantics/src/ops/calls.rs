//! Calls across levels, closures, and effects.

mod functions;
mod tensor_programs;

pub(super) use functions::called;

use crate::ops::Programs;
use relax_syntax::ir::Atom;

use super::{
    Effect, Evaluate, Family, Kind, Literal, Operator, Traps, constraint, optional, required,
};

const CALLS: Programs = Programs::None("it calls something");

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "call_tir",
        aliases: &[],
        family: Family::Calls,
        doc: "Runs a tensor program on fresh output tensors, whose annotations are declared (paper, \
              §3.3): inputs, then outputs, then `sym_args` are its parameters. What it writes to its \
              inputs is lost.",
        params: &[
            required("func", Kind::Function).also("gvar"),
            required("args", Kind::Value),
            required("out", Kind::Annotation).also("out_sinfo"),
            optional("sym_args", Kind::OptionalDims, Literal::None).also("tir_vars"),
        ],
        constraints: tensor_programs::CONSTRAINTS,
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer: tensor_programs::infer_call_tir,
        program: CALLS,
        eval: Evaluate::Machine(tensor_programs::eval_call_tir),
    },
    Operator {
        name: "call_tir_inplace",
        aliases: &[],
        family: Family::Calls,
        doc: "As `call_tir`, but output i is argument `inplace[i]` after the program has written to \
              it; -1 stands for a fresh output, which the program takes after the arguments. The \
              argument itself, should it be used again, keeps its value.",
        params: &[
            required("func", Kind::Function).also("gvar"),
            required("args", Kind::Value),
            required("inplace", Kind::Dims).also("inplace_indices"),
            required("out", Kind::Annotation).also("out_sinfo"),
            optional("sym_args", Kind::OptionalDims, Literal::None).also("tir_vars"),
        ],
        constraints: tensor_programs::INPLACE_CONSTRAINTS,
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer: tensor_programs::infer_call_tir_inplace,
        program: CALLS,
        eval: Evaluate::Machine(tensor_programs::eval_call_tir_inplace),
    },
    Operator {
        name: "call_dps_library",
        aliases: &["call_dps_packed"],
        family: Family::Calls,
        doc: "Calls a library function in destination-passing style: a name of the registry of \
              reference functions, whose result has the declared annotation.",
        params: &[
            required("func", Kind::Str),
            required("args", Kind::Value),
            required("out", Kind::Annotation).also("out_sinfo"),
        ],
        constraints: &[
            constraint("C1", "out is a Tensor annotation or a list of them"),
            constraint("C2", "what the function returns has the declared annotation"),
        ],
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer: functions::infer_library,
        program: CALLS,
        eval: Evaluate::Machine(functions::eval_library),
    },
    Operator {
        name: "call_packed",
        aliases: &[],
        family: Family::Calls,
        doc: "Calls a function of the registry by name, for its effect or its value.",
        params: PACKED_PARAMS,
        constraints: PACKED_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: functions::infer_packed,
        program: CALLS,
        eval: Evaluate::Machine(functions::eval_packed),
    },
    Operator {
        name: "call_pure_packed",
        aliases: &[],
        family: Family::Calls,
        doc: "As `call_packed`, for a function that is known to have no effect.",
        params: PACKED_PARAMS,
        constraints: PACKED_CONSTRAINTS,
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer: functions::infer_packed,
        program: CALLS,
        eval: Evaluate::Machine(functions::eval_packed),
    },
    Operator {
        name: BY_NAME,
        aliases: &[],
        family: Family::Calls,
        doc: "The operator of a name, with the arguments that follow: in the early build, where no \
              tensor program stands for an operator, a call of the reference library. It is that \
              operator's call in all but the spelling: deduction, constraints and traps are its own.",
        params: &[required("func", Kind::Str), required("args", Kind::Rest)],
        constraints: &[constraint("C1", "func is the name of an operator")],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: functions::infer_by_name,
        program: CALLS,
        eval: Evaluate::Values(functions::eval_by_name),
    },
    Operator {
        name: BY_NAME_UNTYPED,
        aliases: &[],
        family: Family::Calls,
        doc: "As `builtin.call_operator`, but nothing is deduced: for registers, of which only the run \
              knows what they hold.",
        params: &[required("func", Kind::Str), required("args", Kind::Rest)],
        constraints: &[constraint("C1", "func is the name of an operator")],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: functions::infer_by_name,
        program: CALLS,
        eval: Evaluate::Values(functions::eval_by_name),
    },
    Operator {
        name: CHECK_BY_NAME,
        aliases: &[],
        family: Family::Calls,
        doc: "Checks the constraints of the operator of a name, where a compiled call decides them at run \
              time: tensors are given by their annotations, all operands by position. It computes \
              nothing; its traps are the operator's.",
        params: &[required("func", Kind::Str), required("args", Kind::Rest)],
        constraints: &[constraint("C1", "func is the name of an operator")],
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer: functions::infer_by_name,
        program: CALLS,
        eval: Evaluate::Values(functions::eval_by_name),
    },
    Operator {
        name: "builtin.read_shape",
        aliases: &[],
        family: Family::Calls,
        doc: "`tensor_to_shape` as an instruction of the virtual machine, with its traps: where the \
              length of the vector is known.",
        params: &[required("expr", Kind::Tensor).also("x")],
        constraints: super::shapes::VECTOR_OF_DIMS,
        effect: Effect::Pure,
        traps: Traps::OnElements,
        infer: super::shapes::infer_tensor_to_shape,
        program: CALLS,
        eval: Evaluate::Values(super::shapes::eval_tensor_to_shape),
    },
    Operator {
        name: "make_closure",
        aliases: &[],
        family: Family::Calls,
        doc: "A function with its last parameters bound to `args`, as lambda lifting needs it.",
        params: &[required("func", Kind::Function), required("args", Kind::Value)],
        constraints: &[constraint("C1", "func is a function, args a tuple")],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: functions::infer_make_closure,
        program: CALLS,
        eval: Evaluate::Values(functions::eval_make_closure),
    },
    Operator {
        name: "invoke_closure",
        aliases: &[],
        family: Family::Calls,
        doc: "Calls a closure; `ret` declares what it gives.",
        params: INVOKE_PARAMS,
        constraints: INVOKE_CONSTRAINTS,
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: functions::infer_invoke,
        program: CALLS,
        eval: Evaluate::Machine(functions::eval_invoke),
    },
    Operator {
        name: "invoke_pure_closure",
        aliases: &[],
        family: Family::Calls,
        doc: "As `invoke_closure`, for a closure without an effect.",
        params: INVOKE_PARAMS,
        constraints: INVOKE_CONSTRAINTS,
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer: functions::infer_invoke,
        program: CALLS,
        eval: Evaluate::Machine(functions::eval_invoke),
    },
    Operator {
        name: "print",
        aliases: &[],
        family: Family::Calls,
        doc: "Shows values: with `format`, each `{}` in it stands for the next value.",
        params: &[optional("format", Kind::Str, Literal::Str("")), required("values", Kind::Rest)],
        constraints: &[constraint("C1", "format has one `{}` a value")],
        effect: Effect::Impure,
        traps: Traps::Never,
        infer: functions::infer_print,
        program: Programs::None("it has an effect"),
        eval: Evaluate::Machine(functions::eval_print),
    },
    Operator {
        name: "assert_op",
        aliases: &[],
        family: Family::Calls,
        doc: "Stops the program unless `condition`, a bool scalar, is true.",
        params: &[
            required("condition", Kind::Value),
            optional("format_args", Kind::Value, Literal::None),
            optional("format", Kind::Str, Literal::Str("")),
        ],
        constraints: &[
            constraint("C1", "condition is a bool scalar, a tensor or a Prim"),
            constraint("C2", "condition is true"),
        ],
        effect: Effect::Impure,
        traps: Traps::OnElements,
        infer: functions::infer_assert,
        program: Programs::None("it has an effect"),
        eval: Evaluate::Values(functions::eval_assert),
    },
];

/// The built-in that calls an operator by its name.
const BY_NAME: &str = "builtin.call_operator";
/// The same of which nothing is deduced.
const BY_NAME_UNTYPED: &str = "builtin.run_operator";

/// The built-in that checks what an operator demands of its operands.
const CHECK_BY_NAME: &str = "builtin.check_operator";

/// Whether a call by name checks the constraints of the named operator, and computes nothing.
#[must_use]
pub fn only_checks(row: &Operator) -> bool {
    row.name == CHECK_BY_NAME
}

/// Whether what a call by name gives is deduced as the named operator does.
#[must_use]
pub fn is_deduced_by_name(row: &Operator) -> bool {
    row.name == BY_NAME
}

/// Whether a call by name computes what the named operator does.
#[must_use]
pub fn computes_by_name(row: &Operator) -> bool {
    [BY_NAME, BY_NAME_UNTYPED].contains(&row.name)
}

/// The operator that the first argument of `builtin.call_operator`, `builtin.run_operator` and
/// `builtin.check_operator` names.
#[must_use]
pub fn called_by_name(row: &Operator, first: Option<&Atom>) -> Option<&'static Operator> {
    let by_name = |row: &Operator| [BY_NAME, BY_NAME_UNTYPED, CHECK_BY_NAME].contains(&row.name);
    match first {
        Some(Atom::Str(name)) if by_name(row) => super::lookup(name).filter(|row| !by_name(row)),
        _ => None,
    }
}

const PACKED_PARAMS: &[super::Param] = &[
    required("func", Kind::Str),
    optional("ret", Kind::Annotation, Literal::None).also("sinfo_args"),
    required("args", Kind::Rest),
];

const PACKED_CONSTRAINTS: &[super::Constraint] =
    &[constraint("C1", "what the function returns has the annotation `ret`")];

const INVOKE_PARAMS: &[super::Param] = &[
    required("closure", Kind::Value),
    required("args", Kind::Value),
    optional("ret", Kind::Annotation, Literal::None).also("sinfo_args"),
];

const INVOKE_CONSTRAINTS: &[super::Constraint] = &[
    constraint("C1", "closure is a function, args a tuple"),
    constraint("C2", "what the closure returns has the annotation `ret`"),
];
