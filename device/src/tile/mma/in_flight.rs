//! Asynchrony in the types: registers that a gemm may still be writing cannot be read.
//!
//! A gemm takes its accumulator by value. What it returns is [`Issued`]; committing a group of issued gemms makes
//! it [`InFlight`]; only waiting gives the fragment back. Forgetting either loses the fragment, never the order.

use crate::arch::special::thread_x;
use crate::arch::wgmma;
use crate::layout::Sum;
use crate::tile::fragment::Fragment;
use crate::tile::fragment::held::Held;
use crate::tile::mma::accumulates::Accumulates;

/// An accumulator with gemms issued into it, not yet committed, and the operands `A` in registers that they read.
#[must_use = "the gemm's result is in here: wait for it"]
pub struct Issued<D, A = ()>(pub(in crate::tile) D, pub(in crate::tile) A);

/// An accumulator whose gemms are committed and may be running.
#[must_use = "the gemm's result is in here: wait for it"]
pub struct InFlight<I>(I);

/// Issued gemms: one accumulator's, or a tuple of 2 to 4.
pub trait Pending: Sized {
    /// The accumulators when the gemms are done.
    type Done;
    /// True when gemms run asynchronously: `wgmma`, not `mma.sync`.
    const ASYNCHRONOUS: bool;
    /// True when each warpgroup has accumulators of its own.
    const APART: bool = false;
    /// The threads that hold the accumulators.
    const THREADS: u32;

    /// Waits for every committed gemm of this warpgroup, and makes the compiler read the registers after it.
    ///
    /// # Safety
    /// All of the warpgroup executes it.
    #[doc(hidden)]
    unsafe fn settle(&mut self);
    /// Makes the compiler read the registers after what precedes, without waiting.
    ///
    /// # Safety
    /// A wait for the gemms has been executed.
    #[doc(hidden)]
    unsafe fn touch(&mut self);
    /// The accumulators.
    ///
    /// # Safety
    /// The gemms have been waited for, or none was issued.
    #[doc(hidden)]
    unsafe fn done(self) -> Self::Done;

    /// Closes the group of gemms issued so far, so that it can be waited for.
    #[inline(always)]
    fn commit(self) -> InFlight<Self> {
        if Self::ASYNCHRONOUS && thread_x() < Self::THREADS {
            // SAFETY: consumer warpgroups execute a kernel's tile operations converged.
            unsafe { wgmma::commit() };
        }
        InFlight(self)
    }
    /// Commits, and waits for all gemms of this warpgroup.
    #[inline(always)]
    fn wait(self) -> Self::Done {
        self.commit().wait()
    }
    /// `f` of the accumulators when the gemms are done.
    #[inline(always)]
    fn then<U, F: FnOnce(Self::Done) -> U>(self, f: F) -> Then<Self, F> {
        Then(self, f)
    }
}

/// Gemms, and what becomes of their accumulators when they are done: see [`Pending::then`].
#[must_use = "the gemms' result is in here: wait for it"]
pub struct Then<I, F>(I, F);

impl<I: Pending, U, F: FnOnce(I::Done) -> U> Pending for Then<I, F> {
    type Done = U;
    const ASYNCHRONOUS: bool = I::ASYNCHRONOUS;
    const APART: bool = I::APART;
    const THREADS: u32 = I::THREADS;

    #[inline(always)]
    unsafe fn settle(&mut self) {
        // SAFETY: passed on.
        unsafe { self.0.settle() }
    }
    #[inline(always)]
    unsafe fn touch(&mut self) {
        // SAFETY: passed on.
        unsafe { self.0.touch() }
    }
    #[inline(always)]
    unsafe fn done(self) -> U {
        // SAFETY: passed on.
        (self.1)(unsafe { self.0.done() })
    }
}

impl<I: Pending> InFlight<I> {
    /// Waits for all gemms of this warpgroup.
    #[inline(always)]
    pub fn wait(mut self) -> I::Done {
        // SAFETY: consumer warpgroups execute a kernel's tile operations converged; then the gemms are done.
        unsafe {
            if thread_x() < I::THREADS {
                self.0.settle();
            }
            self.0.done()
        }
    }

