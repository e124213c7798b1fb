//! Barriers of threads, fences, register reallocation, and dependent launches.
//!
//! PTX ISA, "Parallel Synchronization and Communication Instructions", and "Miscellaneous
//! Instructions" for `setmaxnreg`.

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident = $asm:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name() {
            // SAFETY: the caller's.
            unsafe { ptx!($asm) }
        }
    )* };
}

/// `bar.sync`: waits at named barrier `id` for `threads` threads, those that [`bar_arrive`] included.
///
/// PTX ISA, "bar, barrier"; sm_80.
///
/// # Safety
/// Whole warps execute it; `threads` is a multiple of 32, the same for all at `id`; `id` is below 16.
#[inline(always)]
pub unsafe fn bar_sync(id: u32, threads: u32) {
    // SAFETY: the caller's.
    unsafe { ptx!("bar.sync {0}, {1};", in(reg32) id, in(reg32) threads) }
}

/// `bar.red.or`: as [`bar_sync`], and whether the condition holds in some thread of those that meet.
///
/// PTX ISA, "bar, barrier"; sm_80.
///
/// # Safety
/// As for [`bar_sync`].
#[inline(always)]
pub unsafe fn bar_red_or(id: u32, threads: u32, condition: bool) -> bool {
    let r: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p, q; setp.ne.u32 p, {3}, 0; bar.red.or.pred q, {1}, {2}, p; selp.u32 {0}, 1, 0, q; }}",
            out(reg32) r, in(reg32) id, in(reg32) threads, in(reg32) condition as u32)
    };
    r != 0
}

/// `barrier.sync`: as [`bar_sync`], but the lanes of a warp need not execute it together.
///
/// Each warp that executes it counts as 32 threads, however many of its lanes do. PTX ISA, "bar, barrier"; sm_80.
///
/// # Safety
/// `threads` is a multiple of 32, the same for all at `id`; `id` is below 16.
#[inline(always)]
pub unsafe fn barrier_sync(id: u32, threads: u32) {
    // SAFETY: the caller's.
    unsafe { ptx!("barrier.sync {0}, {1};", in(reg32) id, in(reg32) threads) }
}

/// `bar.arrive`: counts the warp at named barrier `id` without waiting.
///
/// PTX ISA, "bar, barrier"; sm_80.
///
/// # Safety
/// As for [`bar_sync`].
#[inline(always)]
pub unsafe fn bar_arrive(id: u32, threads: u32) {
    // SAFETY: the caller's.
    unsafe { ptx!("bar.arrive {0}, {1};", in(reg32) id, in(reg32) threads) }
}

instructions! {
    /// `bar.sync 0`: all threads of the CTA wait for each other; their memory accesses are ordered.
    ///
    /// PTX ISA, "bar, barrier"; sm_80.
    ///
    /// # Safety
    /// Every thread of the CTA that has not exited executes it.
    syncthreads = "bar.sync 0;";

    /// `bar.warp.sync`: all lanes wait for each other; their memory accesses are ordered.
    ///
    /// PTX ISA, "bar.warp.sync"; sm_80.
    ///
    /// # Safety
    /// All 32 lanes execute it.
    sync_warp = "bar.warp.sync 0xffffffff;";

    /// `barrier.cluster.arrive.relaxed`: arrives at the cluster's barrier and orders no memory access.
    ///
    /// PTX ISA, "barrier.cluster"; sm_90.
    ///
    /// # Safety
    /// Every thread of the cluster arrives, and each waits before it arrives again.
    cluster_arrive_relaxed = "barrier.cluster.arrive.relaxed;";

    /// `barrier.cluster.arrive.release`: arrives at the cluster's barrier after its earlier memory accesses.
    ///
    /// PTX ISA, "barrier.cluster"; sm_90.
    ///
    /// # Safety
    /// Every thread of the cluster arrives, and each waits before it arrives again.
    cluster_arrive_release = "barrier.cluster.arrive.release;";

    /// `barrier.cluster.wait.acquire`: waits until every thread of the cluster has arrived.
    ///
    /// PTX ISA, "barrier.cluster"; sm_90.
    ///
    /// # Safety
    /// The thread has arrived and not waited since.
    cluster_wait = "barrier.cluster.wait.acquire;";

    /// `fence.proxy.async.shared::cta`: makes this thread's writes to shared memory visible to
    /// the asynchronous units: TMA and `wgmma`.
    ///
    /// PTX ISA, "membar, fence"; sm_90.
    ///
    /// # Safety
    /// None beyond the target: a fence may stand anywhere.
    fence_proxy_async_shared = "fence.proxy.async.shared::cta;";

    /// `fence.mbarrier_init.release.cluster`: makes initialised mbarriers visible to the cluster and
    /// to the asynchronous units.
    ///
    /// PTX ISA, "membar, fence"; sm_90.
    ///
    /// # Safety
    /// None beyond the target: a fence may stand anywhere.
    fence_mbarrier_init = "fence.mbarrier_init.release.cluster;";

    /// `fence.acq_rel.gpu`: orders this thread's memory accesses for the whole GPU.
    ///
    /// PTX ISA, "membar, fence"; sm_80.
    ///
    /// # Safety
    /// None: a fence may stand anywhere.
    threadfence = "fence.acq_rel.gpu;";

    /// `griddepcontrol.wait`: waits until the grids that this one depends on have completed.
    ///
    /// At once in a launch without the programmatic attribute. PTX ISA, "griddepcontrol"; sm_90.
    ///
    /// # Safety
    /// None beyond the target.
    griddep_wait = "griddepcontrol.wait;";

    /// `griddepcontrol.launch_dependents`: lets the grids that depend on this one start.
    ///
    /// PTX ISA, "griddepcontrol"; sm_90.
    ///
    /// # Safety
    /// The dependent grids read this one's results only after their [`griddep_wait`].
    griddep_launch_dependents = "griddepcontrol.launch_dependents;";
}

/// A number of registers a thread: a type, because the operand of [`setmaxnreg_inc`] and [`setmaxnreg_dec`] is an immediate.
pub trait RegisterCount {
    /// The number.
    const COUNT: u32;
}

/// `N` registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers<const N: u32>;

impl<const N: u32> RegisterCount for Registers<N> {
    const COUNT: u32 = N;
}

/// `setmaxnreg.inc`: takes registers up to `N` a thread, waiting until others have given enough.
///
/// PTX ISA, "setmaxnreg"; sm_90a.
///
/// # Safety
/// All warps of a warpgroup execute it; `N` is a multiple of 8 from 24 to 256, and the CTA's warps
/// together never hold more than the launch gave them. The kernel states its maximal threads.
#[inline(always)]
pub unsafe fn setmaxnreg_inc<N: RegisterCount>() {
    // SAFETY: the caller's.
    unsafe { ptx!("setmaxnreg.inc.sync.aligned.u32 {0};", const N::COUNT) }
}

/// `setmaxnreg.dec`: gives registers back, down to `N` a thread.
///
/// PTX ISA, "setmaxnreg"; sm_90a.
///
/// # Safety
/// As for [`setmaxnreg_inc`].
#[inline(always)]
pub unsafe fn setmaxnreg_dec<N: RegisterCount>() {
    // SAFETY: the caller's.
    unsafe { ptx!("setmaxnreg.dec.sync.aligned.u32 {0};", const N::COUNT) }
}
