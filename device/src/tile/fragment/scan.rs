//! Scans of rows and of columns: every element becomes what those before it come to (Blelloch 1990, "Prefix Sums and Their
//! Applications").

use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::{Fragment, Rows, passed};

/// What an element becomes in a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// What is carried in, all before it and itself, combined from the first to the last.
    Inclusive,
    /// What is carried in and all before it: the first becomes what is carried in.
    Exclusive,
}

/// Lanes that hold a row's runs, or a column's elements, one after the other.
#[derive(Clone, Copy)]
pub(in crate::tile) struct Lanes {
    /// Which of them this lane is.
    pub(in crate::tile) position: u32,
    count: u32,
    /// Lanes from one to the next.
    apart: u32,
    /// The last one.
    last: u32,
}

/// What the lanes up to one have.
pub(in crate::tile) struct UpTo<T> {
    /// All before this lane's; in the first lane anything.
    pub(in crate::tile) before: T,
    /// This lane's too.
    pub(in crate::tile) own: T,
    /// The last lane's too.
    pub(in crate::tile) all: T,
}

impl Lanes {
    /// Those of this thread's rows, which are so many.
    #[inline(always)]
    pub(in crate::tile) fn of_rows(lanes: u32) -> Self {
        let lane = thread_x() % 32;
        Lanes { position: lane % lanes, count: lanes, apart: 1, last: lane | (lanes - 1) }
    }

    /// Those of this thread's columns, if `lanes` hold a row.
    #[inline(always)]
    pub(in crate::tile) fn of_columns(lanes: u32) -> Self {
        let lane = thread_x() % 32;
        Lanes { position: lane / lanes, count: 32 / lanes, apart: lanes, last: lane | (32 - lanes) }
    }

    /// Combines the lanes' values.
    ///
    /// # Safety
    /// All 32 lanes execute it.
    #[inline(always)]
    pub(in crate::tile) unsafe fn scan<T: Copy>(self, x: T, f: &impl Fn(T, T) -> T) -> UpTo<T> {
        if self.count == 1 {
            return UpTo { before: x, own: x, all: x };
        }
        let (mut own, mut by) = (x, 1);
        while by < self.count {
            // SAFETY: the caller's.
            let below = unsafe { passed::of_lane_below(own, by * self.apart) };
            if self.position >= by {
                own = f(below, own);
            }
            by *= 2;
        }
        // SAFETY: the caller's.
        unsafe {
            UpTo {
                before: passed::of_lane_below(own, self.apart),
                own,
                all: passed::of_lane_at(own, self.last),
            }
        }
    }

