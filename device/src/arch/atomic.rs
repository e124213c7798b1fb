//! Atomic operations on global memory, at the scope of the GPU, and on shared memory, at that of the CTA.
//!
//! Those not named `acquire` or `release` are relaxed: they order no other access.
//!
//! PTX ISA, "Parallel Synchronization and Communication Instructions": `atom`, `red`; and "Memory
//! Consistency Model".

macro_rules! red {
    ($($(#[$doc:meta])* $name:ident($value:ident: $ty:ty) = $asm:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// `at` is aligned and writable in global memory; while others use it, they do so atomically.
        #[inline(always)]
        pub unsafe fn $name(at: *mut $ty, $value: $ty) {
            // SAFETY: the caller's.
            unsafe { ptx!($asm, in(reg64) at, in(reg32) $value) }
        }
    )* };
}

red! {
    /// `red.add.f32`: adds, and returns nothing.
    ///
    /// PTX ISA, "red"; sm_80.
    red_add_f32(value: f32) = "red.relaxed.gpu.global.add.f32 [{0}], {1};";

    /// `red.add.u32`: adds, and returns nothing.
    ///
    /// PTX ISA, "red"; sm_80.
    red_add_u32(value: u32) = "red.relaxed.gpu.global.add.u32 [{0}], {1};";

    /// `red.release.add.u32`: adds, after this thread's earlier accesses.
    ///
    /// PTX ISA, "red"; sm_80.
    red_release_add_u32(value: u32) = "red.release.gpu.global.add.u32 [{0}], {1};";

    /// `st.release.u32`: stores, after this thread's earlier accesses.
    ///
    /// PTX ISA, "st"; sm_80.
    st_release(value: u32) = "st.release.gpu.global.u32 [{0}], {1};";
}

macro_rules! red_if {
    ($($(#[$doc:meta])* $name:ident($value:ident: $ty:ty, $class:ident) = $op:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Where `valid`: `at` is aligned to the value and writable in global memory; while others use it, they do so atomically.
        #[inline(always)]
        pub unsafe fn $name(at: *mut $ty, $value: $ty, valid: bool) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("{{ .reg .pred p; setp.ne.u32 p, {2}, 0; @p ", $op, " [{0}], {1}; }}"),
                    in(reg64) at, in($class) $value, in(reg32) valid as u32)
            }
        }
    )* };
}

red_if! {
    /// `red.add.f32` under a predicate: no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_80.
    red_add_f32_if(value: f32, reg32) = "red.relaxed.gpu.global.add.f32";

    /// `red.add.u32` under a predicate: no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_80.
    red_add_u32_if(value: u32, reg32) = "red.relaxed.gpu.global.add.u32";

    /// `red.max.s32` under a predicate: the greater of what is there and the value; no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_80.
    red_max_i32_if(value: i32, reg32) = "red.relaxed.gpu.global.max.s32";

    /// `red.add.noftz.f16` of its bits, under a predicate: no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_80.
    red_add_f16_if(value: u16, reg16) = "red.relaxed.gpu.global.add.noftz.f16";

    /// `red.add.noftz.f16x2` under a predicate: no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_80.
    red_add_f16x2_if(value: u32, reg32) = "red.relaxed.gpu.global.add.noftz.f16x2";

    /// `red.add.noftz.bf16` of its bits, under a predicate: no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_90.
    red_add_bf16_if(value: u16, reg16) = "red.relaxed.gpu.global.add.noftz.bf16";

    /// `red.add.noftz.bf16x2` under a predicate: no access where `valid` is false.
    ///
    /// PTX ISA, "red", "Predicated Execution"; sm_90.
    red_add_bf16x2_if(value: u32, reg32) = "red.relaxed.gpu.global.add.noftz.bf16x2";
}

