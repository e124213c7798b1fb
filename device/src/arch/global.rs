//! Loads and stores of global memory.
//!
//! `_nc` loads read through the read-only cache, for what nobody writes while the kernel runs.
//! `_hint` takes a cache policy: [`EVICT_FIRST`](super::tma::EVICT_FIRST) and its kin.
//!
//! PTX ISA, "Data Movement and Conversion Instructions": `ld`, `ld.global.nc`, `st`; sm_80.

macro_rules! loads {
    ($op:literal, $section:literal, $written:literal:
     $($name:ident: $value:ty, $reg:ty, $class:ident, $suffix:literal;)*) => { $(
        #[doc = concat!("`", $op, ".", $suffix, "`.")]
        ///
        #[doc = concat!("PTX ISA, \"", $section, "\"; sm_80.")]
        ///
        /// # Safety
        #[doc = concat!("`from` is aligned and readable in global memory, and no thread writes there ", $written, ".")]
        #[inline(always)]
        pub unsafe fn $name(from: *const $value) -> $value {
            let r: $reg;
            // SAFETY: the caller's.
            unsafe { ptx!(concat!($op, ".", $suffix, " {0}, [{1}];"), out($class) r, in(reg64) from) };
            r as $value
        }
    )* };
}

macro_rules! loads_x2 {
    ($($name:ident: $op:literal, $section:literal, $written:literal;)*) => { $(
        #[doc = concat!("`", $op, ".v2.b32`.")]
        ///
        #[doc = concat!("PTX ISA, \"", $section, "\"; sm_80.")]
        ///
        /// # Safety
        /// `from` is a multiple of 8 and readable in global memory, and no thread writes there
        #[doc = concat!($written, ".")]
        #[inline(always)]
        pub unsafe fn $name(from: *const [u32; 2]) -> [u32; 2] {
            let (a, b): (u32, u32);
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!($op, ".v2.b32 {{{0}, {1}}}, [{2}];"), out(reg32) a, out(reg32) b, in(reg64) from)
            };
            [a, b]
        }
    )* };
}

macro_rules! loads_x4 {
    ($($name:ident$(($policy:ident))?: $op:literal, $hint:literal, $section:literal, $written:literal;)*) => { $(
        #[doc = concat!("`", $op, ".v4.b32`.")]
        ///
        #[doc = concat!("PTX ISA, \"", $section, "\"; sm_80.")]
        ///
        /// # Safety
        /// `from` is a multiple of 16 and readable in global memory, and no thread writes there
        #[doc = concat!($written, ".")]
        #[inline(always)]
        pub unsafe fn $name(from: *const [u32; 4] $(, $policy: u64)?) -> [u32; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!($op, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}]", $hint, ";"),
                    out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) from $(, in(reg64) $policy)?)
            };
            [a, b, c, d]
        }
    )* };
}

macro_rules! stores {
    ($($name:ident: $value:ty, $reg:ty, $class:ident, $suffix:literal;)*) => { $(
        #[doc = concat!("`st.global.", $suffix, "`.")]
        ///
        /// PTX ISA, "st"; sm_80.
        ///
        /// # Safety
        /// `to` is aligned and writable in global memory, and no other thread uses it meanwhile.
        #[inline(always)]
        pub unsafe fn $name(to: *mut $value, value: $value) {
            // SAFETY: the caller's.
            unsafe { ptx!(concat!("st.global.", $suffix, " [{0}], {1};"), in(reg64) to, in($class) value as $reg) }
        }
    )* };
}

macro_rules! stores_x4 {
    ($($name:ident$(($policy:ident))?: $op:literal, $hint:literal;)*) => { $(
        #[doc = concat!("`", $op, ".v4.b32`.")]
        ///
        /// PTX ISA, "st"; sm_80.
        ///
        /// # Safety
        /// `to` is a multiple of 16 and writable in global memory, and no other thread uses it meanwhile.
        #[inline(always)]
        pub unsafe fn $name(to: *mut [u32; 4], value: [u32; 4] $(, $policy: u64)?) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!($op, ".v4.b32 [{0}], {{{1}, {2}, {3}, {4}}}", $hint, ";"),
                    in(reg64) to, in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3]
                    $(, in(reg64) $policy)?)
            }
        }
    )* };
}

