//! One value for each row of a tile, from the threads of one fragment to those of another.

use core::marker::PhantomData;

use crate::arch::shared;
use crate::arch::special::thread_x_volatile;
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::fragment::Rows;
use crate::tile::memory::copy_to::CopyTo;

/// A vector of `M` values of `T` in shared memory.
pub struct RowVector<'s, T, const M: usize> {
    address: u32,
    kind: PhantomData<(&'s (), T)>,
}

impl<T, const M: usize> RowVector<'_, T, M> {
    /// The vector that begins at an address.
    ///
    /// # Safety
    /// It lies in shared memory of the CTA, aligned to its elements; while `'s` lasts nobody else reads what this thread writes
    /// through it, or writes what this thread reads, but in an order that barriers make.
    #[inline(always)]
    pub unsafe fn at(address: u32) -> Self {
        RowVector { address, kind: PhantomData }
    }
    /// The same vector, to be read or written once more.
    #[inline(always)]
    pub fn again(&mut self) -> RowVector<'_, T, M> {
        RowVector { address: self.address, kind: PhantomData }
    }
}

impl<const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<f32, M, C, L> {
    /// As [`copy`](crate::tile::copy), but all threads that have a row write its value: without a branch.
    #[inline(always)]
    pub fn copy_alike<T: Element>(self, to: RowVector<'_, T, M>) {
        for_each_row::<L, M, C>(|r, row, _| store(&to, row, self.regs.get(r)));
    }
}

/// The value of a row.
#[inline(always)]
pub(in crate::tile) fn load<T: Element, const M: usize>(from: &RowVector<'_, T, M>, row: u32) -> f32 {
    let at = from.address + row * T::BYTES as u32;
    // SAFETY: inside the vector, whose turn is this role's.
    let bits = unsafe { if T::BYTES == 2 { shared::load_u16(at) as u32 } else { shared::load_u32(at) } };
    T::from_bits(bits).to_f32()
}

/// Stores the value of a row, rounded to `T`.
#[inline(always)]
pub(in crate::tile) fn store<T: Element, const M: usize>(to: &RowVector<'_, T, M>, row: u32, value: f32) {
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
pub fn for_each_row<L: FragmentLayout<M, C>, const M: usize, const C: usize>(
    mut each: impl FnMut(usize, u32, bool),
) {
    // The thread's number is read anew, so that no address is held in registers over a loop.
    let thread = thread_x_volatile();
    let mut r = 0;
    while r < L::Rows::<f32>::LEN {
        let (row, col) = L::coord(thread, L::first(r));
        each(r, row, col == 0);
        r += 1;
    }
}

impl<T: Copy, const M: usize, const C: usize, L: FragmentLayout<M, C>> Rows<T, M, C, L> {
    /// Calls `each(row, first, value)` for this thread's rows; `first` where it holds the row's first element.
    #[inline(always)]
    pub fn for_each(&self, mut each: impl FnMut(u32, bool, T)) {
        for_each_row::<L, M, C>(|r, row, first| each(row, first, self.regs.get(r)));
    }
}
