//! One value for each row of a tile, from the threads of one fragment to those of another.

use core::marker::PhantomData;

use super::roles::TwoRoles;
use super::{CopyTo, Cta, RelayTurn, Rows};
use crate::arch::shared::{dynamic_shared, dynamic_shared_volatile};
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::{mbarrier, shared, sync};
use crate::layout::{Element, FragmentLayout, Registers};

/// Vectors of `M` values of `T` in shared memory, one for each of a [`Relay`](super::Relay)'s `N` stages: written and read
/// by whom the stage has its turn with.
pub struct RowVectors<T, const M: usize, const N: usize> {
    /// Where they begin in the CTA's shared memory.
    begin: u32,
    element: PhantomData<T>,
}

/// A vector of `M` values of `T` in shared memory.
pub struct RowVector<'s, T, const M: usize> {
    address: u32,
    kind: PhantomData<(&'s (), T)>,
}

/// A vector of `M` values that the second role sends to the first, once a tile.
pub struct RowMailbox<P, const M: usize> {
    /// Where it begins in the CTA's shared memory.
    begin: u32,
    roles: PhantomData<P>,
}

impl<P: TwoRoles> Cta<P> {
    /// A vector of `M` values of `T` for each of `N` stages.
    #[inline(always)]
    pub fn row_vectors<T: Element, const M: usize, const N: usize>(&mut self) -> RowVectors<T, M, N> {
        RowVectors {
            begin: self.take((M * N * T::BYTES) as u32, 16) - dynamic_shared(),
            element: PhantomData,
        }
    }
    /// A vector of `M` values that the second role sends to the first. Make it before the relay, which all wait for.
    #[inline(always)]
    pub fn row_mailbox<const M: usize>(&mut self) -> RowMailbox<P, M> {
        let mailbox =
            RowMailbox { begin: self.take(M as u32 * 4 + 16, 16) - dynamic_shared(), roles: PhantomData };
        if thread_x() == 0 {
            // SAFETY: the memory was just taken; nobody uses the barriers before the relay's threads met.
            unsafe {
                mbarrier::init(mailbox.full(), P::WARPS[1]);
                mbarrier::init(mailbox.empty(), P::WARPS[0]);
            }
        }
        mailbox
    }
}

impl<T: Element, const M: usize, const N: usize> RowVectors<T, M, N> {
    /// The vector of a turn's stage.
    #[inline(always)]
    pub fn at<'s>(&self, turn: &'s RelayTurn<N>) -> RowVector<'s, T, M> {
        RowVector {
            address: dynamic_shared_volatile() + self.begin + turn.stage() * (M * T::BYTES) as u32,
            kind: PhantomData,
        }
    }
}

impl<T: Element, const M: usize> RowVectors<T, M, 1> {
    /// The only vector: for threads of one warp to keep their rows' values in.
    #[inline(always)]
    pub fn only(&mut self) -> RowVector<'_, T, M> {
        RowVector { address: dynamic_shared_volatile() + self.begin, kind: PhantomData }
    }
}

impl<T, const M: usize> RowVector<'_, T, M> {
    /// The vector that begins at an address.
    #[inline(always)]
    pub(super) fn at(address: u32) -> Self {
        RowVector { address, kind: PhantomData }
    }
    /// The same vector, to be read or written once more.
    #[inline(always)]
    pub(super) fn again(&mut self) -> RowVector<'_, T, M> {
        RowVector { address: self.address, kind: PhantomData }
    }
}

impl<const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<f32, M, C, L> {
    /// As [`copy`](super::copy), but all threads that have a row write its value: without a branch.
    #[inline(always)]
    pub(super) fn copy_alike<T: Element>(self, to: RowVector<'_, T, M>) {
        for_each_row::<L, M, C>(|r, row, _| store(&to, row, self.regs.get(r)));
    }
}

/// The value of a row.
#[inline(always)]
pub(super) fn load<T: Element, const M: usize>(from: &RowVector<'_, T, M>, row: u32) -> f32 {
    let at = from.address + row * T::BYTES as u32;
    // SAFETY: inside the vector, whose turn is this role's.
    let bits = unsafe { if T::BYTES == 2 { shared::load_u16(at) as u32 } else { shared::load_u32(at) } };
    T::from_bits(bits).to_f32()
}

