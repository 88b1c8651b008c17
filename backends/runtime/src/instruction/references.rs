//! What an instruction names: operands, the register of its result, texts.

use super::{Instruction, Operand, Register, Text};

impl Instruction {
    /// Every operand that it reads.
    pub fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        use Instruction as I;
        match self {
            I::Drop(_) | I::Jump(_) | I::Fail { .. } => {}
            I::Copy { value, .. }
            | I::Field { value, .. }
            | I::CheckKind { value, .. }
            | I::CheckNatural { value, .. } => visit(*value),
            I::Return(value)
            | I::KillStorage(value)
            | I::KillTensor(value)
            | I::KillObject(value) => visit(*value),
            I::Tuple { items: all, .. }
            | I::Call { args: all, .. }
            | I::CallKernel { args: all, .. } => all.iter().for_each(|operand| visit(*operand)),
            I::Branch { condition, .. } | I::Assert { condition, .. } => visit(*condition),
            I::KeepMemory { function: value, .. } | I::ReadShape { tensor: value, .. } => {
                visit(*value)
            }
            I::CallValue { function, args, .. } | I::RunGraph { function, args, .. } => {
                visit(*function);
                args.iter().for_each(|operand| visit(*operand));
            }
            I::Invoke { function, args, .. } => {
                [function, args].into_iter().for_each(|o| visit(*o))
            }
            I::MakeClosure { function, last, .. } => {
                [function, last].into_iter().for_each(|operand| visit(*operand));
            }
            I::CallHost { args, keywords, .. } => {
                args.iter().for_each(|operand| visit(*operand));
                keywords.iter().for_each(|(_, operand)| visit(*operand));
            }
            I::AllocHeap { size, .. } | I::AllocStorage { size, .. } => visit(*size),
            I::MatchShape { value, heap, .. } => {
                visit(*value);
                visit(*heap);
            }
            I::CheckBound { heap, .. }
            | I::CheckExtent { heap, .. }
            | I::ComputeDim { heap, .. }
            | I::LoadDim { heap, .. }
            | I::MakeShape { heap, .. }
            | I::MakeOutput { heap, .. } => visit(*heap),
            I::AllocTensor { storage, shape, offset, .. } => {
                [storage, shape, offset].into_iter().for_each(|operand| visit(*operand));
            }
            I::View { tensor, shape, .. } => {
                visit(*tensor);
                visit(*shape);
            }
        }
    }

    /// The register that it writes.
    #[must_use]
    pub fn target(&self) -> Option<Register> {
        use Instruction as I;
        match self {
            I::Copy { to, .. }
            | I::Tuple { to, .. }
            | I::Field { to, .. }
            | I::Call { to, .. }
            | I::CallValue { to, .. }
            | I::Invoke { to, .. }
            | I::MakeClosure { to, .. }
            | I::CallHost { to, .. }
            | I::AllocHeap { to, .. }
            | I::LoadDim { to, .. }
            | I::MakeShape { to, .. }
            | I::MakeOutput { to, .. }
            | I::AllocStorage { to, .. }
            | I::AllocTensor { to, .. }
            | I::View { to, .. }
            | I::RunGraph { to, .. }
            | I::KeepMemory { to, .. }
            | I::ReadShape { to, .. } => Some(*to),
            _ => None,
        }
    }

    /// Every text that it names.
    pub fn texts(&self, visit: &mut dyn FnMut(Text)) {
        use Instruction as I;
        match self {
            I::Fail { id, message } => {
                visit(*id);
                visit(*message);
            }
            I::CallHost { name, keywords, .. } => {
                visit(*name);
                keywords.iter().for_each(|(key, _)| visit(*key));
            }
            I::MatchShape { label, terms, .. } => {
                [label.check, label.about, label.expected].into_iter().for_each(&mut *visit);
                terms.iter().for_each(|term| visit(*term));
            }
            I::CheckKind { label, .. } => {
                [label.check, label.about, label.expected].into_iter().for_each(visit);
            }
            I::CheckBound { name, about, .. } => {
                visit(*name);
                visit(*about);
            }
            I::ComputeDim { check, about, .. } => {
                visit(*check);
                visit(*about);
            }
            I::CheckExtent { about: text, .. }
            | I::CheckNatural { id: text, .. }
            | I::Assert { message: text, .. } => visit(*text),
            _ => {}
        }
    }
}
