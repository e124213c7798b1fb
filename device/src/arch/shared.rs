//! Loads and stores of shared memory, of the own CTA and of the cluster's others.
//!
//! PTX ISA, "Data Movement and Conversion Instructions": `ld`, `st`, `st.async`, `mapa`.

use core::mem::MaybeUninit;

// Dynamic shared memory has no Rust spelling. 1024 is what the 128-byte swizzle needs.
#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 1024 .b8 tilewright_shared[];");

/// The address of the kernel's dynamic shared memory, a multiple of 1024.
///
/// PTX ISA, "State Spaces": "Shared State Space"; sm_80.
#[inline(always)]
pub fn dynamic_shared() -> u32 {
    let r: u32;
    // SAFETY: the address of a variable.
    unsafe { ptx!("mov.u32 {0}, tilewright_shared;", out(reg32) r, options(pure, nomem)) };
    r
}

/// [`dynamic_shared`], read anew at each call: what is computed from it is in no register before.
///
/// PTX ISA, "State Spaces": "Shared State Space"; sm_80.
#[inline(always)]
pub fn dynamic_shared_volatile() -> u32 {
    let r: u32;
    // SAFETY: the address of a variable.
    unsafe { ptx!("mov.u32 {0}, tilewright_shared;", out(reg32) r) };
    r
}

/// `mapa.shared::cluster`: the address that `addr` of this CTA has in CTA `rank` of its cluster.
///
/// PTX ISA, "mapa"; sm_90.
#[inline(always)]
pub fn mapa(addr: u32, rank: u32) -> u32 {
    let r: u32;
    // SAFETY: computes an address and does not use it.
    unsafe {
        ptx!("mapa.shared::cluster.u32 {0}, {1}, {2};",
            out(reg32) r, in(reg32) addr, in(reg32) rank, options(pure, nomem))
    };
    r
}

macro_rules! loads {
    ($space:literal, $section:literal: $($name:ident: $ty:ty, $class:ident, $suffix:literal;)*) => { $(
        #[doc = concat!("`ld.", $space, ".", $suffix, "`.")]
        ///
        #[doc = $section]
        ///
        /// # Safety
        /// `addr` lies in shared memory, is aligned to the access, and no thread writes there meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32) -> $ty {
            let r: $ty;
            // SAFETY: the caller's.
            unsafe { ptx!(concat!("ld.", $space, ".", $suffix, " {0}, [{1}];"), out($class) r, in(reg32) addr) };
            r
        }
    )* };
}

macro_rules! loads_x2 {
    ($space:literal, $section:literal: $($name:ident: $ty:ty;)*) => { $(
        #[doc = concat!("`ld.", $space, ".v2.b32`.")]
        ///
        #[doc = $section]
        ///
        /// # Safety
        /// `addr` lies in shared memory, is a multiple of 8, and no thread writes there meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32) -> [$ty; 2] {
            let (a, b): ($ty, $ty);
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("ld.", $space, ".v2.b32 {{{0}, {1}}}, [{2}];"),
                    out(reg32) a, out(reg32) b, in(reg32) addr)
            };
            [a, b]
        }
    )* };
}

macro_rules! loads_x4 {
    ($space:literal, $section:literal: $($name:ident: $ty:ty;)*) => { $(
        #[doc = concat!("`ld.", $space, ".v4.b32`.")]
        ///
        #[doc = $section]
        ///
        /// # Safety
        /// `addr` lies in shared memory, is a multiple of 16, and no thread writes there meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32) -> [$ty; 4] {
            let (a, b, c, d): ($ty, $ty, $ty, $ty);
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("ld.", $space, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                    out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) addr)
            };
            [a, b, c, d]
        }
    )* };
}

macro_rules! stores {
    ($space:literal, $section:literal: $($name:ident: $ty:ty, $class:ident, $suffix:literal;)*) => { $(
        #[doc = concat!("`st.", $space, ".", $suffix, "`.")]
        ///
        #[doc = $section]
        ///
        /// # Safety
        /// `addr` lies in shared memory, is aligned to the access, and no other thread uses it meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32, value: $ty) {
            // SAFETY: the caller's.
            unsafe { ptx!(concat!("st.", $space, ".", $suffix, " [{0}], {1};"), in(reg32) addr, in($class) value) }
        }
    )* };
}

macro_rules! stores_x2 {
    ($space:literal, $section:literal: $($name:ident: $ty:ty;)*) => { $(
        #[doc = concat!("`st.", $space, ".v2.b32`.")]
        ///
        #[doc = $section]
        ///
        /// # Safety
        /// `addr` lies in shared memory, is a multiple of 8, and no other thread uses it meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32, value: [$ty; 2]) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("st.", $space, ".v2.b32 [{0}], {{{1}, {2}}};"),
                    in(reg32) addr, in(reg32) value[0], in(reg32) value[1])
            }
        }
    )* };
}

