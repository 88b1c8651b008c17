//! Elements as the device has them: those of less than 32 bits take a word each, but for f16 where the device has it.

use crate::{Formats, Halves};
use relax_syntax::dtype::DType;

/// The bytes of elements, for the device.
pub(crate) fn widened(dtype: DType, bytes: Vec<u8>, formats: Formats) -> Vec<u8> {
    let halves = || bytes.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
    match dtype {
        DType::F16 if formats.halves == Halves::Native => bytes,
        DType::F16 | DType::BF16 | DType::U16 => {
            halves().flat_map(|bits| u32::from(bits).to_ne_bytes()).collect()
        }
        DType::I16 => halves().flat_map(|bits| i32::from(bits as i16).to_ne_bytes()).collect(),
        DType::I8 => bytes.iter().flat_map(|&byte| i32::from(byte as i8).to_ne_bytes()).collect(),
        DType::U8 | DType::Bool => {
            bytes.iter().flat_map(|&byte| u32::from(byte).to_ne_bytes()).collect()
        }
        _ => bytes,
    }
}

/// The first bytes of what the device has, for the machine.
pub(crate) fn narrowed(dtype: DType, held: Vec<u8>, length: usize, formats: Formats) -> Vec<u8> {
    let words = held.chunks_exact(4).map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    let mut bytes: Vec<u8> = match dtype {
        DType::F16 if formats.halves == Halves::Native => held,
        DType::Bool => words.map(|word| u8::from(word != 0)).collect(),
        _ if dtype.size() == 1 => words.map(|word| word as u8).collect(),
        _ if dtype.size() == 2 => words.flat_map(|word| (word as u16).to_ne_bytes()).collect(),
        _ => held,
    };
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_there_comes_back() {
        let bytes: Vec<u8> = vec![0, 1, 127, 128, 255, 3];
        for formats in [Formats::default(), Formats::NATIVE] {
            let halves = vec![1, 2, 3, 4, 5, 6];
            let there = widened(DType::F16, halves.clone(), formats);
            assert_eq!(narrowed(DType::F16, there, 6, formats), halves);
        }
        let formats = Formats::default();
        for dtype in [DType::I8, DType::U8, DType::I16, DType::U16, DType::F16, DType::BF16] {
            let there = widened(dtype, bytes.clone(), formats);
            assert_eq!(there.len(), bytes.len() / dtype.size() * 4);
            assert_eq!(narrowed(dtype, there, bytes.len(), formats), bytes);
        }
        let bools = widened(DType::Bool, vec![1, 0], formats);
        assert_eq!(narrowed(DType::Bool, bools, 2, formats), [1, 0]);
    }
}