loads! { "ld.global", "ld", "meanwhile":
    ld_global_u8: u8, u16, reg16, "u8";
    ld_global_u16: u16, u16, reg16, "u16";
    ld_global_u32: u32, u32, reg32, "u32";
}
loads! { "ld.global.nc", "ld.global.nc", "while the kernel runs":
    ld_global_nc_u8: u8, u16, reg16, "u8";
    ld_global_nc_u16: u16, u16, reg16, "u16";
    ld_global_nc_u32: u32, u32, reg32, "u32";
}
loads_x2! {
    ld_global_u32x2: "ld.global", "ld", "meanwhile";
    ld_global_nc_u32x2: "ld.global.nc", "ld.global.nc", "while the kernel runs";
}
loads_x4! {
    ld_global_u32x4: "ld.global", "", "ld", "meanwhile";
    ld_global_u32x4_hint(policy): "ld.global.L2::cache_hint", ", {5}", "ld", "meanwhile";
    ld_global_nc_u32x4: "ld.global.nc", "", "ld.global.nc", "while the kernel runs";
    ld_global_nc_u32x4_hint(policy): "ld.global.nc.L2::cache_hint", ", {5}", "ld.global.nc", "while the kernel runs";
    ld_global_nc_u32x4_once: "ld.global.nc.L1::no_allocate", "", "ld.global.nc", "while the kernel runs";
}
stores! {
    st_global_u8: u8, u16, reg16, "u8";
    st_global_u16: u16, u16, reg16, "u16";
    st_global_u32: u32, u32, reg32, "u32";
}

/// `st.global.v2.b32`.
///
/// PTX ISA, "st"; sm_80.
///
/// # Safety
/// `to` is a multiple of 8 and writable in global memory, and no other thread uses it meanwhile.
#[inline(always)]
pub unsafe fn st_global_u32x2(to: *mut [u32; 2], value: [u32; 2]) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("st.global.v2.b32 [{0}], {{{1}, {2}}};", in(reg64) to, in(reg32) value[0], in(reg32) value[1])
    }
}

stores_x4! {
    st_global_u32x4: "st.global", "";
    st_global_u32x4_hint(policy): "st.global.L2::cache_hint", ", {5}";
}

macro_rules! guarded {
    ($($load:ident $store:ident: $value:ty, $class:ident, $suffix:literal;)*) => { $(
        #[doc = concat!("`ld.global.", $suffix, "` under a predicate: zero, and no access, where `valid` is false.")]
        ///
        /// PTX ISA, "ld", "Predicated Execution"; sm_80.
        ///
        /// # Safety
        /// Where `valid`: `from` is aligned and readable in global memory, and no thread writes there meanwhile.
        #[inline(always)]
        pub unsafe fn $load(from: *const $value, valid: bool) -> $value {
            let r: $value;
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("{{ .reg .pred p; setp.ne.u32 p, {2}, 0; mov.b", $suffix, " {0}, 0; @p ld.global.b",
                    $suffix, " {0}, [{1}]; }}"), out($class) r, in(reg64) from, in(reg32) valid as u32)
            };
            r
        }

        #[doc = concat!("`st.global.", $suffix, "` under a predicate: no access where `valid` is false.")]
        ///
        /// PTX ISA, "st", "Predicated Execution"; sm_80.
        ///
        /// # Safety
        /// Where `valid`: `to` is aligned and writable in global memory, and no other thread uses it meanwhile.
        #[inline(always)]
        pub unsafe fn $store(to: *mut $value, value: $value, valid: bool) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("{{ .reg .pred p; setp.ne.u32 p, {2}, 0; @p st.global.b", $suffix, " [{0}], {1}; }}"),
                    in(reg64) to, in($class) value, in(reg32) valid as u32)
            }
        }
    )* };
}
guarded! {
    ld_global_u16_if st_global_u16_if: u16, reg16, "16";
    ld_global_u32_if st_global_u32_if: u32, reg32, "32";
}

