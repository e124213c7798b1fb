//! Accumulators in registers.

use crate::layout::{FragmentLayout, Sum};

/// An accumulator's layout, with what waiting for its gemms takes.
pub trait Accumulates<const M: usize, const N: usize>: FragmentLayout<M, N> {
    /// True when gemms into it run asynchronously.
    const ASYNCHRONOUS: bool;
    /// True when each warpgroup has an accumulator of its own, of another tile.
    const APART: bool = false;
    /// Waits for all gemms of the warpgroup; see [`Pending`](super::in_flight::Pending).
    ///
    /// # Safety
    /// All of the warpgroup executes it.
    #[doc(hidden)]
    unsafe fn settle<S: Sum>(regs: &mut Self::Regs<S>);
    /// Orders the compiler's reads of the registers behind what precedes.
    ///
    /// # Safety
    /// A wait has been executed.
    #[doc(hidden)]
    unsafe fn touch<S: Sum>(regs: &mut Self::Regs<S>);
}
