//! Tensors of the machine that lie on a device too: what a kernel wrote stays there until the machine wants it, and what
//! it read is there for the next one. Where on the device that is, `B` says; the account is the same for all of them.

use crate::dtype::DType;
use crate::kernels::{Memory, TensorArg};
use std::collections::BTreeMap;

/// The block, where in it the tensor begins, and how many bytes it has.
type Place = (usize, usize, usize);

/// A tensor on a device.
#[derive(Debug)]
pub struct Mirror<B> {
    memory: Memory,
    dtype: DType,
    /// Where it is.
    pub buffer: B,
    /// Whether the machine's memory has other elements.
    pub is_newer: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Mirrors<B> {
    by_place: BTreeMap<Place, Mirror<B>>,
}

impl<B> Default for Mirrors<B> {
    fn default() -> Self {
        Self { by_place: BTreeMap::new() }
    }
}

fn place(memory: &Memory, tensor: &TensorArg<'_>) -> Place {
    (memory.number(), memory.offset, tensor.length())
}

impl<B> Mirrors<B> {
    /// That of a tensor.
    #[must_use]
    pub fn of(&mut self, tensor: &TensorArg<'_>) -> Option<&mut Mirror<B>> {
        let memory = tensor.memory()?;
        self.by_place
            .get_mut(&place(&memory, tensor))
            .filter(|mirror| mirror.dtype == tensor.dtype())
    }

    /// Takes it away.
    pub fn remove(&mut self, tensor: &TensorArg<'_>) -> Option<B> {
        self.of(tensor)?;
        let place = place(&tensor.memory()?, tensor);
        self.by_place.remove(&place).map(|mirror| mirror.buffer)
    }

    /// From now on a tensor is there; what is not its any more goes to `gone`.
    pub fn put(
        &mut self,
        tensor: &TensorArg<'_>,
        (buffer, is_newer): (B, bool),
        gone: &mut Vec<B>,
    ) {
        let Some(memory) = tensor.memory() else { return gone.push(buffer) };
        if is_newer {
            self.forget(tensor, gone);
        }
        let mirror = Mirror { dtype: tensor.dtype(), buffer, is_newer, memory };
        let place = place(&mirror.memory, tensor);
        gone.extend(self.by_place.insert(place, mirror).map(|mirror| mirror.buffer));
    }

    /// A tensor is written to: what shares bytes with it is lost. The machine keeps the same account, and reads none of it.
    pub fn forget(&mut self, tensor: &TensorArg<'_>, gone: &mut Vec<B>) {
        let Some(memory) = tensor.memory() else { return };
        let (block, begin, length) = place(&memory, tensor);
        let of_block = self.by_place.range((block, 0, 0)..(block + 1, 0, 0));
        let lost = of_block
            .filter(|((_, at, bytes), _)| (*at).max(begin) < (*at + *bytes).min(begin + length));
        let lost: Vec<Place> = lost.map(|(place, _)| *place).collect();
        for place in lost {
            gone.extend(self.by_place.remove(&place).map(|mirror| mirror.buffer));
        }
    }

    /// What nobody can ask for any more goes.
    pub fn purge(&mut self, gone: &mut Vec<B>) {
        let place =
            |(place, mirror): (&Place, &Mirror<B>)| mirror.memory.is_gone().then_some(*place);
        let lost: Vec<Place> = self.by_place.iter().filter_map(place).collect();
        for place in lost {
            gone.extend(self.by_place.remove(&place).map(|mirror| mirror.buffer));
        }
    }
}
