//! Copies from global to shared memory that a thread does not wait for.
//!
//! Each copies a fixed number of bytes of which the first `src_bytes` are read and the rest are
//! zero: 0 reads nothing, so a tile's edge needs no branch.
//!
//! PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy"; sm_80.

use super::mbarrier;

macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident = $asm:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// PTX ISA, "cp.async"; sm_80.
        ///
        /// # Safety
        /// `dst` and `src` are aligned to the size; `dst` lies in this CTA's shared memory, and the
        /// first `src_bytes` of `src` in global memory. Nobody uses `dst` until the copy was waited for.
        #[inline(always)]
        pub unsafe fn $name(dst: u32, src: *const u8, src_bytes: u32) {
            // SAFETY: the caller's.
            unsafe { ptx!($asm, in(reg32) dst, in(reg64) src, in(reg32) src_bytes) }
        }
    )* };
}

copies! {
    /// `cp.async.cg`: 16 bytes, cached in L2 alone.
    copy16 = "cp.async.cg.shared.global [{0}], [{1}], 16, {2};";
    /// `cp.async.ca`: 8 bytes.
    copy8 = "cp.async.ca.shared.global [{0}], [{1}], 8, {2};";
    /// `cp.async.ca`: 4 bytes.
    copy4 = "cp.async.ca.shared.global [{0}], [{1}], 4, {2};";
}

/// `cp.async.cg` of 16 bytes if `read`, else 16 zeros; L2 fetches 128 bytes.
///
/// In machine code a predicate is free, while a number of bytes costs several instructions. PTX ISA,
/// "cp.async", with `ignore-src`; sm_80.
///
/// # Safety
/// As for [`copy16`]; nothing is read where `read` is false.
#[inline(always)]
pub unsafe fn copy16_if(dst: u32, src: *const u8, read: bool) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; setp.eq.u32 p, {2}, 0; cp.async.cg.shared.global.L2::128B [{0}], [{1}], 16, p; }}",
            in(reg32) dst, in(reg64) src, in(reg32) read as u32)
    }
}

/// `cp.async.commit_group`: closes the group of this thread's copies since the last one.
///
/// PTX ISA, "cp.async.commit_group"; sm_80.
///
/// # Safety
/// None: an empty group is complete.
#[inline(always)]
pub unsafe fn commit() {
    // SAFETY: no operands.
    unsafe { ptx!("cp.async.commit_group;") }
}

/// `cp.async.wait_group`: waits until all but the last `N` groups of this thread are complete.
///
/// Other threads see the bytes after a barrier. PTX ISA, "cp.async.wait_group"; sm_80.
///
/// # Safety
/// Waits for the executing thread's groups alone.
#[inline(always)]
pub unsafe fn wait<const N: u32>() {
    // SAFETY: no operands.
    unsafe { ptx!("cp.async.wait_group {0};", const N) }
}

/// `cp.async.wait_all`: waits until all copies of this thread are complete, committed or not.
///
/// PTX ISA, "cp.async.wait_all"; sm_80.
///
/// # Safety
/// Waits for the executing thread's copies alone.
#[inline(always)]
pub unsafe fn wait_all() {
    // SAFETY: no operands.
    unsafe { ptx!("cp.async.wait_all;") }
}

/// `cp.async.mbarrier.arrive.noinc` where `here`: arrives at `bar` when this thread's copies so far are complete.
///
/// The arrival is one of those that the barrier was initialised with. In a build for sanitizers (see [`mbarrier`]) the thread
/// waits for its copies and arrives itself, which they understand. PTX ISA, "cp.async.mbarrier.arrive"; sm_80.
///
/// # Safety
/// `bar` is an initialised barrier of this CTA whose phase has arrivals pending.
#[inline(always)]
pub unsafe fn mbarrier_arrive_noinc_if(bar: u32, here: bool) {
    // SAFETY: the caller's.
    unsafe {
        if mbarrier::EVERY_LANE {
            wait_all();
            return mbarrier::arrive_if(bar, here);
        }
        ptx!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; @p cp.async.mbarrier.arrive.noinc.shared.b64 [{0}]; }}",
            in(reg32) bar, in(reg32) here as u32)
    }
}
