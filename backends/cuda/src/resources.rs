//! What a kernel takes of a multiprocessor: registers, shared memory and spills, as NVIDIA's assembler reports them, and how many threads
//! run at once for that (occupancy: CUDA C++ Programming Guide, "Hardware Multithreading").

/// What one kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The function of the text.
    pub function: String,
    /// Registers of 32 bits of a thread.
    pub registers: u32,
    /// Bytes of memory that a block shares.
    pub shared: u32,
    /// Bytes of registers that are stored to memory, and loaded from there, for want of registers.
    pub spilled: [u32; 2],
}

/// Of a multiprocessor of sm_80 and sm_90: registers, threads, blocks; registers come in 256 for a warp, and shared memory has so many
/// bytes, of which each block takes 1 KiB beside its own. Of shared memory that is sm_80, which has less.
const REGISTERS: u32 = 65_536;
const REGISTERS_AT_ONCE: u32 = 256;
const THREADS: u32 = 2048;
const BLOCKS: u32 = 32;
const SHARED: u32 = 164 << 10;
const SHARED_OF_A_BLOCK: u32 = 1 << 10;
const LANES: u32 = 32;

impl Resources {
    /// How many of the threads that a multiprocessor could have it has, in per cent, with blocks of so many.
    #[must_use]
    pub fn occupancy(&self, threads: u32) -> u32 {
        let warps = threads.max(1).div_ceil(LANES);
        let of_warp = (self.registers * LANES).next_multiple_of(REGISTERS_AT_ONCE).max(1);
        let by_registers = REGISTERS / of_warp / warps;
        let by_shared = SHARED / (self.shared + SHARED_OF_A_BLOCK);
        let by_threads = THREADS / (warps * LANES);
        let blocks = by_registers.min(by_shared).min(by_threads).min(BLOCKS);
        blocks * warps * LANES * 100 / THREADS
    }
}

/// The kernels of a report, by name. Lines of it that say something else are passed over.
pub(crate) fn reported(log: &str) -> Vec<Resources> {
    let mut found: Vec<Resources> = Vec::new();
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            found.push(Resources { function: name.to_owned(), ..Resources::default() });
        }
        let Some(last) = found.last_mut() else { continue };
        let mut number = |after: &str, to: fn(&mut Resources) -> &mut u32| {
            if let Some(value) = before(line, after) {
                *to(last) = value;
            }
        };
        number(" registers", |last| &mut last.registers);
        number(" bytes smem", |last| &mut last.shared);
        number(" bytes spill stores", |last| &mut last.spilled[0]);
        number(" bytes spill loads", |last| &mut last.spilled[1]);
    }
    found.sort_by(|a, b| a.function.cmp(&b.function));
    found
}

fn between<'l>(line: &'l str, start: &str, end: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(start)?;
    rest.split_once(end).map(|(name, _)| name)
}

/// The number that stands before a text.
fn before(line: &str, text: &str) -> Option<u32> {
    let (start, _) = line.split_once(text)?;
    start.rsplit(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'relax_b_0' for 'sm_90'
ptxas info    : Function properties for relax_b_0
ptxas         .     136 bytes stack frame, 168 bytes spill stores, 204 bytes spill loads
ptxas info    : Used 128 registers, 136 bytes cumulative stack size, 8448 bytes smem
ptxas info    : Compiling entry function 'relax_a_0' for 'sm_90'
ptxas info    : Function properties for relax_a_0
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers
";

    #[test]
    fn a_report_is_read() {
        let names = |name: &str| name.to_owned();
        let a = Resources { function: names("relax_a_0"), registers: 40, ..Default::default() };
        let (function, spilled) = (names("relax_b_0"), [168, 204]);
        let b = Resources { function, registers: 128, shared: 8448, spilled };
        assert_eq!(reported(LOG), [a, b]);
        assert!(reported("").is_empty());
    }

    /// As NVIDIA's own table has it, for blocks of 256 threads.
    #[test]
    fn occupancy_is_what_registers_and_shared_memory_leave() {
        let with =
            |registers: u32, shared: u32| Resources { registers, shared, ..Default::default() };
        assert_eq!(with(32, 0).occupancy(256), 100);
        assert_eq!(with(40, 0).occupancy(256), 75);
        assert_eq!(with(128, 8448).occupancy(256), 25);
        assert_eq!(with(32, 48 << 10).occupancy(256), 37);
        assert_eq!(with(16, 0).occupancy(32), 50);
    }
}
