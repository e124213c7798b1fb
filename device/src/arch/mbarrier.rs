//! Barriers in shared memory that count arrivals and bytes.
//!
//! A barrier is 8 bytes, aligned to 8. A phase completes when the pending arrivals and the pending
//! bytes are both zero; waiting for parity 0 waits for the first phase, then the third, and so on.
//!
//! Where one lane arrives for its warp or warpgroup, whose other lanes' accesses a barrier puts before it, [`arrives`] says which
//! lane, and [`arrivals`] how many arrivals that makes. With `TILEWRIGHT_SANITIZE=1` in the environment of the build every lane
//! arrives: slower, in the same order, and understood by tools that follow what each thread does.
//!
//! PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".

/// Whether every lane arrives where one could for all.
pub const EVERY_LANE: bool = cfg!(tilewright_sanitize);

/// How often `threads` threads arrive for which one could.
pub const fn arrivals(threads: u32) -> u32 {
    if EVERY_LANE { threads } else { 1 }
}

/// Whether this thread arrives for `threads` threads: the first of them, or each.
#[inline(always)]
pub fn arrives(thread: u32, threads: u32) -> bool {
    EVERY_LANE || thread.is_multiple_of(threads)
}

macro_rules! on_barrier {
    ($($(#[$doc:meta])* $name:ident($bar:ident $(, $x:ident)?) = $asm:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name($bar: u32 $(, $x: u32)?) {
            // SAFETY: the caller's.
            unsafe { ptx!($asm, in(reg32) $bar $(, in(reg32) $x)?) }
        }
    )* };
}

on_barrier! {
    /// `mbarrier.init`: a barrier of `count` arrivals a phase.
    ///
    /// PTX ISA, "mbarrier.init"; sm_80.
    ///
    /// # Safety
    /// `bar` is a multiple of 8 in this CTA's shared memory and no barrier now; `count` is at least
    /// 1. Others use it only after a fence and a barrier of the threads.
    init(bar, count) = "mbarrier.init.shared.b64 [{0}], {1};";

    /// `mbarrier.inval`: the barrier's memory may be used for something else.
    ///
    /// PTX ISA, "mbarrier.inval"; sm_80.
    ///
    /// # Safety
    /// `bar` is an initialised barrier of this CTA that nobody uses any more.
    inval(bar) = "mbarrier.inval.shared.b64 [{0}];";

    /// `mbarrier.expect_tx`: the phase awaits `bytes` more.
    ///
    /// PTX ISA, "mbarrier.expect_tx"; sm_90.
    ///
    /// # Safety
    /// `bar` is an initialised barrier of this CTA whose phase cannot complete meanwhile.
    expect_tx(bar, bytes) = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{0}], {1};";

    /// `mbarrier.arrive`: one arrival; this thread's earlier accesses are visible to who waits.
    ///
    /// PTX ISA, "mbarrier.arrive"; sm_80.
    ///
    /// # Safety
    /// `bar` is an initialised barrier of this CTA whose phase has arrivals pending.
    arrive(bar) = "mbarrier.arrive.shared.b64 _, [{0}];";

    /// `mbarrier.arrive.expect_tx`: the phase awaits `bytes` more, then one arrival.
    ///
    /// PTX ISA, "mbarrier.arrive"; sm_90.
    ///
    /// # Safety
    /// As for [`arrive`].
    arrive_expect_tx(bar, bytes) = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};";

    /// `mbarrier.arrive` at a barrier of any CTA of the cluster, by its `mapa` address.
    ///
    /// The spelling with `.release.cluster` would fence the whole GPU at every call; this one, with
    /// the default scope, does not. PTX ISA, "mbarrier.arrive"; sm_90.
    ///
    /// # Safety
    /// `bar` is an initialised barrier of a running CTA of this cluster whose phase has arrivals pending.
    arrive_remote(bar) = "mbarrier.arrive.shared::cluster.b64 _, [{0}];";
}

/// [`arrive`] where `here`: a predicate, so that the arrival of some threads does not branch.
///
/// PTX ISA, "mbarrier.arrive"; sm_80.
///
/// # Safety
/// As for [`arrive`].
#[inline(always)]
pub unsafe fn arrive_if(bar: u32, here: bool) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; @p mbarrier.arrive.shared.b64 _, [{0}]; }}",
            in(reg32) bar, in(reg32) here as u32)
    }
}

/// `mbarrier.test_wait.parity`: whether the phase of this parity has completed; does not wait.
///
/// PTX ISA, "mbarrier.test_wait, mbarrier.try_wait"; sm_80.
///
/// # Safety
/// `bar` is an initialised barrier of this CTA.
#[inline(always)]
pub unsafe fn test_wait(bar: u32, parity: u32) -> bool {
    let done: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}",
            out(reg32) done, in(reg32) bar, in(reg32) parity)
    };
    done != 0
}

/// `mbarrier.try_wait.parity`: as [`test_wait`], but may first wait for a time that the GPU chooses.
///
/// PTX ISA, "mbarrier.test_wait, mbarrier.try_wait"; sm_90.
///
/// # Safety
/// `bar` is an initialised barrier of this CTA.
#[inline(always)]
pub unsafe fn try_wait(bar: u32, parity: u32) -> bool {
    let done: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}",
            out(reg32) done, in(reg32) bar, in(reg32) parity)
    };
    done != 0
}

/// Waits until the phase of this parity has completed; what its arrivals and bytes wrote is visible then.
///
/// PTX ISA, "mbarrier.test_wait, mbarrier.try_wait"; sm_90.
///
/// # Safety
/// `bar` is an initialised barrier of this CTA, at most one phase ahead of this thread.
#[inline(always)]
pub unsafe fn wait(bar: u32, parity: u32) {
    // SAFETY: the caller's.
    while !unsafe { try_wait(bar, parity) } {}
}
