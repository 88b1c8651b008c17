//! The syntax tree of MLIR text, as far as StableHLO programs need it.

use std::collections::BTreeMap;
use std::ops::Range;

/// The functions of a module by name, and what its text defines beside them.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) functions: BTreeMap<String, Function>,
    /// Locations by alias, as the text has them.
    pub(crate) locations: BTreeMap<String, String>,
    /// Bytes of `dense_resource` by name: where the hexadecimal digits stand in the text.
    pub(crate) resources: BTreeMap<String, Range<usize>>,
}

#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) results: Vec<Attributes>,
    pub(crate) ops: Vec<Op>,
}

/// A parameter of a function or of a block.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) r#type: Type,
    pub(crate) attributes: Attributes,
    pub(crate) location: Option<String>,
}

/// Regions have one block.
#[derive(Debug, Default)]
pub(crate) struct Region {
    pub(crate) params: Vec<Param>,
    pub(crate) ops: Vec<Op>,
}

/// An operation, in the same form whether its text was the generic or the pretty one.
#[derive(Debug, Default)]
pub(crate) struct Op {
    pub(crate) name: String,
    /// The callee of a call, the target of a custom call, the name of a composite.
    pub(crate) symbol: Option<String>,
    pub(crate) operands: Vec<Use>,
    /// Words of the pretty form: `EQ`, `SIGNED`, `stablehlo.add`.
    pub(crate) words: Vec<String>,
    pub(crate) attributes: Attributes,
    pub(crate) regions: Vec<Region>,
    pub(crate) types: Vec<Type>,
    pub(crate) result: Option<String>,
    pub(crate) line: usize,
    pub(crate) location: Option<String>,
}

/// A value that is read: result `index` of `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) name: String,
    pub(crate) index: usize,
}

pub(crate) type Attributes = BTreeMap<String, Attribute>;

#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Unit,
    Int(i128),
    Str(String),
    Symbol(String),
    /// A word, such as `true` or a case of an enumeration; with what stands in its angle brackets.
    Word(String, Box<Attribute>),
    List(Vec<Attribute>),
    /// `[1] x [0]`
    Pair(Box<Attribute>, Box<Attribute>),
    Dictionary(Attributes),
    /// The elements of a constant, and its type.
    Dense(Elements, Type),
    /// Text that no operation needs to be taken apart, such as a type or a float.
    Text(String),
}

/// Where elements stand in the text.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    Listed(Range<usize>),
    Resource(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// `None` for a dim that is `?`.
    Tensor {
        dims: Vec<Option<i64>>,
        element: String,
    },
    Other(String),
}