    /// Commits `later`, does `between`, and waits for these gemms while those run.
    #[inline(always)]
    pub fn behind<J: Pending>(mut self, later: J, between: impl FnOnce()) -> (I::Done, InFlight<J>) {
        let later = later.commit();
        between();
        // SAFETY: consumer warpgroups execute a kernel's tile operations converged; all groups but the one that was just
        // committed are waited for, and this one is older.
        unsafe {
            if thread_x() < I::THREADS {
                if I::ASYNCHRONOUS {
                    wgmma::wait::<1>();
                }
                self.0.touch();
            }
            (self.0.done(), later)
        }
    }
}

impl<S: Sum, const M: usize, const N: usize, L: Accumulates<M, N>, A: Held> Pending
    for Issued<Fragment<S, M, N, L>, A>
{
    type Done = Fragment<S, M, N, L>;
    const ASYNCHRONOUS: bool = L::ASYNCHRONOUS;
    const APART: bool = L::APART;
    const THREADS: u32 = L::THREADS;

    #[inline(always)]
    unsafe fn settle(&mut self) {
        // SAFETY: passed on.
        unsafe {
            L::settle(&mut self.0.regs);
            if L::ASYNCHRONOUS {
                self.1.keep()
            }
        }
    }
    #[inline(always)]
    unsafe fn touch(&mut self) {
        // SAFETY: passed on.
        unsafe {
            L::touch(&mut self.0.regs);
            if L::ASYNCHRONOUS {
                self.1.keep()
            }
        }
    }
    #[inline(always)]
    unsafe fn done(self) -> Self::Done {
        self.0
    }
}

macro_rules! several {
    ($first:ident $($other:ident $i:tt)*) => {
        impl<$first: Pending, $($other: Pending),*> Pending for ($first, $($other),*) {
            type Done = ($first::Done, $($other::Done),*);
            const ASYNCHRONOUS: bool = $first::ASYNCHRONOUS $(|| $other::ASYNCHRONOUS)*;
            const APART: bool = $first::APART $(|| $other::APART)*;
            const THREADS: u32 = {
                $(assert!(
                    $first::THREADS == $other::THREADS,
                    "accumulators of one loop are of one policy's threads"
                );)*
                $first::THREADS
            };

            #[inline(always)]
            unsafe fn settle(&mut self) {
                // SAFETY: passed on; the first waits for all gemms.
                unsafe {
                    self.0.settle();
                    $(self.$i.touch();)*
                }
            }
            #[inline(always)]
            unsafe fn touch(&mut self) {
                // SAFETY: passed on.
                unsafe {
                    self.0.touch();
                    $(self.$i.touch();)*
                }
            }
            #[inline(always)]
            unsafe fn done(self) -> Self::Done {
                // SAFETY: passed on.
                unsafe { (self.0.done(), $(self.$i.done()),*) }
            }
        }

        impl<$first: Accumulator, $($other: Accumulator),*> Accumulator for ($first, $($other),*) {
            type Issued = ($first::Issued, $($other::Issued),*);
            #[inline(always)]
            fn start(self) -> Self::Issued {
                (self.0.start(), $(self.$i.start()),*)
            }
        }
    };
}
several!(A B 1);
several!(A B 1 C 2);
several!(A B 1 C 2 D 3);

impl<S: Sum, const M: usize, const N: usize, L: Accumulates<M, N>, A: Held> Issued<Fragment<S, M, N, L>, A> {
    /// Waits for the gemms, so that their operands in registers are free: for a pipeline, whose steps hold none.
    #[inline(always)]
    pub fn settled(self) -> Issued<Fragment<S, M, N, L>> {
        Issued(self.wait(), ())
    }
}

/// What a pipeline accumulates into: a fragment, or a tuple of 2 to 4, of one policy's threads.
///
/// Several share a stage's tiles: products with one operand in common, or one whose columns are more than an accumulator has, which are
/// taken from the stage by [`Src::columns`](crate::tile::Src::columns).
pub trait Accumulator: Sized {
    /// The accumulator while gemms are issued into it.
    type Issued: Pending<Done = Self>;
    /// Hands the accumulator to the gemms to come.
    fn start(self) -> Self::Issued;
}

impl<S: Sum, const M: usize, const N: usize, L: Accumulates<M, N>> Accumulator for Fragment<S, M, N, L> {
    type Issued = Issued<Self>;
    #[inline(always)]
    fn start(self) -> Issued<Self> {
        Issued(self, ())
    }
}