/// Stores the value of a row, rounded to `T`.
#[inline(always)]
pub(super) fn store<T: Element, const M: usize>(to: &RowVector<'_, T, M>, row: u32, value: f32) {
    let (at, bits) = (to.address + row * T::BYTES as u32, T::from_f32x2(value, 0.0)[0].bits());
    // SAFETY: inside the vector, whose turn is this role's.
    unsafe { if T::BYTES == 2 { shared::store_u16(at, bits as u16) } else { shared::store_u32(at, bits) } }
}

/// Rounded to `T`; one thread writes each row's value.
impl<T: Element, L, const M: usize, const C: usize> CopyTo<RowVector<'_, T, M>> for Rows<f32, M, C, L>
where
    L: FragmentLayout<M, C>,
{
    #[inline(always)]
    fn copy_to(self, to: RowVector<'_, T, M>) {
        for_each_row::<L, M, C>(|r, row, first| {
            if first {
                store(&to, row, self.regs.get(r));
            }
        });
    }
}

impl<const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<f32, M, C, L> {
    /// The vector's value of each row.
    #[inline(always)]
    pub fn from_vector<T: Element>(from: RowVector<'_, T, M>) -> Self {
        let mut rows = Self::splat(0.0);
        for_each_row::<L, M, C>(|r, row, _| {
            rows.regs.set(r, load(&from, row));
        });
        rows
    }
}

/// Calls `each(r, row, first)` for this thread's rows: `r` among its own, `row` of the tile, and whether the thread holds
/// the row's first element.
#[inline(always)]
pub(super) fn for_each_row<L: FragmentLayout<M, C>, const M: usize, const C: usize>(
    mut each: impl FnMut(usize, u32, bool),
) {
    // The thread's number is read anew, so that no address is held in registers over a loop.
    let thread = thread_x_volatile();
    let mut r = 0;
    while r < L::Rows::<f32>::LEN {
        let mut i = 0;
        while L::row(i) != r {
            i += 1;
        }
        let (row, col) = L::coord(thread, i);
        each(r, row, col == 0);
        r += 1;
    }
}

impl<T: Copy, const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<T, M, C, L> {
    /// Calls `each(row, first, value)` for this thread's rows; `first` where it holds the row's first element.
    #[inline(always)]
    pub(super) fn for_each(&self, mut each: impl FnMut(u32, bool, T)) {
        for_each_row::<L, M, C>(|r, row, first| each(row, first, self.regs.get(r)));
    }
}

impl<P: TwoRoles, const M: usize> RowMailbox<P, M> {
    #[inline(always)]
    fn full(&self) -> u32 {
        dynamic_shared_volatile() + self.begin + M as u32 * 4
    }
    #[inline(always)]
    fn empty(&self) -> u32 {
        self.full() + 8
    }
    #[inline(always)]
    fn vector(&self) -> RowVector<'_, f32, M> {
        RowVector { address: dynamic_shared_volatile() + self.begin, kind: PhantomData }
    }

    /// In the second role: sends each row's value for the `turn`-th time, when the last ones have been received.
    #[inline(always)]
    pub fn send<L: FragmentLayout<M, C>, const C: usize>(&self, turn: u32, rows: Rows<f32, M, C, L>) {
        // SAFETY: the role's warps execute it whole; barriers that are new were left in the phase before their first.
        unsafe {
            mbarrier::wait(self.empty(), (turn % 2) ^ 1);
            rows.copy_to(self.vector());
            sync::sync_warp();
            mbarrier::arrive_if(self.full(), thread_x().is_multiple_of(32));
        }
    }
    /// In the first role: each row's value, when it has been sent for the `turn`-th time.
    #[inline(always)]
    pub fn receive<L: FragmentLayout<M, C>, const C: usize>(&self, turn: u32) -> Rows<f32, M, C, L> {
        // SAFETY: as in `send`.
        unsafe {
            mbarrier::wait(self.full(), turn % 2);
            let rows = Rows::from_vector(self.vector());
            sync::sync_warp();
            mbarrier::arrive_if(self.empty(), thread_x().is_multiple_of(32));
            rows
        }
    }
}