macro_rules! stores_x4 {
    ($space:literal, $section:literal: $($name:ident: $ty:ty;)*) => { $(
        #[doc = concat!("`st.", $space, ".v4.b32`.")]
        ///
        #[doc = $section]
        ///
        /// # Safety
        /// `addr` lies in shared memory, is a multiple of 16, and no other thread uses it meanwhile.
        #[inline(always)]
        pub unsafe fn $name(addr: u32, value: [$ty; 4]) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("st.", $space, ".v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};"),
                    in(reg32) addr, in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3])
            }
        }
    )* };
}

loads! { "shared", "PTX ISA, \"ld\"; sm_80.":
    load_u16: u16, reg16, "b16";
    load_u32: u32, reg32, "b32";
    load_f32: f32, reg32, "b32";
    load_word: MaybeUninit<f32>, reg32, "b32";
}
loads_x2! { "shared", "PTX ISA, \"ld\"; sm_80.":
    load_u32x2: u32;
    load_f32x2: f32;
}
loads_x4! { "shared", "PTX ISA, \"ld\"; sm_80.":
    load_u32x4: u32;
    load_f32x4: f32;
}
stores! { "shared", "PTX ISA, \"st\"; sm_80.":
    store_u16: u16, reg16, "b16";
    store_u32: u32, reg32, "b32";
    store_f32: f32, reg32, "b32";
    store_word: MaybeUninit<f32>, reg32, "b32";
}
stores_x2! { "shared", "PTX ISA, \"st\"; sm_80.":
    store_u32x2: u32;
    store_f32x2: f32;
}
stores_x4! { "shared", "PTX ISA, \"st\"; sm_80.":
    store_u32x4: u32;
    store_f32x4: f32;
}

loads! { "shared::cluster", "`addr` is a [`mapa`] address. PTX ISA, \"ld\"; sm_90.":
    load_cluster_u32: u32, reg32, "b32";
    load_cluster_f32: f32, reg32, "b32";
}
loads_x2! { "shared::cluster", "`addr` is a [`mapa`] address. PTX ISA, \"ld\"; sm_90.":
    load_cluster_f32x2: f32;
}
loads_x4! { "shared::cluster", "`addr` is a [`mapa`] address. PTX ISA, \"ld\"; sm_90.":
    load_cluster_u32x4: u32;
    load_cluster_f32x4: f32;
}
stores! { "shared::cluster", "`addr` is a [`mapa`] address. PTX ISA, \"st\"; sm_90.":
    store_cluster_u32: u32, reg32, "b32";
    store_cluster_f32: f32, reg32, "b32";
}
stores_x2! { "shared::cluster", "`addr` is a [`mapa`] address. PTX ISA, \"st\"; sm_90.":
    store_cluster_u32x2: u32;
    store_cluster_f32x2: f32;
}
stores_x4! { "shared::cluster", "`addr` is a [`mapa`] address. PTX ISA, \"st\"; sm_90.":
    store_cluster_u32x4: u32;
    store_cluster_f32x4: f32;
}

/// `st.async` of a word: completes 4 bytes at the barrier `bar` when they are visible.
///
/// `addr` and `bar` are [`mapa`] addresses of one CTA. PTX ISA, "st.async"; sm_90.
///
/// # Safety
/// `addr` is a multiple of 4 in that CTA's shared memory, `bar` an initialised mbarrier there, and
/// nobody uses the bytes before `bar` completes.
#[inline(always)]
pub unsafe fn st_async_word(addr: u32, value: MaybeUninit<f32>, bar: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [{0}], {1}, [{2}];",
            in(reg32) addr, in(reg32) value, in(reg32) bar)
    }
}

/// `st.async` of two floats: completes 8 bytes at the barrier `bar` when they are visible.
///
/// `addr` and `bar` are [`mapa`] addresses of one CTA. PTX ISA, "st.async"; sm_90.
///
/// # Safety
/// `addr` is a multiple of 8 in that CTA's shared memory, `bar` an initialised mbarrier there, and
/// nobody uses the bytes before `bar` completes.
#[inline(always)]
pub unsafe fn st_async_f32x2(addr: u32, value: [f32; 2], bar: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [{0}], {{{1}, {2}}}, [{3}];",
            in(reg32) addr, in(reg32) value[0], in(reg32) value[1], in(reg32) bar)
    }
}

/// `st.async` of four floats: completes 16 bytes at the barrier `bar` when they are visible.
///
/// `addr` and `bar` are [`mapa`] addresses of one CTA. PTX ISA, "st.async"; sm_90.
///
/// # Safety
/// `addr` is a multiple of 16 in that CTA's shared memory, `bar` an initialised mbarrier there, and
/// nobody uses the bytes before `bar` completes.
#[inline(always)]
pub unsafe fn st_async_f32x4(addr: u32, value: [f32; 4], bar: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [{0}], {{{1}, {2}, {3}, {4}}}, [{5}];",
            in(reg32) addr, in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3],
            in(reg32) bar)
    }
}
