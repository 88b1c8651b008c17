//! The processor that code is compiled for. The C compiler's predefined macros say which instruction-set extensions its
//! code may use; [`Target::words`] of an object names those that its instructions need.

use crate::instructions::extensions_used;
use relax_emit::tiles::Isa;
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// Which processor is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// The one at hand.
    #[default]
    Native,
    /// A level or model, as `-march` or `-mcpu` of the C compiler takes it.
    Named(String),
}

/// A name that no C compiler takes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "a processor is `native` or a name such as `x86-64-v3`: letters, digits and `-_.+`, no `-` in front"
)]
pub struct NoName;

impl std::str::FromStr for Cpu {
    type Err = NoName;

    fn from_str(name: &str) -> Result<Self, NoName> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        match name {
            "native" => Ok(Self::Native),
            "" => Err(NoName),
            _ if name.starts_with('-') || !name.chars().all(is_part) => Err(NoName),
            _ => Ok(Self::Named(name.to_owned())),
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Cpu {
    /// The flag of C compilers. Those for x86 take levels and models by `-march`, others models by `-mcpu` and levels by
    /// `-march`.
    pub(crate) fn flag(&self, architecture: &str) -> String {
        let name = self.to_string();
        let is_level = ["armv", "rv32", "rv64"].iter().any(|level| name.starts_with(level));
        let is_x86 = matches!(architecture, "x86_64" | "x86");
        if is_x86 || is_level { format!("-march={name}") } else { format!("-mcpu={name}") }
    }
}

/// An extension as Rust's `is_x86_feature_detected!` and `is_aarch64_feature_detected!` call it, and the macro that a C compiler defines
/// where code may use it.
pub(crate) type Extension = (&'static str, &'static str);

/// Of x86-64, beyond its first level. Extensions that compilers use for intrinsics only are left out.
pub(crate) const X86: &[Extension] = &[
    ("sse3", "__SSE3__"),
    ("ssse3", "__SSSE3__"),
    ("sse4.1", "__SSE4_1__"),
    ("sse4.2", "__SSE4_2__"),
    ("sse4a", "__SSE4A__"),
    ("popcnt", "__POPCNT__"),
    ("avx", "__AVX__"),
    ("f16c", "__F16C__"),
    ("fma", "__FMA__"),
    ("bmi1", "__BMI__"),
    ("bmi2", "__BMI2__"),
    ("lzcnt", "__LZCNT__"),
    ("movbe", "__MOVBE__"),
    ("adx", "__ADX__"),
    ("aes", "__AES__"),
    ("pclmulqdq", "__PCLMUL__"),
    ("sha", "__SHA__"),
    ("avx2", "__AVX2__"),
    ("avx512f", "__AVX512F__"),
    ("avx512dq", "__AVX512DQ__"),
    ("avx512bw", "__AVX512BW__"),
    ("avx512vl", "__AVX512VL__"),
    ("avx512cd", "__AVX512CD__"),
    ("avx512vbmi", "__AVX512VBMI__"),
    ("avx512vbmi2", "__AVX512VBMI2__"),
    ("avx512vnni", "__AVX512VNNI__"),
    ("avx512bitalg", "__AVX512BITALG__"),
    ("avx512vpopcntdq", "__AVX512VPOPCNTDQ__"),
    ("avx512ifma", "__AVX512IFMA__"),
    ("avx512bf16", "__AVX512BF16__"),
    ("avx512fp16", "__AVX512FP16__"),
    ("avx512vp2intersect", "__AVX512VP2INTERSECT__"),
    ("gfni", "__GFNI__"),
    ("vaes", "__VAES__"),
    ("vpclmulqdq", "__VPCLMULQDQ__"),
    ("avxvnni", "__AVXVNNI__"),
    ("avxifma", "__AVXIFMA__"),
    ("avxneconvert", "__AVXNECONVERT__"),
    ("avxvnniint8", "__AVXVNNIINT8__"),
    ("avxvnniint16", "__AVXVNNIINT16__"),
];

/// Of 64-bit ARM, beyond the first level.
const ARM: &[Extension] = &[
    ("fp16", "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC"),
    ("dotprod", "__ARM_FEATURE_DOTPROD"),
    ("fhm", "__ARM_FEATURE_FP16_FML"),
    ("rdm", "__ARM_FEATURE_QRDMX"),
    ("lse", "__ARM_FEATURE_ATOMICS"),
    ("crc", "__ARM_FEATURE_CRC32"),
    ("aes", "__ARM_FEATURE_AES"),
    ("sha2", "__ARM_FEATURE_SHA2"),
    ("sha3", "__ARM_FEATURE_SHA3"),
    ("sm4", "__ARM_FEATURE_SM4"),
    ("bf16", "__ARM_FEATURE_BF16"),
    ("i8mm", "__ARM_FEATURE_MATMUL_INT8"),
    ("fcma", "__ARM_FEATURE_COMPLEX"),
    ("jsconv", "__ARM_FEATURE_JCVT"),
    ("frintts", "__ARM_FEATURE_FRINT"),
    ("rcpc", "__ARM_FEATURE_RCPC"),
    ("sve", "__ARM_FEATURE_SVE"),
    ("sve2", "__ARM_FEATURE_SVE2"),
    ("f32mm", "__ARM_FEATURE_SVE_MATMUL_FP32"),
    ("f64mm", "__ARM_FEATURE_SVE_MATMUL_FP64"),
    ("sve2-aes", "__ARM_FEATURE_SVE2_AES"),
    ("sve2-bitperm", "__ARM_FEATURE_SVE2_BITPERM"),
    ("sve2-sha3", "__ARM_FEATURE_SVE2_SHA3"),
    ("sve2-sm4", "__ARM_FEATURE_SVE2_SM4"),
    ("mops", "__ARM_FEATURE_MOPS"),
    ("cssc", "__ARM_FEATURE_CSSC"),
];

/// Extensions that compilers use on their own and that no stable interface detects, with the flags that switch them off.
const UNDETECTABLE: &[(&str, &str)] = &[
    ("__XOP__", "-mno-xop"),
    ("__FMA4__", "-mno-fma4"),
    ("__TBM__", "-mno-tbm"),
    ("__AVX512ER__", "-mno-avx512er"),
    ("__AVX512PF__", "-mno-avx512pf"),
    ("__APX_F__", "-mno-apxf"),
    ("__AVX10_2__", "-mno-avx10.2"),
    ("__CMPCCXADD__", "-mno-cmpccxadd"),
    ("__RAOINT__", "-mno-raoint"),
];

/// What a C compiler compiles for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    architecture: &'static str,
    system: &'static str,
    isa: Isa,
    /// Beyond the first level of the architecture, in the order of its table.
    extensions: Vec<&'static str>,
    /// Switch extensions off that cannot be detected.
    pub(crate) without: Vec<&'static str>,
}

impl Target {
    /// Of the output of `-dM -E`; `None` where the architecture or the system is not known.
    pub(crate) fn of_macros(text: &str) -> Option<Self> {
        let name = |line: &'_ str| {
            line.strip_prefix("#define ")?.split([' ', '(']).next().map(str::to_owned)
        };
        let macros: BTreeSet<String> = text.lines().filter_map(name).collect();
        let has = |name: &str| macros.contains(name);
        let first = |table: &[(&str, &'static str)]| {
            table.iter().find(|(name, _)| has(name)).map(|(_, value)| *value)
        };
        let architecture = first(&[
            ("__x86_64__", "x86_64"),
            ("__aarch64__", "aarch64"),
            ("__riscv", "riscv64"),
            ("__powerpc64__", "powerpc64"),
            ("__s390x__", "s390x"),
            ("__loongarch64", "loongarch64"),
            ("__i386__", "x86"),
            ("__arm__", "arm"),
        ])?;
        let system = first(&[
            ("__ANDROID__", "android"),
            ("__linux__", "linux"),
            ("__APPLE__", "macos"),
            ("__FreeBSD__", "freebsd"),
        ])?;
        let table = match architecture {
            "x86_64" => X86,
            "aarch64" => ARM,
            _ => &[],
        };
        let isa = match architecture {
            "x86_64" if has("__AVX512F__") => Isa::Avx512,
            "x86_64" if has("__AVX2__") && has("__FMA__") => Isa::Avx2,
            "aarch64" => Isa::Neon,
            _ => Isa::Plain,
        };
        let extensions =
            table.iter().filter(|(_, name)| has(name)).map(|(name, _)| *name).collect();
        let without =
            UNDETECTABLE.iter().filter(|(name, _)| has(name)).map(|(_, flag)| *flag).collect();
        Some(Self { architecture, system, isa, extensions, without })
    }

