//! What tiles depend on: the vectors of a processor, its registers, caches and cores.

/// Vectors that the prelude knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// x86-64 with AVX-512F.
    Avx512,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// 64-bit ARM.
    Neon,
    /// Anything else: vectors of 16 bytes.
    Plain,
}

impl Isa {
    /// All of them, the widest first, in the order in which the C text asks for them.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Plain];

    /// As tables and people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Plain => "plain",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// f32 in a vector.
    #[must_use]
    pub fn lanes(self) -> u64 {
        match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Neon | Self::Plain => 4,
        }
    }

    /// Vector registers.
    #[must_use]
    pub fn registers(self) -> u64 {
        match self {
            Self::Avx512 | Self::Neon => 32,
            Self::Avx2 | Self::Plain => 16,
        }
    }

    /// Vector registers that elements of the left matrix take. Where a multiplication takes one as a lane of a register, GCC loads those
    /// of a term ahead; with fewer registers left it keeps accumulators in memory. Elsewhere one is repeated in a register at a time.
    pub(crate) fn registers_of_left(self) -> u64 {
        match self {
            Self::Neon => 8,
            Self::Avx512 | Self::Avx2 | Self::Plain => 1,
        }
    }

    /// What the C compiler defines where code may use it, if no wider one is there; nothing where always.
    pub(crate) fn condition(self) -> Option<&'static str> {
        match self {
            Self::Avx512 => Some("defined __AVX512F__"),
            Self::Avx2 => Some("defined __AVX2__ && defined __FMA__"),
            Self::Neon => Some("defined __aarch64__"),
            Self::Plain => None,
        }
    }
}

/// A processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Its vectors.
    pub isa: Isa,
    /// Bytes of a core's first data cache.
    pub l1: u64,
    /// Bytes of its second cache.
    pub l2: u64,
    /// Bytes of the last cache; 0 where there is none after the second.
    pub l3: u64,
    /// How many cores there are.
    pub cores: u64,
}

impl Hardware {
    /// What is assumed where nothing is known: code that is compiled so is the same on every machine.
    #[must_use]
    pub fn assumed(isa: Isa) -> Self {
        let l2 = if isa == Isa::Avx512 { 1 << 20 } else { 512 << 10 };
        Self { isa, l1: 32 << 10, l2, l3: 8 << 20, cores: 2 }
    }
}
