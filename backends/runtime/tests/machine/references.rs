//! Every operand, register, text and place that an instruction names must be there: each of them is wrong once.

use crate::programs::{Double, c, function, image, r, to};
use relax_runtime::file::LoadError;
use relax_runtime::instruction::{Code, DimOp, Fact, Instruction as I, Kind, Label, Text};
use relax_runtime::instruction::{Operand, Register};
use relax_runtime::{DType, Module};

const OPERAND: &str = "an operand is not there";
const TEXT: &str = "a text is not there";
const RESULT: &str = "the register of the result is not there";
const OTHER: &str = "it names what is not there";

/// Hands out what is there, but for one of them.
struct Names {
    count: usize,
    wrong: usize,
    /// What is said of the wrong one.
    why: &'static str,
}

impl Names {
    fn either<T>(&mut self, why: &'static str, right: T, wrong: T) -> T {
        let is_wrong = self.count == self.wrong;
        self.count += 1;
        if is_wrong {
            self.why = why;
        }
        if is_wrong { wrong } else { right }
    }

    /// A register or a constant.
    fn value(&mut self) -> Operand {
        let wrong = if self.count.is_multiple_of(2) { r(2) } else { c(3) };
        self.either(OPERAND, r(1), wrong)
    }

    fn values(&mut self) -> Box<[Operand]> {
        [self.value(), self.value()].into()
    }

    fn to(&mut self) -> Register {
        self.either(RESULT, to(1), to(2))
    }

    fn text(&mut self) -> Text {
        self.either(TEXT, Text(3), Text(4))
    }

    fn label(&mut self) -> Label {
        Label { check: self.text(), about: self.text(), expected: self.text() }
    }

    fn number(&mut self, right: u32, wrong: u32) -> u32 {
        self.either(OTHER, right, wrong)
    }

    /// Of an operand of [`I::ComputeDim`].
    fn code(&mut self) -> Code {
        self.either(OTHER, Code::Slot(0), Code::Store(0))
    }
}

type Make = fn(&mut Names) -> I;

/// Every instruction.
const ALL: [Make; 32] = [
    |n| I::Copy { to: n.to(), value: n.value() },
    |n| I::Drop([Register(0), n.either(OTHER, to(1), to(2))].into()),
    |n| I::Tuple { to: n.to(), items: n.values() },
    |n| I::Field { to: n.to(), value: n.value(), index: 0 },
    |n| I::Jump(n.number(1, 2)),
    |n| I::Branch { condition: n.value(), otherwise: n.number(1, 2) },
    |n| I::Return(n.value()),
    |n| I::Fail { id: n.text(), message: n.text() },
    |n| I::Call { to: n.to(), function: n.number(4, 5), args: n.values() },
    |n| I::CallValue { to: n.to(), function: n.value(), args: n.values() },
    |n| I::Invoke { to: n.to(), function: n.value(), args: n.value() },
    |n| I::MakeClosure { to: n.to(), function: n.value(), last: n.value() },
    |n| I::CallKernel { kernel: n.number(0, 1), args: n.values() },
    |n| I::CallHost {
        to: n.to(),
        name: n.text(),
        args: n.values(),
        keywords: [(n.text(), n.value()), (n.text(), n.value())].into(),
    },
    |n| I::AllocHeap { to: n.to(), size: n.value() },
    |n| I::CheckKind {
        value: n.value(),
        kind: Kind::Tensor,
        size: None,
        dtype: None,
        label: n.label(),
    },
    |n| I::MatchShape {
        value: n.value(),
        heap: n.value(),
        codes: [Code::Skip].into(),
        terms: [n.text(), n.text()].into(),
        label: n.label(),
    },
    |n| I::CheckBound {
        heap: n.value(),
        slot: 0,
        fact: Fact::LowerBound,
        limit: 0,
        name: n.text(),
        about: n.text(),
    },
    |n| I::CheckExtent { heap: n.value(), slot: 0, about: n.text() },
    |n| I::CheckNatural { value: n.value(), id: n.text() },
    |n| I::ComputeDim {
        heap: n.value(),
        slot: 0,
        op: DimOp::Add,
        a: n.code(),
        b: n.code(),
        check: n.text(),
        about: n.text(),
    },
    |n| I::LoadDim { to: n.to(), heap: n.value(), slot: 0 },
    |n| I::MakeShape { to: n.to(), heap: n.value(), codes: [Code::Skip].into() },
    |n| I::MakeOutput { to: n.to(), heap: n.value(), codes: [].into(), dtype: None },
    |n| I::AllocStorage { to: n.to(), size: n.value(), dtype: DType::F32 },
    |n| I::AllocTensor {
        to: n.to(),
        storage: n.value(),
        shape: n.value(),
        dtype: None,
        offset: n.value(),
    },
    |n| I::KillStorage(n.value()),
    |n| I::KillTensor(n.value()),
    |n| I::View { to: n.to(), tensor: n.value(), shape: n.value() },
    |n| I::RunGraph { to: n.to(), function: n.value(), args: n.values() },
    |n| I::KeepMemory { to: n.to(), function: n.value() },
    |n| I::ReadShape { to: n.to(), tensor: n.value() },
];

/// The usual program with a fifth function, which has this instruction and two registers; why it is refused.
fn refused(instruction: I) -> Option<String> {
    let mut image = image();
    image.program.functions.push(function("f", 1, 2, vec![instruction, I::Return(r(0))]));
    match Module::new(image, Box::new(Double)) {
        Ok(_) => None,
        Err(LoadError::Invalid(why)) => Some(why),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn everything_that_is_named_is_looked_at() {
    let more: [Make; 2] =
        [|n| I::KillObject(n.value()), |n| I::Assert { condition: n.value(), message: n.text() }];
    for make in ALL.into_iter().chain(more) {
        let mut names = Names { count: 0, wrong: usize::MAX, why: "" };
        let right = make(&mut names);
        assert_eq!(refused(right.clone()), None, "{right:?}");
        assert!(names.count > 0, "{right:?}");
        for wrong in 0..names.count {
            let mut names = Names { count: 0, wrong, why: "" };
            let instruction = make(&mut names);
            let why = format!("function `f`: instruction 0: {}", names.why);
            assert_eq!(refused(instruction.clone()), Some(why), "{instruction:?}");
        }
    }
}
