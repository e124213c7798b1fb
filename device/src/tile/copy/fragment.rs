//! Between fragments and memory: each thread moves the runs of neighbours that the fragment's layout gives it.

use super::quads;
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::{global, shared, sync};
use crate::layout::{Element, FragmentLayout, Major, Registers, SharedLayout};
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::{Collective, expect_computing};
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::global_tile::{GlobalTile, GlobalTileMut};
use crate::tile::memory::scratch::Scratch;
use crate::tile::memory::shared::{Shared, Src, Transposed};
use crate::tile::memory::window::Window;

/// Elements that one access moves: a run, or 16 bytes of it.
pub(super) const fn per_access<T: Element>(run: usize) -> usize {
    let most = 16 / T::BYTES;
    if run < most { run } else { most }
}

/// The bits of `count` registers from `first` on, as they lie in memory.
#[inline(always)]
pub(super) fn gather<T: Element, R: Registers<T>>(regs: &R, first: usize, count: usize) -> [u32; 4] {
    let per_word = 4 / T::BYTES;
    let mut words = [0; 4];
    let mut i = 0;
    while i < count {
        words[i / per_word] |= regs.get(first + i).bits() << (i % per_word * 8 * T::BYTES);
        i += 1;
    }
    words
}

/// The inverse of [`gather`].
#[inline(always)]
pub(super) fn scatter<T: Element, R: Registers<T>>(
    words: [u32; 4],
    regs: &mut R,
    first: usize,
    count: usize,
) {
    let per_word = 4 / T::BYTES;
    let mut i = 0;
    while i < count {
        let bits = words[i / per_word] >> (i % per_word * 8 * T::BYTES);
        regs.set(first + i, T::from_bits(if T::BYTES == 2 { bits & 0xffff } else { bits }));
        i += 1;
    }
}

/// # Safety
/// `count` elements from `from` on are aligned to their size together and readable.
#[inline(always)]
pub(super) unsafe fn load_global<T: Element>(from: *const T, count: usize) -> [u32; 4] {
    // SAFETY: the caller's.
    unsafe {
        match count * T::BYTES {
            16 => global::ld_global_u32x4(from.cast()),
            8 => {
                let [a, b] = global::ld_global_u32x2(from.cast());
                [a, b, 0, 0]
            }
            4 => [global::ld_global_u32(from.cast()), 0, 0, 0],
            _ => [global::ld_global_u16(from.cast()) as u32, 0, 0, 0],
        }
    }
}

/// # Safety
/// `count` elements from `to` on are aligned to their size together and writable.
#[inline(always)]
pub(super) unsafe fn store_global<T: Element>(to: *mut T, words: [u32; 4], count: usize) {
    // SAFETY: the caller's.
    unsafe {
        match count * T::BYTES {
            16 => global::st_global_u32x4(to.cast(), words),
            8 => global::st_global_u32x2(to.cast(), [words[0], words[1]]),
            4 => global::st_global_u32(to.cast(), words[0]),
            _ => global::st_global_u16(to.cast(), words[0] as u16),
        }
    }
}

/// # Safety
/// `count` elements from `from` on are aligned to their size together and readable.
#[inline(always)]
pub(super) unsafe fn load_shared<T: Element>(from: u32, count: usize) -> [u32; 4] {
    // SAFETY: the caller's.
    unsafe {
        match count * T::BYTES {
            16 => shared::load_u32x4(from),
            8 => {
                let [a, b] = shared::load_u32x2(from);
                [a, b, 0, 0]
            }
            4 => [shared::load_u32(from), 0, 0, 0],
            _ => [shared::load_u16(from) as u32, 0, 0, 0],
        }
    }
}

/// # Safety
/// `count` elements from `to` on are aligned to their size together and writable.
#[inline(always)]
unsafe fn store_shared<T: Element>(to: u32, words: [u32; 4], count: usize) {
    // SAFETY: the caller's.
    unsafe {
        match count * T::BYTES {
            16 => shared::store_u32x4(to, words),
            8 => shared::store_u32x2(to, [words[0], words[1]]),
            4 => shared::store_u32(to, words[0]),
            _ => shared::store_u16(to, words[0] as u16),
        }
    }
}

impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    CopyTo<&mut Fragment<T, M, N, L>> for GlobalTile<T, RANK, O, BOX>
where
    T: Element,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        expect_computing(L::THREADS);
        if thread_x() >= L::THREADS {
            return;
        }
        let step = const { per_access::<T>(L::RUN) };
        let (row, col) = L::coord(thread_x_volatile(), 0);
        let tile = self.window(M, N);
        let window = tile.from(row, col);
        let together = O::ROW_MAJOR && self.of.align as usize >= step * T::BYTES;
        // One comparison for a tile inside the tensor, so that its loads follow each other.
        if together && tile.rows >= M as u32 && tile.cols >= N as u32 {
            let mut i = 0;
            while i < L::Regs::<T>::LEN {
                let (row, col) = L::offset(i);
                let at = window.at(row, 0).wrapping_add(col as usize);
                // SAFETY: the access is inside the tensor and aligned as its host view says.
                scatter(unsafe { load_global(at, step) }, &mut to.regs, i, step);
                i += step;
            }
            return;
        }
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (row, col) = L::offset(i);
            if together && row < window.rows && col + step as u32 <= window.cols {
                // SAFETY: as above.
                scatter(unsafe { load_global(window.at(row, col), step) }, &mut to.regs, i, step);
            } else {
                let mut e = 0;
                while e < step {
                    to.regs.set(i + e, window.read(row, col + e as u32));
                    e += 1;
                }
            }
            i += step;
        }
    }
}

impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    CopyTo<GlobalTileMut<T, RANK, O, BOX>> for Fragment<T, M, N, L>
where
    T: Element,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: GlobalTileMut<T, RANK, O, BOX>) {
        store_runs(&self, &to);
    }
}

/// Stores a fragment by the runs that each thread has; what lies outside of the tensor is not stored.
#[inline(always)]
pub(in crate::tile) fn store_runs<
    T,
    O,
    L,
    const RANK: usize,
    const BOX: usize,
    const M: usize,
    const N: usize,
>(
    fragment: &Fragment<T, M, N, L>,
    to: &GlobalTileMut<T, RANK, O, BOX>,
) where
    T: Element,
    O: Major,
    L: FragmentLayout<M, N>,
{
    expect_computing(L::THREADS);
    if thread_x() >= L::THREADS {
        return;
    }
    if const { O::ROW_MAJOR && quads::serves::<T, L, M, N>() } {
        let tile = to.0.window(M, N);
        if to.0.of.align >= 16 && tile.cols.is_multiple_of(quads::COLUMNS) {
            return quads::store(fragment, &tile, thread_x_volatile());
        }
    }
    let step = const { per_access::<T>(L::RUN) };
    let (row, col) = L::coord(thread_x_volatile(), 0);
    let window = to.0.window(M, N).from(row, col);
    let together = O::ROW_MAJOR && to.0.of.align as usize >= step * T::BYTES;
    let mut i = 0;
    while i < L::Regs::<T>::LEN {
        let (row, col) = L::offset(i);
        if together && row < window.rows && col + step as u32 <= window.cols {
            // SAFETY: the access is inside the tensor and aligned as its host view says.
            unsafe { store_global(window.at(row, col), gather(&fragment.regs, i, step), step) };
        } else {
            let mut e = 0;
            while e < step {
                window.write(row, col + e as u32, fragment.regs.get(i + e));
                e += 1;
            }
        }
        i += step;
    }
}

/// The elements of register `i` and its run's next ones in a tile `Shared<T, M, N, S, O>`: how many one access moves,
/// and the offset of the first.
#[inline(always)]
fn place<T, S, O, L, const M: usize, const N: usize>(thread: u32, i: usize) -> (usize, u32)
where
    T: Element,
    S: SharedLayout,
    O: Major,
    L: FragmentLayout<M, N>,
{
    let (lines, line) = (Shared::<T, M, N, S, O>::LINES, Shared::<T, M, N, S, O>::LINE);
    let (row, col) = L::coord(thread, i);
    if O::ROW_MAJOR {
        (per_access::<T>(L::RUN), S::offset(lines, line, row, col * T::BYTES as u32))
    } else {
        (1, S::offset(lines, line, col, row * T::BYTES as u32))
    }
}

