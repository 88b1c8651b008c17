//! The operator table in words: what the command shows of a row, and the reference in the
//! documentation. Both say what the table says.

use super::{Effect, Family, Kind, Literal, Operator, Param, all};
use std::fmt::{self, Write};

impl Operator {
    /// `matmul(x1, x2, out_dtype=None)`
    #[must_use]
    pub fn signature(&self) -> String {
        let params = self.params.iter().map(|param| match (param.kind, param.default) {
            (Kind::Rest, _) => format!("*{}", param.name),
            (_, Some(value)) => format!("{}={value}", param.name),
            (_, None) => param.name.to_owned(),
        });
        format!("{}({})", self.short_name(), params.collect::<Vec<_>>().join(", "))
    }
}

impl Param {
    /// What it takes, its default, its alias.
    #[must_use]
    pub fn described(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if let Some(value) = self.default {
            let _ = write!(text, ", {value} when left out");
        }
        if let Some(alias) = self.alias {
            let _ = write!(text, ", also `{alias}=`");
        }
        text
    }
}

/// As it is written in a program.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::None => f.write_str("None"),
            Literal::Int(value) => write!(f, "{value}"),
            Literal::Float(value) => write!(f, "{value:?}"),
            Literal::Bool(true) => f.write_str("True"),
            Literal::Bool(false) => f.write_str("False"),
            Literal::Str(value) => write!(f, "{value:?}"),
            Literal::Ints(values) => write!(f, "{values:?}"),
        }
    }
}

/// The reference of all operators, by family, as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text =
        format!("# Operators\n\n{} operators, from the operator table.\n", all().count());
    let mut family = None;
    for row in all() {
        if family != Some(row.family) {
            let _ = writeln!(text, "\n## {}", row.family.title());
            family = Some(row.family);
        }
        entry(row, &mut text);
    }
    text
}

fn entry(row: &Operator, text: &mut String) {
    let _ = writeln!(text, "\n### `{}`\n\n{}", row.signature(), row.doc);
    if row.short_name() != row.name || !row.aliases.is_empty() {
        let full = (row.short_name() != row.name).then_some(row.name);
        let names: Vec<&str> = full.into_iter().chain(row.aliases.iter().copied()).collect();
        let _ = writeln!(text, "\nAlso: `{}`.", names.join("`, `"));
    }
    if row.effect == Effect::Impure {
        text.push_str("\nImpure: it may not stand in a dataflow block.\n");
    }
    let _ = writeln!(text, "\nTraps, constraints aside: {}.\n", row.traps.words());
    for param in row.params {
        let _ = writeln!(text, "- `{}`: {}", param.name, param.described());
    }
    for constraint in row.constraints {
        let _ = writeln!(text, "- `{}/{}` {}", row.short_name(), constraint.id, constraint.text);
    }
}

impl Kind {
    /// What it takes, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Kind::Tensor => "a tensor",
            Kind::OptionalTensor => "a tensor or None",
            Kind::Tensors => "a tuple or list of tensors",
            Kind::Shape => "a shape",
            Kind::InferredShape => "a shape; one literal -1 in it is inferred",
            Kind::OptionalShape => "a shape or None",
            Kind::Dim => "an integer, possibly symbolic",
            Kind::OptionalDim => "an integer, possibly symbolic, or None",
            Kind::Dims => "a list of integers, possibly symbolic",
            Kind::OptionalDims => "a list of integers, possibly symbolic, or None",
            Kind::Float => "a float",
            Kind::OptionalFloat => "a float or None",
            Kind::Bool => "True or False",
            Kind::Str => "a string",
            Kind::OptionalStr => "a string or None",
            Kind::DType => "a dtype",
            Kind::OptionalDType => "a dtype or None",
            Kind::Function => "a function or tensor program",
            Kind::Annotation => "an annotation, or a list of them",
            Kind::Value => "any value",
            Kind::Rest => "any number of further values",
        }
    }
}

impl Family {
    /// The heading of its chapter.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Family::Unary => "Elementwise, one operand",
            Family::Binary => "Elementwise, two operands",
            Family::Ternary => "Elementwise, three operands",
            Family::Creation => "Creation",
            Family::DType => "Dtypes",
            Family::Movement => "Movement of elements",
            Family::Indexing => "Indexing",
            Family::LinearAlgebra => "Linear algebra",
            Family::Reduction => "Reductions",
            Family::Order => "Order",
            Family::Nn => "Neural networks",
            Family::Convolution => "Convolution and pooling",
            Family::Attention => "Attention",
            Family::Shapes => "Shapes",
            Family::Calls => "Calls",
            Family::Quantization => "Quantization",
            Family::Memory => "Memory",
            Family::Builtins => "Lowered built-ins",
            Family::Distributed => "Distribution",
        }
    }
}
