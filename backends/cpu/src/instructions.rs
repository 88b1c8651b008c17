//! Instruction-set extensions that the machine code of an object uses, by decoding its instructions.

use iced_x86::{CpuidFeature as F, Decoder, DecoderOptions, Instruction};
use object::{Object, ObjectSection, SectionKind};
use std::collections::BTreeSet;

/// Those of x86-64 in all instructions of an object. Some are encoded so that older processors execute them too: `rep bsf` is `tzcnt`, and
/// `endbr64` was a no-op. `None` where the object cannot be decoded to its end.
pub(crate) fn extensions_used(object: &[u8]) -> Option<BTreeSet<&'static str>> {
    let file = object::File::parse(object).ok()?;
    let mut features = BTreeSet::new();
    let mut instruction = Instruction::default();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let mut decoder = Decoder::with_ip(64, section.data().ok()?, 0, DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return None;
            }
            features.extend(instruction.cpuid_features());
        }
    }
    Some(features.into_iter().filter_map(name).collect())
}

/// As `is_x86_feature_detected!` calls it.
fn name(feature: F) -> Option<&'static str> {
    let names = [
        (F::SSE3, "sse3"),
        (F::SSSE3, "ssse3"),
        (F::SSE4_1, "sse4.1"),
        (F::SSE4_2, "sse4.2"),
        (F::SSE4A, "sse4a"),
        (F::POPCNT, "popcnt"),
        (F::AVX, "avx"),
        (F::F16C, "f16c"),
        (F::FMA, "fma"),
        (F::BMI1, "bmi1"),
        (F::BMI2, "bmi2"),
        (F::LZCNT, "lzcnt"),
        (F::MOVBE, "movbe"),
        (F::ADX, "adx"),
        (F::AES, "aes"),
        (F::PCLMULQDQ, "pclmulqdq"),
        (F::SHA, "sha"),
        (F::AVX2, "avx2"),
        (F::AVX512F, "avx512f"),
        (F::AVX512DQ, "avx512dq"),
        (F::AVX512BW, "avx512bw"),
        (F::AVX512VL, "avx512vl"),
        (F::AVX512CD, "avx512cd"),
        (F::AVX512_VBMI, "avx512vbmi"),
        (F::AVX512_VBMI2, "avx512vbmi2"),
        (F::AVX512_VNNI, "avx512vnni"),
        (F::AVX512_BITALG, "avx512bitalg"),
        (F::AVX512_VPOPCNTDQ, "avx512vpopcntdq"),
        (F::AVX512_IFMA, "avx512ifma"),
        (F::AVX512_BF16, "avx512bf16"),
        (F::AVX512_FP16, "avx512fp16"),
        (F::AVX512_VP2INTERSECT, "avx512vp2intersect"),
        (F::GFNI, "gfni"),
        (F::VAES, "vaes"),
        (F::VPCLMULQDQ, "vpclmulqdq"),
        (F::AVX_VNNI, "avxvnni"),
        (F::AVX_IFMA, "avxifma"),
        (F::AVX_NE_CONVERT, "avxneconvert"),
        (F::AVX_VNNI_INT8, "avxvnniint8"),
        (F::AVX_VNNI_INT16, "avxvnniint16"),
    ];
    names.iter().find(|(one, _)| *one == feature).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::X86;

    #[test]
    fn every_extension_of_a_target_is_known_in_code() {
        let known: Vec<_> = F::values().filter_map(name).collect();
        for (extension, _) in X86 {
            assert!(known.contains(extension), "{extension}");
        }
    }

    #[test]
    fn what_is_no_object_is_not_decoded() {
        assert_eq!(extensions_used(b"\x7fELF"), None);
        assert_eq!(extensions_used(&[]), None);
    }
}
