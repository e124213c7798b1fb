//! Exchange between the lanes of a warp. Every function is for all 32 lanes.
//!
//! PTX ISA, "Data Movement and Conversion Instructions: shfl.sync", and "Parallel Synchronization
//! and Communication Instructions": `vote.sync`, `redux.sync`, `elect.sync`.

use core::mem::MaybeUninit;

macro_rules! of_warp {
    ($($(#[$doc:meta])* $name:ident($x:ident: $ty:ty $(, $by:ident)?) -> $out:ty = $asm:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes execute it.
        #[inline(always)]
        pub unsafe fn $name($x: $ty $(, $by: u32)?) -> $out {
            let r: $out;
            // SAFETY: the caller's.
            unsafe { ptx!($asm, out(reg32) r, in(reg32) $x $(, in(reg32) $by)?, options(nomem)) };
            r
        }
    )* };
}

/// `shfl.sync.idx` from lane 0 of a value that all lanes share: ptxas then knows that it is warp-uniform and
/// keeps what is computed from it in uniform registers.
///
/// Free of side effects for the compiler, so that it moves out of loops. PTX ISA, "shfl.sync"; sm_80.
#[inline(always)]
pub fn uniform(x: u32) -> u32 {
    let r: u32;
    // SAFETY: kernels branch by whole warps around it, so that all lanes execute it.
    unsafe {
        ptx!("shfl.sync.idx.b32 {0}, {1}, 0, 0x1f, 0xffffffff;", out(reg32) r, in(reg32) x, options(pure, nomem))
    };
    r
}

/// The same value, computed before what follows: an empty instruction that nothing moves across.
///
/// sm_80.
#[inline(always)]
pub fn touch(x: f32) -> f32 {
    let mut r = x;
    // SAFETY: no instruction.
    unsafe { ptx!("// {0}", inout(reg32) r) };
    r
}

of_warp! {
    /// `shfl.sync.bfly`: the value of lane `own ^ mask`.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_bfly_u32(x: u32, mask) -> u32 = "shfl.sync.bfly.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.bfly`: the value of lane `own ^ mask`.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_bfly_f32(x: f32, mask) -> f32 = "shfl.sync.bfly.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.bfly`: the word of lane `own ^ mask`, of which not every byte need be a value's.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_bfly_word(x: MaybeUninit<f32>, mask) -> MaybeUninit<f32> = "shfl.sync.bfly.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.up`: the word of lane `own - by`, of which not every byte need be a value's; the first `by` lanes keep their own.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_up_word(x: MaybeUninit<f32>, by) -> MaybeUninit<f32> = "shfl.sync.up.b32 {0}, {1}, {2}, 0, 0xffffffff;";

    /// `movmatrix.trans`: the transpose of an 8 x 8 matrix of 16-bit elements, of which lane l holds elements 2 (l % 4) and the next of
    /// row l / 4.
    ///
    /// PTX ISA, "movmatrix"; sm_80.
    movmatrix_trans(x: u32) -> u32 = "movmatrix.sync.aligned.m8n8.trans.b16 {0}, {1};";

    /// `shfl.sync.idx`: the word of lane `lane`, of which not every byte need be a value's.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_idx_word(x: MaybeUninit<f32>, lane) -> MaybeUninit<f32> = "shfl.sync.idx.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.idx`: the value of lane `lane`. From one same lane it is warp-uniform, and ptxas knows it.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_idx_u32(x: u32, lane) -> u32 = "shfl.sync.idx.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.idx`: the value of lane `lane`.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_idx_f32(x: f32, lane) -> f32 = "shfl.sync.idx.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.up`: the value of lane `own - by`; the first `by` lanes keep their own.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_up_u32(x: u32, by) -> u32 = "shfl.sync.up.b32 {0}, {1}, {2}, 0, 0xffffffff;";

    /// `shfl.sync.up`: the value of lane `own - by`; the first `by` lanes keep their own.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_up_f32(x: f32, by) -> f32 = "shfl.sync.up.b32 {0}, {1}, {2}, 0, 0xffffffff;";

    /// `shfl.sync.down`: the value of lane `own + by`; the last `by` lanes keep their own.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_down_u32(x: u32, by) -> u32 = "shfl.sync.down.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `shfl.sync.down`: the value of lane `own + by`; the last `by` lanes keep their own.
    ///
    /// PTX ISA, "shfl.sync"; sm_80.
    shfl_down_f32(x: f32, by) -> f32 = "shfl.sync.down.b32 {0}, {1}, {2}, 0x1f, 0xffffffff;";

    /// `redux.sync.add`: the sum over the lanes.
    ///
    /// PTX ISA, "redux.sync"; sm_80.
    redux_add_u32(x: u32) -> u32 = "redux.sync.add.u32 {0}, {1}, 0xffffffff;";

    /// `redux.sync.max`: the greatest over the lanes.
    ///
    /// PTX ISA, "redux.sync"; sm_80.
    redux_max_u32(x: u32) -> u32 = "redux.sync.max.u32 {0}, {1}, 0xffffffff;";

    /// `redux.sync.min`: the least over the lanes.
    ///
    /// PTX ISA, "redux.sync"; sm_80.
    redux_min_u32(x: u32) -> u32 = "redux.sync.min.u32 {0}, {1}, 0xffffffff;";
}

macro_rules! votes {
    ($($(#[$doc:meta])* $name:ident = $mode:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// PTX ISA, "vote.sync"; sm_80.
        ///
        /// # Safety
        /// All 32 lanes execute it.
        #[inline(always)]
        pub unsafe fn $name(condition: bool) -> bool {
            let r: u32;
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; vote.sync.", $mode, ".pred p, p, 0xffffffff; ",
                        "selp.u32 {0}, 1, 0, p; }}"),
                    out(reg32) r, in(reg32) condition as u32, options(nomem))
            };
            r != 0
        }
    )* };
}

votes! {
    /// `vote.sync.any`: whether the condition holds in some lane.
    vote_any = "any";
    /// `vote.sync.all`: whether the condition holds in every lane.
    vote_all = "all";
}

/// `vote.sync.ballot`: bit `l` says whether the condition holds in lane `l`.
///
/// PTX ISA, "vote.sync"; sm_80.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub unsafe fn vote_ballot(condition: bool) -> u32 {
    let r: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; vote.sync.ballot.b32 {0}, p, 0xffffffff; }}",
            out(reg32) r, in(reg32) condition as u32, options(nomem))
    };
    r
}

/// `elect.sync`: true in one lane, the same at each call.
///
/// PTX ISA, "elect.sync"; sm_90.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub unsafe fn elect_one() -> bool {
    let r: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 {0}, 1, 0, p; }}", out(reg32) r, options(nomem))
    };
    r != 0
}
