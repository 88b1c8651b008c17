//! What the machine does, one step each. Operands are registers of the frame or constants of the program.

mod references;

use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// A register of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register(pub u32);

/// A place in the program's list of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text(pub u32);

/// What an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operand {
    /// A register of the frame.
    Register(u32),
    /// A constant of the program.
    Constant(u32),
}

/// Which check an instruction is a part of, and how it names what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The first part of the trap's id; with a slash in it, the whole.
    pub check: Text,
    /// "parameter `x`"
    pub about: Text,
    /// As an annotation.
    pub expected: Text,
}

/// What a value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each variant is its own name
pub enum Kind {
    Tensor,
    Shape,
    Tuple,
    Scalar,
    Function,
}

/// What is done with a dim, or where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// Nothing.
    Skip,
    /// This very integer.
    Literal(i64),
    /// What a slot of the heap holds.
    Slot(i64),
    /// Into a slot of the heap. Only in [`Instruction::MatchShape`].
    Store(i64),
}

/// An operation on dims; division rounds towards minus infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each variant is its own name
pub enum DimOp {
    Add,
    Sub,
    Mul,
    FloorDiv,
    FloorMod,
    Min,
    Max,
    CeilDiv,
}

/// What is declared of a dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each variant is its own name
pub enum Fact {
    LowerBound,
    UpperBound,
    MultipleOf,
}

