//! Numbers of launches, by which kernels tell the flags of a launch from whatever else is in its workspace.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no launch of this process had before, and of another process only by a chance of 2^-64; not 0.
pub(in crate::ops) fn launch_number() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = mixed(SEED.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
        if number != 0 {
            return number;
        }
    }
}

/// A permutation of all numbers that scatters neighbours (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators").
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..1000).map(|_| launch_number()).collect::<Vec<_>>()))
            .collect();
        let all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(!all.contains(&0));
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 4000);
        // Small ones would be what memory holds.
        assert!(all.iter().filter(|number| **number >> 32 == 0).count() < 4);
    }
}
