//! Loads of 8×8 matrices of 16-bit elements from shared memory to a warp's registers.
//!
//! Lane `8·m + r` gives the address of row `r` of matrix `m`; of each matrix, lane `l` receives the
//! elements `2·(l % 4)` and the next of row `l / 4` (with `_trans`: of column `l / 4`).
//!
//! PTX ISA, "ldmatrix"; sm_80.

macro_rules! ldmatrix {
    ($($(#[$doc:meta])* $name:ident: $n:literal, $suffix:literal, $regs:literal, $addr:literal, [$($r:ident)*];)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes execute it; each address that is used is a multiple of 16 in this CTA's
        /// shared memory, and no thread writes those 16 bytes meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32) -> [u32; $n] {
            $(let $r: u32;)*
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("ldmatrix.sync.aligned.m8n8.", $suffix, ".shared.b16 {{", $regs, "}}, [", $addr, "];"),
                    $(out(reg32) $r,)* in(reg32) addr)
            };
            [$($r),*]
        }
    )* };
}

ldmatrix! {
    /// `ldmatrix.x1`: one matrix, at the addresses of lanes 0 to 7.
    x1: 1, "x1", "{0}", "{1}", [a];
    /// `ldmatrix.x2`: two matrices, at the addresses of lanes 0 to 15.
    x2: 2, "x2", "{0}, {1}", "{2}", [a b];
    /// `ldmatrix.x4`: four matrices.
    x4: 4, "x4", "{0}, {1}, {2}, {3}", "{4}", [a b c d];
    /// `ldmatrix.x1.trans`: one matrix, transposed.
    x1_trans: 1, "x1.trans", "{0}", "{1}", [a];
    /// `ldmatrix.x2.trans`: two matrices, each transposed.
    x2_trans: 2, "x2.trans", "{0}, {1}", "{2}", [a b];
    /// `ldmatrix.x4.trans`: four matrices, each transposed.
    x4_trans: 4, "x4.trans", "{0}, {1}, {2}, {3}", "{4}", [a b c d];
}
