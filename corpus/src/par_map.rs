//! Parallel map over chunks, one per core. For tests that check one property of many items.

use std::thread;

/// Deep recursion in a program is the program's business, not the thread's.
const STACK: usize = 256 << 20;

/// Splits the items into one chunk per core, maps each chunk on a thread of its own, and returns the results in the
/// order of the chunks. A panic in a chunk is the caller's.
pub fn par_map_chunks<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(Vec<T>) -> R + Sync,
) -> Vec<R> {
    let count = thread::available_parallelism().map_or(1, usize::from).min(items.len()).max(1);
    let mut chunks: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for (at, item) in items.into_iter().enumerate() {
        chunks[at % count].push(item);
    }
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = chunks
            .into_iter()
            .map(|chunk| {
                let thread = thread::Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, move || work(chunk)).expect("a thread starts")
            })
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::par_map_chunks;

    #[test]
    fn every_item_is_in_one_chunk() {
        let mut all: Vec<u32> = par_map_chunks((0..100).collect(), |chunk| chunk).concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert_eq!(par_map_chunks(Vec::<u32>::new(), |chunk| chunk.len()), [0]);
    }
}
