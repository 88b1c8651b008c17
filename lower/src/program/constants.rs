//! Constants of a program, and the elements of tensors as bytes.

use relax_runtime as machine;
use relax_runtime::program::Constant;
use relax_semantics::tensor::{Data, Tensor};
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// Constants, each once, and the elements of those that are tensors.
#[derive(Default)]
pub(super) struct Constants {
    all: Vec<Constant>,
    data: Vec<u8>,
    /// The numbers of external constants, which several functions may use.
    externals: BTreeMap<Name, u32>,
}

/// Constants that are compared before one is added: beyond that a repetition costs little.
const COMPARED: usize = 256;

impl Constants {
    /// The number of a constant.
    pub(super) fn add(&mut self, constant: Constant) -> u32 {
        let known = self.all.iter().take(COMPARED).position(|known| *known == constant);
        let at = known.unwrap_or_else(|| {
            self.all.push(constant);
            self.all.len() - 1
        });
        u32::try_from(at).expect("invariant: a text has fewer than 2^32 constants")
    }

    /// The number of a tensor.
    pub(super) fn tensor(&mut self, tensor: &Tensor) -> u32 {
        let shape: Vec<i64> =
            tensor.shape().iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
        let dtype = dtype(tensor.dtype());
        self.data.resize(self.data.len().next_multiple_of(machine::ALIGNMENT), 0);
        let at = self.data.len() as u64;
        append(tensor, &mut self.data);
        self.add(Constant::Tensor { dtype, shape, at })
    }

    /// The number of an external constant.
    pub(super) fn external(&mut self, name: &Name, tensor: &Tensor) -> u32 {
        if let Some(known) = self.externals.get(name) {
            return *known;
        }
        let number = self.tensor(tensor);
        self.externals.insert(name.clone(), number);
        number
    }

    pub(super) fn finish(self) -> (Vec<Constant>, Vec<u8>) {
        (self.all, self.data)
    }
}

/// A dtype as the runtime calls it.
pub(super) fn dtype(dtype: DType) -> machine::DType {
    match dtype {
        DType::F16 => machine::DType::F16,
        DType::BF16 => machine::DType::BF16,
        DType::F32 => machine::DType::F32,
        DType::F64 => machine::DType::F64,
        DType::I8 => machine::DType::I8,
        DType::I16 => machine::DType::I16,
        DType::I32 => machine::DType::I32,
        DType::I64 => machine::DType::I64,
        DType::U8 => machine::DType::U8,
        DType::U16 => machine::DType::U16,
        DType::U32 => machine::DType::U32,
        DType::U64 => machine::DType::U64,
        DType::Bool => machine::DType::Bool,
    }
}

/// The elements of a tensor, row-major, as they lie in memory.
#[must_use]
pub fn elements(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(tensor, &mut bytes);
    bytes
}

/// The elements after what is there.
fn append(tensor: &Tensor, to: &mut Vec<u8>) {
    macro_rules! bytes {
        ($($variant:ident)*) => {
            match tensor.data() {
                $(Data::$variant(elements) => match elements.as_slice() {
                    // Weights are most of a module.
                    Some(slice) => to.extend_from_slice(slice.as_bytes()),
                    None => to.extend(elements.iter().flat_map(|element| element.to_ne_bytes())),
                },)*
                Data::Bool(elements) => to.extend(elements.iter().map(|&element| u8::from(element))),
            }
        };
    }
    bytes!(F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64);
}
