//! Integers that words and bytes of weights have.

use super::cases::Case;
use relax_semantics::random::Random;
use relax_syntax::dtype::DType;

/// A case with other integers in tensors of words and bytes, all that their dtypes have.
pub(super) fn with_all_integers(mut case: Case, seed: u64) -> Case {
    let mut random = Random::new(seed, "integers");
    for tensor in &mut case.tensors {
        let range = match tensor.dtype() {
            DType::I8 => -128..=127,
            DType::U8 => 0..=255,
            DType::U32 => 0..=i64::from(u32::MAX),
            _ => continue,
        };
        *tensor = random.tensor(tensor.dtype(), tensor.shape(), &range);
    }
    case
}