/// One step of a function. Jumps go to places in the code of the same function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    /// Another name of a value.
    Copy {
        /// Where it goes.
        to: Register,
        /// What.
        value: Operand,
    },
    /// Forgets values that are not used any more.
    Drop(Box<[Register]>),
    /// A tuple of values.
    Tuple {
        /// Where it goes.
        to: Register,
        /// The fields.
        items: Box<[Operand]>,
    },
    /// A field of a tuple.
    Field {
        /// Where it goes.
        to: Register,
        /// The tuple.
        value: Operand,
        /// Which.
        index: u64,
    },
    /// Goes on elsewhere.
    Jump(u32),
    /// Goes on elsewhere when a bool scalar is false.
    Branch {
        /// The bool.
        condition: Operand,
        /// Where.
        otherwise: u32,
    },
    /// Ends the function.
    Return(Operand),
    /// Stops the program.
    Fail {
        /// The id of the trap.
        id: Text,
        /// What it says.
        message: Text,
    },
    /// Calls a function of the module.
    Call {
        /// Where the result goes.
        to: Register,
        /// Which.
        function: u32,
        /// The arguments.
        args: Box<[Operand]>,
    },
    /// Calls a value that is a function.
    CallValue {
        /// Where the result goes.
        to: Register,
        /// The function.
        function: Operand,
        /// The arguments.
        args: Box<[Operand]>,
    },
    /// Calls a value that is a function with the fields of a tuple.
    Invoke {
        /// Where the result goes.
        to: Register,
        /// The function.
        function: Operand,
        /// The tuple.
        args: Operand,
    },
    /// A function with its last arguments given.
    MakeClosure {
        /// Where it goes.
        to: Register,
        /// The function.
        function: Operand,
        /// A tuple of arguments.
        last: Operand,
    },
    /// Runs a kernel on tensors and integers, in the order of its parameters.
    CallKernel {
        /// Which.
        kernel: u32,
        /// The arguments.
        args: Box<[Operand]>,
    },
    /// Calls a function that the embedder registered.
    CallHost {
        /// Where the result goes.
        to: Register,
        /// Its name.
        name: Text,
        /// The arguments.
        args: Box<[Operand]>,
        /// Those that are passed by name.
        keywords: Box<[(Text, Operand)]>,
    },
    /// A heap of slots for integers.
    AllocHeap {
        /// Where it goes.
        to: Register,
        /// How many slots.
        size: Operand,
    },
    /// A value is of a kind, of a rank or a number of fields, of a dtype.
    CheckKind {
        /// The value.
        value: Operand,
        /// Its kind.
        kind: Kind,
        /// Its rank, or its number of fields.
        size: Option<i64>,
        /// Its dtype.
        dtype: Option<DType>,
        /// The check.
        label: Label,
    },
    /// Compares the dims of a tensor or shape, and stores them.
    MatchShape {
        /// The value.
        value: Operand,
        /// The heap.
        heap: Operand,
        /// One a dim.
        codes: Box<[Code]>,
        /// The dims as the text has them, for messages; none where it says nothing of them.
        terms: Box<[Text]>,
        /// The check.
        label: Label,
    },
    /// What is declared of a dim holds.
    CheckBound {
        /// The heap.
        heap: Operand,
        /// The slot of the dim.
        slot: i64,
        /// What is declared.
        fact: Fact,
        /// Its number.
        limit: i64,
        /// The name of the dim.
        name: Text,
        /// Where it comes from.
        about: Text,
    },
    /// A dim is not negative.
    CheckExtent {
        /// The heap.
        heap: Operand,
        /// The slot of the dim.
        slot: i64,
        /// As a term.
        about: Text,
    },
    /// An integer that an operand holds is not negative: as a dim that was computed.
    CheckNatural {
        /// The value; of any other kind than a scalar it is not looked at.
        value: Operand,
        /// The id of the trap.
        id: Text,
    },
    /// Computes a dim.
    ComputeDim {
        /// The heap.
        heap: Operand,
        /// Where the result goes.
        slot: i64,
        /// What is computed.
        op: DimOp,
        /// The first operand.
        a: Code,
        /// The second one.
        b: Code,
        /// The id of the trap when there is no result.
        check: Text,
        /// What it is about.
        about: Text,
    },
    /// The integer in a slot.
    LoadDim {
        /// Where it goes.
        to: Register,
        /// The heap.
        heap: Operand,
        /// The slot.
        slot: i64,
    },
    /// A shape of integers and slots.
    MakeShape {
        /// Where it goes.
        to: Register,
        /// The heap.
        heap: Operand,
        /// The dims.
        codes: Box<[Code]>,
    },
    /// Dtype and dims for a host function.
    MakeOutput {
        /// Where it goes.
        to: Register,
        /// The heap.
        heap: Operand,
        /// The dims.
        codes: Box<[Code]>,
        /// The dtype.
        dtype: Option<DType>,
    },
    /// Memory for the elements of a shape.
    AllocStorage {
        /// Where it goes.
        to: Register,
        /// A shape, or a tuple of integers.
        size: Operand,
        /// The dtype.
        dtype: DType,
    },
    /// A tensor in a storage.
    AllocTensor {
        /// Where it goes.
        to: Register,
        /// The storage.
        storage: Operand,
        /// A shape, or a tuple of integers.
        shape: Operand,
        /// Without one, that of the storage.
        dtype: Option<DType>,
        /// From which byte on.
        offset: Operand,
    },
    /// Releases a storage and the tensors in it.
    KillStorage(Operand),
    /// Releases a tensor.
    KillTensor(Operand),
    /// Releases a tensor that a function gave, and its storage with the last one in it.
    KillObject(Operand),
    /// The same elements under another shape.
    View {
        /// Where it goes.
        to: Register,
        /// The tensor.
        tensor: Operand,
        /// A shape, or a tuple of integers.
        shape: Operand,
    },
    /// A condition holds.
    Assert {
        /// A bool scalar.
        condition: Operand,
        /// What the trap says.
        message: Text,
    },
    /// Calls a function of the module, whose kernels are recorded as a graph or held against the one on record.
    RunGraph {
        /// Where the result goes.
        to: Register,
        /// The function.
        function: Operand,
        /// The arguments.
        args: Box<[Operand]>,
    },
    /// What a function of the module without parameters gives: it is called once in a run.
    KeepMemory {
        /// Where the result goes.
        to: Register,
        /// The function.
        function: Operand,
    },
    /// The elements of an integer vector as a shape.
    ReadShape {
        /// Where it goes.
        to: Register,
        /// The vector.
        tensor: Operand,
    },
}
