//! Every instruction of `arch` assembles: rustc writes PTX that `ptxas` takes, for the targets that its
//! documentation names.

mod assembled;
#[path = "../common/mod.rs"]
mod common;
mod complete;
