//! Small kernels that are wrong, and what is said about them; beside each, one that is right.

mod asynchronous;
mod barriers;
mod global;
mod kernel;
mod kinds;
mod memory;
mod proxies;
mod races;
mod registers;
mod reports;
mod sources;
mod warps;
