// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same for many things, as many at a time as there are processors.

use std::sync::Mutex;
use std::thread;

/// What `f` makes of each of `items`, in their order.
pub(crate) fn map<T: Send, U: Send>(items: Vec<T>, f: impl Fn(T) -> U + Sync) -> Vec<U> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().expect("nothing panics with it").next();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, item)) = next() {
                    let result = f(item);
                    results.lock().expect("nothing panics with it").push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("nothing panics with it");
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_what_they_are_made_of() {
        let squares = super::map((0..100_u64).collect(), |number| {
            if number.is_multiple_of(7) {
                std::thread::yield_now();
            }
            number * number
        });
        assert_eq!(squares, (0..100).map(|number| number * number).collect::<Vec<_>>());
        assert!(super::map(Vec::<u8>::new(), |number| number).is_empty());
    }
}