macro_rules! atom {
    ($($(#[$doc:meta])* $name:ident($value:ident) = $asm:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// `at` is aligned and writable in global memory; while others use it, they do so atomically.
        #[inline(always)]
        pub unsafe fn $name(at: *mut u32, $value: u32) -> u32 {
            let old: u32;
            // SAFETY: the caller's.
            unsafe { ptx!($asm, out(reg32) old, in(reg64) at, in(reg32) $value) };
            old
        }
    )* };
}

atom! {
    /// `atom.add.u32`: adds, and returns what was there.
    ///
    /// PTX ISA, "atom"; sm_80.
    atom_add_u32(value) = "atom.relaxed.gpu.global.add.u32 {0}, [{1}], {2};";

    /// `atom.acq_rel.add.u32`: as [`atom_add_u32`], after this thread's earlier accesses and before its later ones.
    ///
    /// PTX ISA, "atom"; sm_80.
    atom_acq_rel_add_u32(value) = "atom.acq_rel.gpu.global.add.u32 {0}, [{1}], {2};";
}

/// `atom.acq_rel.cas.b32`: stores `new` where `expected` is, and returns what was there.
///
/// After this thread's earlier accesses and before its later ones. PTX ISA, "atom"; sm_80.
///
/// # Safety
/// `at` is aligned and writable in global memory; while others use it, they do so atomically.
#[inline(always)]
pub unsafe fn atom_cas(at: *mut u32, expected: u32, new: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("atom.acq_rel.gpu.global.cas.b32 {0}, [{1}], {2}, {3};",
            out(reg32) old, in(reg64) at, in(reg32) expected, in(reg32) new)
    };
    old
}

/// `ld.acquire.u32`: loads, before this thread's later accesses.
///
/// PTX ISA, "ld"; sm_80.
///
/// # Safety
/// `from` is aligned and readable in global memory; who writes there meanwhile does so atomically.
#[inline(always)]
pub unsafe fn ld_acquire(from: *const u32) -> u32 {
    let r: u32;
    // SAFETY: the caller's.
    unsafe { ptx!("ld.acquire.gpu.global.u32 {0}, [{1}];", out(reg32) r, in(reg64) from) };
    r
}

/// `ld.acquire.u64`: as [`ld_acquire`].
///
/// PTX ISA, "ld"; sm_80.
///
/// # Safety
/// As for [`ld_acquire`].
#[inline(always)]
pub unsafe fn ld_acquire_u64(from: *const u64) -> u64 {
    let r: u64;
    // SAFETY: the caller's.
    unsafe { ptx!("ld.acquire.gpu.global.u64 {0}, [{1}];", out(reg64) r, in(reg64) from) };
    r
}

/// `st.release.u64`: as [`st_release`].
///
/// PTX ISA, "st"; sm_80.
///
/// # Safety
/// As for [`st_release`].
#[inline(always)]
pub unsafe fn st_release_u64(at: *mut u64, value: u64) {
    // SAFETY: the caller's.
    unsafe { ptx!("st.release.gpu.global.u64 [{0}], {1};", in(reg64) at, in(reg64) value) }
}

/// `st.relaxed.u64`: stores, in no order to other accesses.
///
/// PTX ISA, "st"; sm_80.
///
/// # Safety
/// As for [`st_release`].
#[inline(always)]
pub unsafe fn st_relaxed_u64(at: *mut u64, value: u64) {
    // SAFETY: the caller's.
    unsafe { ptx!("st.relaxed.gpu.global.u64 [{0}], {1};", in(reg64) at, in(reg64) value) }
}

/// `red.shared.add.u32`: adds, and returns nothing.
///
/// PTX ISA, "red"; sm_80.
///
/// # Safety
/// `at` is a multiple of 4 and lies in shared memory; while others use it, they do so atomically.
#[inline(always)]
pub unsafe fn red_shared_add_u32(at: u32, value: u32) {
    // SAFETY: the caller's.
    unsafe { ptx!("red.relaxed.cta.shared.add.u32 [{0}], {1};", in(reg32) at, in(reg32) value) }
}

/// `atom.shared.add.u32`: adds, and returns what was there.
///
/// PTX ISA, "atom"; sm_80.
///
/// # Safety
/// As for [`red_shared_add_u32`].
#[inline(always)]
pub unsafe fn atom_shared_add_u32(at: u32, value: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller's.
    unsafe {
        ptx!("atom.relaxed.cta.shared.add.u32 {0}, [{1}], {2};", out(reg32) old, in(reg32) at, in(reg32) value)
    };
    old
}
