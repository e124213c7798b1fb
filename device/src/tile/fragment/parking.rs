//! Room in shared memory for registers that nobody needs for a while.

use core::marker::PhantomData;

use crate::arch::shared;
use crate::arch::special::thread_x_volatile;
use crate::layout::{FragmentLayout, Registers};
use crate::refuse;
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::fragment::Fragment;

/// Room in shared memory for some of the registers of one or more fragments, each thread's where it alone reads and writes them: for an
/// accumulator that is kept over work which needs its registers.
///
/// ```
/// # use tilewright_device::tile::*;
/// # fn kernel<P: Schedule, L: FragmentLayout<64, 256>>(
/// #     cta: &mut Cta<P>, sums: Fragment<f32, 64, 256, L>, products: impl Fn() -> Fragment<f32, 64, 256, L>,
/// # ) -> Fragment<f32, 64, 256, L> {
/// let mut parking = Parking::new(cta, 1, 64);
/// let rest = parking.put(0, sums);
/// let other = products(); // with 64 registers more
/// // SAFETY: put above.
/// let sums = unsafe { parking.take(0, rest) };
/// # sums.zip(&other, |a, b| a + b)
/// # }
/// ```
pub struct Parking<const M: usize, const N: usize, L> {
    address: u32,
    fragments: u32,
    registers: usize,
    layout: PhantomData<L>,
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Parking<M, N, L> {
    /// Room for the first `registers` of each of so many `fragments`, a multiple of 4 of as many as a thread has: others do not compile. For 0 nothing is parked.
    #[inline(always)]
    pub fn new<P: Collective>(cta: &mut Cta<P>, fragments: u32, registers: usize) -> Self {
        const { assert!(L::THREADS <= P::CONSUMERS, "the fragment lies over more threads than the schedule has") };
        if !registers.is_multiple_of(4) || registers > L::Regs::<f32>::LEN {
            refuse!("registers are parked by fours, of those that a thread has");
        }
        let bytes = fragments * registers as u32 * 4 * L::THREADS;
        let address = if bytes > 0 { cta.reserve(bytes, 16) } else { 0 };
        Parking { address, fragments, registers, layout: PhantomData }
    }

    /// Where this thread has four registers: read anew, so that no address is held meanwhile; neighbours side by side.
    #[inline(always)]
    fn address(&self, fragment: u32, register: usize) -> u32 {
        let fours = fragment * (self.registers / 4) as u32 + register as u32 / 4;
        self.address + (fours * L::THREADS + thread_x_volatile()) * 16
    }

    /// Parks registers of the fragment of this number, known when it is compiled, and gives what stays of it: zeros in their place. All threads that hold it
    /// execute it.
    #[inline(always)]
    pub fn put(&mut self, fragment: u32, of: Fragment<f32, M, N, L>) -> Fragment<f32, M, N, L> {
        if fragment >= self.fragments {
            refuse!("there is room for fewer fragments");
        }
        let (mut rest, mut i) = (of, 0);
        while i < self.registers {
            let mut four = [0.0; 4];
            let mut j = 0;
            while j < 4 {
                four[j] = of.regs.get(i + j);
                rest.regs.set(i + j, 0.0);
                j += 1;
            }
            // SAFETY: this thread's part of the room, which nobody else uses.
            unsafe { shared::store_f32x4(self.address(fragment, i), four) };
            i += 4;
        }
        rest
    }

    /// The fragment, of what stayed of it.
    ///
    /// # Safety
    /// It was put there.
    #[inline(always)]
    pub unsafe fn take(&self, fragment: u32, rest: Fragment<f32, M, N, L>) -> Fragment<f32, M, N, L> {
        let (mut all, mut i) = (rest, 0);
        while i < self.registers {
            // SAFETY: as in `put`; the caller has written it.
            let four = unsafe { shared::load_f32x4(self.address(fragment, i)) };
            let mut j = 0;
            while j < 4 {
                all.regs.set(i + j, four[j]);
                j += 1;
            }
            i += 4;
        }
        all
    }
}
