//! Instructions: the frequent ones in [`step`], the others in files of their families.

mod access;
mod atomic;
mod atomic128;
pub(super) mod barrier;
mod branch;
mod collective;
mod copy;
mod exchange;
mod family;
mod fragments;
mod frame;
mod heap;
pub(super) mod matrix;
mod mbarrier;
mod print;
mod registers;
pub(super) mod step;
mod store_async;
mod tensormap;
mod transfer;
mod wgmma;
