//! Small kernels with a fault each, which must be caught where it is, and without it, which must not be accused.

mod kernel;
mod registers;
mod sources;
