//! Fragments that are added to global memory atomically.

use half::{bf16, f16};

use crate::arch::atomic;
use crate::arch::special::thread_x_volatile;
use crate::layout::element::pack;
use crate::layout::{Element, FragmentLayout, Major, Registers};
use crate::refuse;
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::add_to::AddTo;
use crate::tile::memory::gathered::Scattered;
use crate::tile::memory::global_tile::GlobalTileMut;

/// An element type that global memory adds atomically: f32, i32, f16 and, from Hopper on, bf16.
#[diagnostic::on_unimplemented(
    message = "elements of type `{Self}` are not added atomically",
    note = "atomic additions are of f32, i32, f16 and, from Hopper on, bf16"
)]
pub trait AtomicAdd: Element {
    /// Whether one instruction adds two neighbours.
    #[doc(hidden)]
    const IN_PAIRS: bool;
    /// Adds one if `valid`.
    ///
    /// # Safety
    /// As for [`atomic::red_add_f32_if`].
    #[doc(hidden)]
    unsafe fn add_one(at: *mut Self, x: Self, valid: bool);
    /// Adds two neighbours.
    ///
    /// # Safety
    /// As for [`atomic::red_add_f16x2_if`], of valid ones; where they are added in pairs.
    #[doc(hidden)]
    unsafe fn add_two(at: *mut Self, x: [Self; 2]);
}

macro_rules! word {
    ($($t:ident: $add:ident;)*) => { $(
        impl AtomicAdd for $t {
            const IN_PAIRS: bool = false;
            #[inline(always)]
            unsafe fn add_one(at: *mut Self, x: Self, valid: bool) {
                // SAFETY: the caller's.
                unsafe { atomic::$add(at.cast(), x as _, valid) }
            }
            #[inline(always)]
            unsafe fn add_two(at: *mut Self, [a, b]: [Self; 2]) {
                // SAFETY: the caller's.
                unsafe {
                    Self::add_one(at, a, true);
                    Self::add_one(at.wrapping_add(1), b, true);
                }
            }
        }
    )* };
}
word! {
    f32: red_add_f32_if;
    i32: red_add_u32_if;
}

macro_rules! half {
    ($($t:ident: $one:ident $two:ident $expect:ident;)*) => { $(
        impl AtomicAdd for $t {
            const IN_PAIRS: bool = true;
            #[inline(always)]
            unsafe fn add_one(at: *mut Self, x: Self, valid: bool) {
                $expect();
                // SAFETY: the caller's.
                unsafe { atomic::$one(at.cast(), x.to_bits(), valid) }
            }
            #[inline(always)]
            unsafe fn add_two(at: *mut Self, x: [Self; 2]) {
                $expect();
                // SAFETY: the caller's.
                unsafe { atomic::$two(at.cast(), pack(x), true) }
            }
        }
    )* };
}
half! {
    f16: red_add_f16_if red_add_f16x2_if any_architecture;
    bf16: red_add_bf16_if red_add_bf16x2_if hopper;
}

#[inline(always)]
fn any_architecture() {}

/// Refuses the kernel for an earlier architecture.
#[inline(always)]
fn hopper() {
    if !cfg!(target_feature = "sm_90") {
        refuse!("bf16 are added atomically from Hopper on: compile the kernel for sm_90, or add f32");
    }
}

/// Elements that one instruction adds.
const fn step<T: AtomicAdd>(run: usize) -> usize {
    if T::IN_PAIRS && run >= 2 { 2 } else { 1 }
}

impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    AddTo<GlobalTileMut<T, RANK, O, BOX>> for Fragment<T, M, N, L>
where
    T: AtomicAdd,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn add_to(self, to: GlobalTileMut<T, RANK, O, BOX>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let step = const { step::<T>(L::RUN) };
        let (row, col) = L::coord(thread, 0);
        let window = to.0.window(M, N).from(row, col);
        let together = step > 1 && O::ROW_MAJOR && to.0.of.align as usize >= step * T::BYTES;
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (row, col) = L::offset(i);
            if together && row < window.rows && col + 2 <= window.cols {
                // SAFETY: both are inside the tensor, aligned as its host view says.
                unsafe { T::add_two(window.at(row, col), [self.regs.get(i), self.regs.get(i + step - 1)]) };
            } else {
                let mut e = 0;
                while e < step {
                    let col = col + e as u32;
                    let inside = row < window.rows && col < window.cols;
                    // SAFETY: only elements inside the tensor are touched.
                    unsafe { T::add_one(window.at(row, col), self.regs.get(i + e), inside) };
                    e += 1;
                }
            }
            i += step;
        }
    }
}

/// Each row's value, to the first column of a tile of one.
impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    AddTo<GlobalTileMut<T, RANK, O, BOX>> for Rows<T, M, N, L>
where
    T: AtomicAdd,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn add_to(self, to: GlobalTileMut<T, RANK, O, BOX>) {
        expect_computing(L::THREADS);
        let (thread, window) = (thread_x_volatile(), to.0.window(M, 1));
        // Those that hold the first column add.
        if thread >= L::THREADS || L::coord(thread, 0).1 > 0 {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let row = L::coord(thread, L::first(r)).0;
            let inside = row < window.rows && window.cols > 0;
            // SAFETY: only elements inside the tensor are touched.
            unsafe { T::add_one(window.at(row, 0), self.regs.get(r), inside) };
            r += 1;
        }
    }
}

/// Each column's value, to the first row of a tile of one.
impl<T, O, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    AddTo<GlobalTileMut<T, RANK, O, BOX>> for Cols<T, M, N, L>
where
    T: AtomicAdd,
    O: Major,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn add_to(self, to: GlobalTileMut<T, RANK, O, BOX>) {
        expect_computing(L::THREADS);
        let (thread, window) = (thread_x_volatile(), to.0.window(1, N));
        // Those that hold the first row add.
        if thread >= L::THREADS || L::coord(thread, 0).0 > 0 {
            return;
        }
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == 0 {
                let col = L::coord(thread, i).1;
                let inside = window.rows > 0 && col < window.cols;
                // SAFETY: only elements inside the tensor are touched.
                unsafe { T::add_one(window.at(0, col), self.regs.get(L::col(i)), inside) };
            }
            i += 1;
        }
    }
}

/// Rows may have the same place.
impl<T, F, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize>
    AddTo<Scattered<T, RANK, BOX, F>> for Fragment<T, M, N, L>
where
    T: AtomicAdd,
    F: Fn(u32) -> Option<[u32; RANK]>,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn add_to(self, to: Scattered<T, RANK, BOX, F>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let step = const { step::<T>(L::RUN) };
        let stride = to.of.strides[RANK - 1];
        let first = L::coord(thread, 0).1;
        let mut lines = L::Rows::<(*mut T, u32)>::splat((to.of.pointer, 0));
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            if let Some(index) = (to.place)(L::coord(thread, L::first(r)).0) {
                lines.set(r, to.of.line(index));
            }
            r += 1;
        }
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let ((line, inside), col) = (lines.get(L::row(i)), first + L::offset(i).1);
            let at = |col: u32| line.wrapping_add((col as u64 * stride) as usize);
            let aligned = stride == 1 && (line as u64).is_multiple_of((step * T::BYTES) as u64);
            if step > 1 && aligned && col + 2 <= inside {
                // SAFETY: both are inside the tensor, aligned together.
                unsafe { T::add_two(at(col), [self.regs.get(i), self.regs.get(i + step - 1)]) };
            } else {
                let mut e = 0;
                while e < step {
                    let col = col + e as u32;
                    // SAFETY: only elements inside the tensor are touched.
                    unsafe { T::add_one(at(col), self.regs.get(i + e), col < inside) };
                    e += 1;
                }
            }
            i += step;
        }
    }
}
