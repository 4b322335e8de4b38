//! Work spread over the machine's cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `work` makes of each of `items`, in their order.
pub fn spread<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return done };
            done.push((i, work(item)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let all: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        all.into_iter().flat_map(|one| one.join().expect("the work is done")).collect()
    });
    done.sort_unstable_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, result)| result).collect()
}