macro_rules! replacing {
    ($written:literal: $($name:ident: $value:ty, $class:ident, $op:literal, $regs:literal, $at:literal, $p:literal, [$($i:literal)*];)*) => { $(
        #[doc = concat!("`", $op, "` under a predicate, in place of `old`: no access, and nothing changes, where `valid` is false.")]
        ///
        /// PTX ISA, "ld", "ld.global.nc", "Predicated Execution"; sm_80.
        ///
        /// # Safety
        /// Where `valid`: `from` is a multiple of the access's size and readable in global memory, and no thread writes there
        #[doc = concat!($written, ".")]
        #[inline(always)]
        pub unsafe fn $name<const N: usize>(old: &mut [$value; N], first: usize, from: u64, valid: bool) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("{{ .reg .pred p; setp.ne.u32 p, ", $p, ", 0; @p ", $op, " ", $regs, ", [", $at, "]; }}"),
                    $(inout($class) old[first + $i],)* in(reg64) from, in(reg32) valid as u32)
            }
        }
    )* };
}
replacing! { "while the kernel runs":
    replace_u16: u16, reg16, "ld.global.nc.u16", "{0}", "{1}", "{2}", [0];
    replace_u32: u32, reg32, "ld.global.nc.L1::no_allocate.b32", "{0}", "{1}", "{2}", [0];
    replace_u32x2: u32, reg32, "ld.global.nc.L1::no_allocate.v2.b32", "{{{0}, {1}}}", "{2}", "{3}", [0 1];
    replace_u32x4: u32, reg32, "ld.global.nc.L1::no_allocate.v4.b32", "{{{0}, {1}, {2}, {3}}}", "{4}", "{5}", [0 1 2 3];
}
replacing! { "meanwhile":
    replace_cached_u32x4: u32, reg32, "ld.global.v4.b32", "{{{0}, {1}, {2}, {3}}}", "{4}", "{5}", [0 1 2 3];
    replace_fresh_u32x4: u32, reg32, "ld.global.L1::no_allocate.v4.b32", "{{{0}, {1}, {2}, {3}}}", "{4}", "{5}", [0 1 2 3];
}

/// `st.global.v4.b32` under a predicate: no access where `valid` is false.
///
/// PTX ISA, "st", "Predicated Execution"; sm_80.
///
/// # Safety
/// Where `valid`: `to` is a multiple of 16 and writable in global memory, and no other thread uses it meanwhile.
#[inline(always)]
pub unsafe fn st_global_u32x4_if(to: *mut [u32; 4], value: [u32; 4], valid: bool) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; setp.ne.u32 p, {5}, 0; @p st.global.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}}; }}",
            in(reg64) to, in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3],
            in(reg32) valid as u32)
    }
}

/// `st.global.b8` under a predicate: no access where `valid` is false.
///
/// PTX ISA, "st", "Predicated Execution"; sm_80.
///
/// # Safety
/// Where `valid`: `to` is writable in global memory, and no other thread uses it meanwhile.
#[inline(always)]
pub unsafe fn st_global_u8_if(to: *mut u8, value: u8, valid: bool) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("{{ .reg .pred p; setp.ne.u32 p, {2}, 0; @p st.global.b8 [{0}], {1}; }}",
            in(reg64) to, in(reg16) value as u16, in(reg32) valid as u32)
    }
}

/// `prefetch.global.L2`: brings the line of 128 bytes that has this address to L2.
///
/// PTX ISA, "prefetch, prefetchu"; sm_80.
///
/// # Safety
/// `at` is readable in global memory.
#[inline(always)]
pub unsafe fn prefetch_l2(at: u64) {
    // SAFETY: the caller's.
    unsafe { ptx!("prefetch.global.L2 [{0}];", in(reg64) at) }
}
