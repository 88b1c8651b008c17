//! Philox4x32-10, the counter-based generator of Salmon et al. (2011): random bits as a function of a key and a position, so that
//! any element is computed without those before it, in any order and on any number of threads.

use relax_syntax::dtype::DType;

/// The factors of a round.
pub(crate) const FACTORS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];

/// What the key grows by from round to round.
pub(crate) const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Rounds of a block.
pub(crate) const ROUNDS: u32 = 10;

/// The bits of a state. It has four words, the key and the low half of the counter, the low word first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    key: [u32; 2],
    /// Of the first block.
    counter: u128,
}

impl Bits {
    /// Those of a stream. The high half of the counter is the key plus the number of the stream: the stream 0 is that of XLA's
    /// `RngBitGenerator` with `RNG_PHILOX` for a state of two words of 64 bits, and of others each block has another counter.
    pub(crate) fn new(state: [u32; 4], stream: u32) -> Self {
        let [key, low] = halves(state);
        let high = key.wrapping_add(u64::from(stream));
        let counter = (u128::from(high) << 64) | u128::from(low);
        Self { key: [state[0], state[1]], counter }
    }

    /// The word of an element, which counts from 0.
    pub(crate) fn at(&self, position: u64) -> u32 {
        let counter = self.counter.wrapping_add(u128::from(position / 4));
        let words = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
        block(words, self.key)[(position % 4) as usize]
    }
}

/// The state behind the blocks of that many elements.
pub(crate) fn advanced(state: [u32; 4], elements: u64) -> [u32; 4] {
    let low = halves(state)[1].wrapping_add(elements.div_ceil(4));
    [state[0], state[1], low as u32, (low >> 32) as u32]
}

/// An element of dropout is dropped where its bits are less.
#[must_use]
pub fn dropout_threshold(rate: f64) -> u32 {
    // Of a rate below 1 the product is below 2³², and exact.
    (rate * f64::from(2_u32).powi(32)) as u32
}

/// The dtype in which dropout multiplies, and the factor of kept elements in it.
#[must_use]
pub fn dropout_scale(rate: f64, dtype: DType) -> (DType, f64) {
    let scale = 1.0 / (1.0 - rate);
    if dtype == DType::F64 { (dtype, scale) } else { (DType::F32, f64::from(scale as f32)) }
}

/// The key and the low half of the counter.
fn halves([k0, k1, c0, c1]: [u32; 4]) -> [u64; 2] {
    [(k0, k1), (c0, c1)].map(|(low, high)| (u64::from(high) << 32) | u64::from(low))
}

/// Four words of a counter.
fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [p, q] = [0, 1].map(|at| u64::from(FACTORS[at]) * u64::from(counter[2 * at]));
        let [p_high, q_high] = [p, q].map(|product| (product >> 32) as u32);
        counter = [q_high ^ counter[1] ^ key[0], q as u32, p_high ^ counter[3] ^ key[1], p as u32];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of Random123 1.14 (`kat_vectors`, `philox4x32 10`).
    #[test]
    fn blocks_are_the_published_ones() {
        let all = u32::MAX;
        let known = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, words) in known {
            assert_eq!(block(counter, key), words);
        }
    }

    #[test]
    fn streams_share_no_block_and_counters_carry() {
        let state = [7, u32::MAX, u32::MAX, u32::MAX];
        let words = |stream| (0..4096).map(|at| Bits::new(state, stream).at(at)).collect();
        let [first, second]: [Vec<u32>; 2] = [0, 1].map(words);
        assert!(first.chunks(4).all(|block| !second.chunks(4).any(|other| other == block)));
        assert_eq!(advanced(state, 5), [7, u32::MAX, 1, 0]);
        assert_eq!(advanced(state, 0), state);
    }

    #[test]
    fn thresholds_are_within_a_unit() {
        let least = 1.0 - f64::EPSILON / 2.0;
        let found = [0.0, 0.5, 0.1, least].map(dropout_threshold);
        assert_eq!(found, [0, 1 << 31, 429_496_729, u32::MAX]);
        assert_eq!(dropout_scale(0.1, DType::F16), (DType::F32, f64::from(1.111_111_2_f32)));
    }
}
