//! Memory of the device: for each block of the machine one of as many bytes, where tensors lie at the same offsets as there, so
//! that a plan of memory is the device's too; and memory of single calls. What nobody has any more is given out again, the
//! oldest first: calls that take the same sizes in the same order find the same addresses, as graphs need it.

use crate::queue::Queue;
use crate::{Device, Error};
use relax_runtime::Memory;
use std::collections::BTreeMap;

/// Bytes that wait to be given out again at most.
const WAITING: usize = 4 << 30;
/// Sizes are multiples of that.
const STEP: usize = 256;

/// Where bytes of the device begin, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) address: u64,
    bytes: usize,
    /// How many were taken of the device before.
    number: u64,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Blocks {
    by_number: BTreeMap<usize, (Memory, Room)>,
    /// By size and number.
    free: BTreeMap<usize, BTreeMap<u64, u64>>,
    waiting: usize,
    taken: u64,
}

impl Blocks {
    /// Where the bytes of the machine are on the device.
    pub(crate) fn address<D: Device>(
        &mut self,
        memory: &Memory,
        queue: &mut Queue<D>,
    ) -> Result<u64, Error> {
        let offset = memory.offset as u64;
        if let Some((_, room)) = self.by_number.get(&memory.number()) {
            return Ok(room.address + offset);
        }
        self.purge();
        let room = self.take(memory.bytes(), queue)?;
        self.by_number.insert(memory.number(), (memory.clone(), room));
        Ok(room.address + offset)
    }

    /// Memory of at least this many bytes, whatever they hold.
    pub(crate) fn take<D: Device>(
        &mut self,
        bytes: usize,
        queue: &mut Queue<D>,
    ) -> Result<Room, Error> {
        let bytes = bytes.max(1).next_multiple_of(STEP);
        let fits = self.free.range_mut(bytes..=bytes.saturating_mul(2)).next();
        if let Some((&bytes, addresses)) = fits
            && let Some((number, address)) = addresses.pop_first()
        {
            if addresses.is_empty() {
                self.free.remove(&bytes);
            }
            self.waiting -= bytes;
            return Ok(Room { address, bytes, number });
        }
        let address = match queue.allocate(bytes) {
            Ok(address) => address,
            Err(_) => {
                self.purge();
                self.release_free(queue)?;
                queue.allocate(bytes)?
            }
        };
        let number = self.taken;
        self.taken += 1;
        Ok(Room { address, bytes, number })
    }

    /// Nobody has it any more but what was asked for before.
    pub(crate) fn give_back(&mut self, room: Room) {
        self.waiting += room.bytes;
        self.free.entry(room.bytes).or_default().insert(room.number, room.address);
    }

    /// At the end of a call: too much is not kept.
    pub(crate) fn trim<D: Device>(&mut self, queue: &mut Queue<D>) -> Result<(), Error> {
        if self.waiting > WAITING { self.release_free(queue) } else { Ok(()) }
    }

    /// Blocks that the machine has no longer.
    fn purge(&mut self) {
        let is_gone =
            |(number, (memory, _)): (&usize, &(Memory, Room))| memory.is_gone().then_some(*number);
        let gone: Vec<usize> = self.by_number.iter().filter_map(is_gone).collect();
        for number in gone {
            if let Some((_, room)) = self.by_number.remove(&number) {
                self.give_back(room);
            }
        }
    }

    fn release_free<D: Device>(&mut self, queue: &mut Queue<D>) -> Result<(), Error> {
        self.waiting = 0;
        let free = std::mem::take(&mut self.free);
        let mut addresses = free.into_values().flatten();
        addresses.try_for_each(|(_, address)| queue.release(address))
    }

    /// Everything goes back to the device.
    pub(crate) fn release_all<D: Device>(&mut self, queue: &mut Queue<D>) -> Result<(), Error> {
        for (_, room) in std::mem::take(&mut self.by_number).into_values() {
            self.give_back(room);
        }
        self.release_free(queue)
    }
}