    /// Vectors of its code.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The extensions that code for it may use.
    #[must_use]
    pub fn extensions(&self) -> &[&'static str] {
        &self.extensions
    }

    /// Whether a processor of this architecture is asked for its extensions when code is loaded.
    pub(crate) fn is_detected(&self) -> bool {
        matches!(self.architecture, "x86_64" | "aarch64")
    }

    /// For which machines this object is, as a module file has it: `cpu x86_64 linux avx avx2 fma`. Of x86-64 these are the
    /// extensions of its instructions, elsewhere all that code for this target may use.
    #[must_use]
    pub fn words(&self, object: &[u8]) -> String {
        let used = (self.architecture == "x86_64").then(|| extensions_used(object)).flatten();
        let is_used = |name: &&&str| used.as_ref().is_none_or(|used| used.contains(**name));
        let mut words = vec!["cpu", self.architecture, self.system];
        words.extend(self.extensions.iter().filter(is_used));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        for (name, cpu) in [
            ("native", Some(Cpu::Native)),
            ("x86-64-v3", Some(Cpu::Named("x86-64-v3".to_owned()))),
            ("armv8.2-a+sve", Some(Cpu::Named("armv8.2-a+sve".to_owned()))),
            ("", None),
            ("-o", None),
            ("a b", None),
            ("x;y", None),
        ] {
            assert_eq!(name.parse().ok(), cpu, "{name}");
        }
    }

