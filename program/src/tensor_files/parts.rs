//! Parts of stored tensors: consecutive indices of each axis, read without most of the rest.

use std::io;
use std::ops::Range;

/// Bytes that are read at once where rows are cut.
const CHUNK: usize = 1 << 20;

/// Reads bytes from an offset on.
type Read<'r> = dyn FnMut(usize, &mut [u8]) -> io::Result<()> + 'r;

/// The bytes of a part of a row-major tensor of `shape`, which lies in `shape`; elements have `size` bytes.
///
/// # Errors
/// What reading says.
pub(super) fn bytes(
    (shape, size): (&[usize], usize),
    part: &[Range<usize>],
    read: &mut Read<'_>,
) -> io::Result<Vec<u8>> {
    let count = |ranges: &[Range<usize>]| ranges.iter().map(ExactSizeIterator::len).product();
    let total: usize = count(part);
    let mut all = Vec::with_capacity(total * size);
    let cut = (0..shape.len()).rev().find(|&axis| part[axis] != (0..shape[axis]));
    let (Some(cut), 1..) = (cut, total) else {
        all.resize(total * size, 0);
        read(0, &mut all)?;
        return Ok(all);
    };
    let inner = shape[cut + 1..].iter().product::<usize>() * size;
    let (row, first, wanted) =
        (shape[cut] * inner, part[cut].start * inner, part[cut].len() * inner);
    // Rows along the axis before it follow each other; of the axes before that, there is an offset for each index.
    let (outer, rows) = match cut {
        0 => (0, 0..1),
        _ => (cut - 1, part[cut - 1].clone()),
    };
    let at_once = (CHUNK / row).clamp(1, rows.len());
    let mut buffer = vec![0; (at_once - 1) * row + wanted];
    for number in 0..count(&part[..outer]) {
        let before = index(number, &part[..outer], shape) * if cut == 0 { 1 } else { shape[outer] };
        for start in rows.clone().step_by(at_once) {
            let own = at_once.min(rows.end - start);
            let buffer = &mut buffer[..(own - 1) * row + wanted];
            read((before + start) * row + first, buffer)?;
            buffer.chunks(row).for_each(|bytes| all.extend_from_slice(&bytes[..wanted]));
        }
    }
    Ok(all)
}

/// The place in the whole, of axes of `shape`, of the index with this number in a part.
fn index(mut number: usize, part: &[Range<usize>], shape: &[usize]) -> usize {
    let (mut place, mut stride) = (0, 1);
    for (range, extent) in part.iter().zip(shape).rev() {
        place += (range.start + number % range.len()) * stride;
        number /= range.len();
        stride *= extent;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part of a tensor of (3, 2, 4) elements of two bytes.
    #[test]
    fn every_part_is_read() {
        let shape = [3, 2, 4];
        let whole: Vec<u8> = (0..48).collect();
        let ranges =
            |extent: usize| (0..=extent).flat_map(move |a| (a..=extent).map(move |b| a..b));
        for a in ranges(3) {
            for b in ranges(2) {
                for c in ranges(4) {
                    let mut wanted = Vec::new();
                    for i in a.clone() {
                        for j in b.clone() {
                            for k in c.clone() {
                                let at = ((i * 2 + j) * 4 + k) * 2;
                                wanted.extend_from_slice(&whole[at..at + 2]);
                            }
                        }
                    }
                    let part = [a.clone(), b.clone(), c];
                    let read = &mut |at: usize, into: &mut [u8]| {
                        into.copy_from_slice(&whole[at..at + into.len()]);
                        Ok(())
                    };
                    let found = bytes((&shape, 2), &part, read).expect("it is in memory");
                    assert_eq!(found, wanted, "{part:?}");
                }
            }
        }
    }

    /// Of a matrix whose columns are cut no more is read than lies between the first and the last of some rows.
    #[test]
    fn most_of_the_rest_is_not_read() {
        let mut most = 0;
        let read = &mut |_: usize, into: &mut [u8]| {
            most = most.max(into.len());
            Ok(())
        };
        let part = [0..5000, 100..200];
        let found = bytes((&[5000, 1000], 4), &part, read).expect("it is in memory");
        assert_eq!(found.len(), 5000 * 100 * 4);
        assert!(most <= CHUNK, "{most}");
    }
}
