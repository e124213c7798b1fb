//! Loops over stages of shared memory that are loaded ahead.

pub mod configuration;
pub mod early;
pub mod loads;
pub mod multistage;
pub mod ring;
pub mod run;
pub mod schedule;
pub mod sums_apart;
pub mod turns;
pub mod warp_specialized;