    #[test]
    fn flags_are_those_of_the_architecture() {
        let flag =
            |name: &str, architecture| name.parse::<Cpu>().expect("a processor").flag(architecture);
        assert_eq!(flag("native", "x86_64"), "-march=native");
        assert_eq!(flag("znver3", "x86_64"), "-march=znver3");
        assert_eq!(flag("native", "aarch64"), "-mcpu=native");
        assert_eq!(flag("armv8.2-a+sve", "aarch64"), "-march=armv8.2-a+sve");
        assert_eq!(flag("rv64gcv", "riscv64"), "-march=rv64gcv");
    }

    #[test]
    fn macros_say_what_code_may_use() {
        let of = |names: &[&str]| {
            let lines = names.iter().map(|name| format!("#define {name} 1\n"));
            Target::of_macros(&lines.collect::<String>())
        };
        let wide =
            of(&["__x86_64__", "__linux__", "__AVX2__", "__FMA__", "__AVX512F__", "__XOP__"]);
        let wide = wide.expect("a known target");
        assert_eq!((wide.isa, &*wide.without), (Isa::Avx512, &["-mno-xop"][..]));
        assert_eq!(wide.words(b"no object"), "cpu x86_64 linux fma avx2 avx512f");
        let half = of(&["__x86_64__", "__linux__", "__AVX2__"]).expect("a known target");
        assert_eq!(half.isa, Isa::Plain);
        let arm = of(&["__aarch64__", "__APPLE__", "__ARM_FEATURE_SVE"]).expect("a known target");
        assert_eq!((arm.isa, arm.words(&[])), (Isa::Neon, "cpu aarch64 macos sve".to_owned()));
        assert_eq!(of(&["__linux__"]), None);
        assert_eq!(of(&["__x86_64__"]), None);
    }
}