    /// What this lane's element becomes below `above`: `x` is what the lanes have up to it, or before it if the scan is exclusive.
    #[inline(always)]
    pub(in crate::tile) fn below<T: Copy>(self, above: T, x: T, scan: Scan, f: &impl Fn(T, T) -> T) -> T {
        if scan == Scan::Exclusive && self.position == 0 { above } else { f(above, x) }
    }
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// Scans every run of neighbours by itself.
    #[inline(always)]
    pub(in crate::tile) fn scan_runs(&mut self, f: &impl Fn(T, T) -> T) {
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if i % L::RUN > 0 {
                self.regs.set(i, f(self.regs.get(i - 1), self.regs.get(i)));
            }
            i += 1;
        }
    }

    /// Combines the run from register `i` on, which was scanned by itself, with what is before it.
    #[inline(always)]
    pub(in crate::tile) fn begin_run(&mut self, i: usize, before: T, scan: Scan, f: &impl Fn(T, T) -> T) {
        // From the last to the first: an exclusive scan takes the one before.
        let mut e = L::RUN;
        while e > 0 {
            e -= 1;
            let x = match scan {
                Scan::Inclusive => f(before, self.regs.get(i + e)),
                Scan::Exclusive if e > 0 => f(before, self.regs.get(i + e - 1)),
                Scan::Exclusive => before,
            };
            self.regs.set(i + e, x);
        }
    }

    /// Scans every row from the left, beginning with what `carry` has of it, by an associative `f`, which need not be commutative:
    /// `f(a, b)` combines what is on the left with what is on the right of it. Values of any type of up to 32 bytes.
    ///
    /// Also gives what each row comes to, in all threads that hold it: carried in to the tile on the right, it continues the scan.
    ///
    /// Each row must lie in one warp: in `Striped`, or a FullRow policy. [`RowScanner`](crate::tile::RowScanner) takes others.
    #[inline(always)]
    pub fn scan_rows(
        self,
        carry: Rows<T, M, N, L>,
        scan: Scan,
        f: impl Fn(T, T) -> T,
    ) -> (Self, Rows<T, M, N, L>) {
        const {
            assert!(
                L::Regs::<u32>::LEN / L::Rows::<u32>::LEN * L::ROW_LANES as usize == N,
                "rows are scanned where a warp or warpgroup holds them whole: use Striped, a FullRow policy or a RowScanner"
            )
        };
        self.scan_rows_of_warps(carry, scan, f)
    }

    /// As [`scan_rows`](Self::scan_rows), where each row lies in one warp.
    #[inline(always)]
    pub(in crate::tile) fn scan_rows_of_warps(
        mut self,
        mut carry: Rows<T, M, N, L>,
        scan: Scan,
        f: impl Fn(T, T) -> T,
    ) -> (Self, Rows<T, M, N, L>) {
        if thread_x() >= L::THREADS {
            return (self, carry);
        }
        let lanes = Lanes::of_rows(L::ROW_LANES);
        self.scan_runs(&f);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let left = carry.regs.get(L::row(i));
            // SAFETY: all lanes of the warps that hold the fragment execute it.
            let UpTo { before, all, .. } = unsafe { lanes.scan(self.regs.get(i + L::RUN - 1), &f) };
            self.begin_run(i, if lanes.position == 0 { left } else { f(left, before) }, scan, &f);
            carry.regs.set(L::row(i), f(left, all));
            i += L::RUN;
        }
        (self, carry)
    }

    /// Scans every column from the top, beginning with what `carry` has of it: as [`scan_rows`](Self::scan_rows) does rows, with `f(a, b)` of
    /// what is above and what is below.
    ///
    /// Each column must lie in one warp: in a FullCol policy of warps, or [`Threads`](crate::tile::Threads) of one warp.
    /// [`ColScanner`](crate::tile::ColScanner) takes others.
    #[inline(always)]
    pub fn scan_cols(
        self,
        carry: Cols<T, M, N, L>,
        scan: Scan,
        f: impl Fn(T, T) -> T,
    ) -> (Self, Cols<T, M, N, L>) {
        const {
            assert!(
                L::Rows::<u32>::LEN * 32 / L::ROW_LANES as usize == M,
                "columns are scanned where a warp holds them whole: use a FullCol policy of warps or a ColScanner"
            )
        };
        self.scan_cols_of_warps(carry, scan, f)
    }

    /// As [`scan_cols`](Self::scan_cols), where each column lies in one warp.
    #[inline(always)]
    pub(in crate::tile) fn scan_cols_of_warps(
        mut self,
        mut carry: Cols<T, M, N, L>,
        scan: Scan,
        f: impl Fn(T, T) -> T,
    ) -> (Self, Cols<T, M, N, L>) {
        if thread_x() >= L::THREADS {
            return (self, carry);
        }
        let lanes = Lanes::of_columns(L::ROW_LANES);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let above = carry.regs.get(L::col(i));
            // SAFETY: all lanes of the warps that hold the fragment execute it.
            let UpTo { before, own, all } = unsafe { lanes.scan(self.regs.get(i), &f) };
            let x = if scan == Scan::Inclusive { own } else { before };
            self.regs.set(i, lanes.below(above, x, scan, &f));
            carry.regs.set(L::col(i), f(above, all));
            i += 1;
        }
        (self, carry)
    }
}
