//! Stores of 8×8 matrices of 16-bit elements from a warp's registers to shared memory.
//!
//! Lane `8·m + r` gives the address of row `r` of matrix `m`; of each matrix, lane `l` holds the
//! elements `2·(l % 4)` and the next of row `l / 4` (with `_trans`: of column `l / 4`).
//!
//! PTX ISA, "stmatrix"; sm_90.

macro_rules! stmatrix {
    ($($(#[$doc:meta])* $name:ident: $n:literal, $suffix:literal, $regs:literal, [$($i:literal)*];)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes execute it; each address that is used is a multiple of 16 in this CTA's
        /// shared memory, and no other thread uses those 16 bytes meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32, value: [u32; $n]) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("stmatrix.sync.aligned.m8n8.", $suffix, ".shared.b16 [{0}], {{", $regs, "}};"),
                    in(reg32) addr $(, in(reg32) value[$i])*)
            }
        }
    )* };
}

stmatrix! {
    /// `stmatrix.x1`: one matrix, at the addresses of lanes 0 to 7.
    x1: 1, "x1", "{1}", [0];
    /// `stmatrix.x2`: two matrices, at the addresses of lanes 0 to 15.
    x2: 2, "x2", "{1}, {2}", [0 1];
    /// `stmatrix.x4`: four matrices.
    x4: 4, "x4", "{1}, {2}, {3}, {4}", [0 1 2 3];
    /// `stmatrix.x1.trans`: one matrix, transposed.
    x1_trans: 1, "x1.trans", "{1}", [0];
    /// `stmatrix.x2.trans`: two matrices, each transposed.
    x2_trans: 2, "x2.trans", "{1}, {2}", [0 1];
    /// `stmatrix.x4.trans`: four matrices, each transposed.
    x4_trans: 4, "x4.trans", "{1}, {2}, {3}, {4}", [0 1 2 3];
}
