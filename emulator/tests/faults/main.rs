//! Small kernels that are wrong, and what is said about them; beside each, one that is right.

mod acquires;
mod asynchronous;
mod barriers;
mod clusters;
mod global;
mod grids;
mod kernel;
mod kinds;
mod memory;
mod pipelines;
mod proxies;
mod races;
mod registers;
mod reports;
mod sources;
mod warps;
