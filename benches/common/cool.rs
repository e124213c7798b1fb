//! Measuring on a card that rests.

use std::time::Duration;

use tilewright_support::timing::Options;

/// How cases are measured: a pause before each measurement, of a single launch behind an overwritten L2 cache.
pub fn options(sets: usize) -> Options {
    Options { sets, rounds: 10, idle: Duration::from_millis(350), flush_l2: true, ..Options::default() }
}