/// # Safety
/// `from` is a tile of type `Shared<T, M, N, S, O>` that nobody writes.
#[inline(always)]
unsafe fn read_shared<T, S, O, L, const M: usize, const N: usize>(from: u32, regs: &mut L::Regs<T>)
where
    T: Element,
    S: SharedLayout,
    O: Major,
    L: FragmentLayout<M, N>,
{
    expect_computing(L::THREADS);
    let thread = thread_x();
    if thread >= L::THREADS {
        return;
    }
    let mut i = 0;
    while i < L::Regs::<T>::LEN {
        let (count, offset) = place::<T, S, O, L, M, N>(thread, i);
        // SAFETY: passed on; the elements lie in the tile, together in an aligned piece of 16 bytes.
        scatter(unsafe { load_shared::<T>(from + offset, count) }, regs, i, count);
        i += count;
    }
    // One thread says for its warpgroup that a stage has been read: the others must have.
    let unit = thread / 128;
    // SAFETY: the warps that hold the fragment execute it converged, up to four to a barrier.
    unsafe { sync::bar_sync(WARPGROUP.of(unit), (L::THREADS - unit * 128).min(128)) };
}

impl<T, S, O, L, const M: usize, const N: usize> CopyTo<&mut Fragment<T, M, N, L>>
    for Src<'_, Shared<T, M, N, S, O>>
where
    T: Element,
    S: SharedLayout,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        // SAFETY: a `Src` is a full tile.
        unsafe { read_shared::<T, S, O, L, M, N>(self.address, &mut to.regs) }
    }
}

impl<T, S, O, L, const M: usize, const N: usize> CopyTo<&mut Fragment<T, M, N, L>>
    for Transposed<'_, Shared<T, N, M, S, O>>
where
    T: Element,
    S: SharedLayout,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        // SAFETY: a `Src` is a full tile; transposed it is a tile of the other order.
        unsafe { read_shared::<T, S, O::Transposed, L, M, N>(self.0.address, &mut to.regs) }
    }
}

/// Each row's value, to the first column of a tile of one.
impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    CopyTo<GlobalTileMut<T, RANK, O, BOX>> for Rows<T, M, N, L>
where
    T: Element,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: GlobalTileMut<T, RANK, O, BOX>) {
        expect_computing(L::THREADS);
        let (thread, window) = (thread_x_volatile(), to.0.window(M, 1));
        // Those that hold the first column write, also where the tensor has more.
        let window = Window { cols: window.cols.min(1), ..window };
        if thread >= L::THREADS {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, col) = L::coord(thread, L::first(r));
            window.write(row, col, self.regs.get(r));
            r += 1;
        }
    }
}

/// Each column's value, to the first row of a tile of one.
impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    CopyTo<GlobalTileMut<T, RANK, O, BOX>> for Cols<T, M, N, L>
where
    T: Element,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: GlobalTileMut<T, RANK, O, BOX>) {
        expect_computing(L::THREADS);
        let (thread, window) = (thread_x_volatile(), to.0.window(1, N));
        // Those that hold the first row write.
        if thread >= L::THREADS || L::coord(thread, 0).0 > 0 {
            return;
        }
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == 0 {
                window.write(0, L::coord(thread, i).1, self.regs.get(L::col(i)));
            }
            i += 1;
        }
    }
}

impl<T, S, O, L, P, const M: usize, const N: usize> CopyTo<&mut Scratch<P, Shared<T, M, N, S, O>>>
    for Fragment<T, M, N, L>
where
    T: Element,
    S: SharedLayout,
    O: Major,
    L: FragmentLayout<M, N>,
    P: Collective,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Scratch<P, Shared<T, M, N, S, O>>) {
        const { assert!(L::THREADS <= P::CONSUMERS, "the fragment lies over more threads than the schedule has") };
        let base = to.address();
        to.replace(
            #[inline(always)]
            || {
                let thread = thread_x();
                if thread >= L::THREADS {
                    return;
                }
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    let (count, offset) = place::<T, S, O, L, M, N>(thread, i);
                    // SAFETY: the elements lie in the tile, together in an aligned piece of 16 bytes; no two threads
                    // hold the same ones, and nobody reads meanwhile.
                    unsafe { store_shared::<T>(base + offset, gather(&self.regs, i, count), count) };
                    i += count;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests;
