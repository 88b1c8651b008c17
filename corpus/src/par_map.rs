//! Work on many items shared among the cores, for tests that are one property of all of them.

use std::thread;

/// Deep recursion in a program is the program's business, not the thread's.
const STACK: usize = 256 << 20;

/// Deals the items out, one share a core, and gives what came of each share. A panic in a share is the caller's.
pub fn par_map_chunks<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(Vec<T>) -> R + Sync,
) -> Vec<R> {
    let count = thread::available_parallelism().map_or(1, usize::from).min(items.len()).max(1);
    let mut shares: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for (at, item) in items.into_iter().enumerate() {
        shares[at % count].push(item);
    }
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let thread = thread::Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, move || work(share)).expect("a thread starts")
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
    fn every_item_is_in_one_share() {
        let mut all: Vec<u32> = par_map_chunks((0..100).collect(), |share| share).concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert_eq!(par_map_chunks(Vec::<u32>::new(), |share| share.len()), [0]);
    }
}
