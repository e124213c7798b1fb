//! Small kernels that are wrong, and what is said about them; beside each, one that is right.

mod barriers;
mod kernel;
mod memory;
mod races;
mod registers;
mod sources;

