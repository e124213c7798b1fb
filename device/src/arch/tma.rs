//! Bulk copies between global and shared memory by the TMA unit.
//!
//! Loads complete their bytes at an mbarrier; stores and reductions belong to the thread's bulk
//! groups. A tensor map describes a tensor of 2 to 5 dimensions and the box that one copy moves;
//! coordinates name the box's first element, the contiguous dimension first. The hardware takes
//! them as signed: a box may start before the tensor, and what lies outside reads as zero and is
//! not written.
//!
//! A `policy` is one of [`EVICT_FIRST`], [`EVICT_LAST`] and [`EVICT_NORMAL`]. A `mask` names the
//! CTAs of the cluster that receive the box and its bytes, each at the same offsets of its own
//! shared memory: bit `r` for rank `r`.
//!
//! PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy"; all of sm_90.

/// Cache policy: no preference.
pub const EVICT_NORMAL: u64 = 0x1000_0000_0000_0000;
/// Cache policy: leaves L2 first. For what is read once.
pub const EVICT_FIRST: u64 = 0x12F0_0000_0000_0000;
/// Cache policy: leaves L2 last. For what many CTAs read.
pub const EVICT_LAST: u64 = 0x14F0_0000_0000_0000;

/// Coordinates of a box in a tensor of as many dimensions: the copies of this module, by rank.
///
/// # Safety
/// The rules of the functions of this module, which the methods are:
/// [`load`](Coords::load) is [`load_2d`] and so on.
#[diagnostic::on_unimplemented(
    message = "TMA has no box with coordinates `{Self}`",
    note = "coordinates are `[u32; 2]` to `[u32; 5]`"
)]
pub trait Coords: Copy {
    /// Dimensions of the tensor.
    const RANK: usize;

    /// Loads the box. See [`load_2d`].
    ///
    /// # Safety
    /// As for [`load_2d`].
    unsafe fn load(self, dst: u32, map: *const u8, bar: u32);

    /// Loads the box, with a cache policy. See [`load_2d_hint`].
    ///
    /// # Safety
    /// As for [`load_2d`].
    unsafe fn load_hint(self, dst: u32, map: *const u8, bar: u32, policy: u64);

    /// Loads the box into several CTAs. See [`load_2d_multicast`].
    ///
    /// # Safety
    /// As for [`load_2d_multicast`].
    unsafe fn load_multicast(self, dst: u32, map: *const u8, bar: u32, mask: u16);

    /// Loads the box into several CTAs, with a cache policy. See [`load_2d_multicast_hint`].
    ///
    /// # Safety
    /// As for [`load_2d_multicast`].
    unsafe fn load_multicast_hint(self, dst: u32, map: *const u8, bar: u32, mask: u16, policy: u64);

    /// Stores the box. See [`store_2d`].
    ///
    /// # Safety
    /// As for [`store_2d`].
    unsafe fn store(self, map: *const u8, src: u32);

    /// Adds to the box. See [`reduce_add_2d`].
    ///
    /// # Safety
    /// As for [`store_2d`].
    unsafe fn reduce_add(self, map: *const u8, src: u32);

    /// Brings the box into L2. See [`prefetch_l2_2d`].
    ///
    /// # Safety
    /// As for [`prefetch_l2_2d`].
    unsafe fn prefetch_l2(self, map: *const u8);
}

macro_rules! rank {
    (
        $rank:literal, $dim:literal, $coords:literal, [$($c:ident $i:literal)*],
        $load:ident $load_hint:ident $load_multicast:ident $load_multicast_hint:ident
        $store:ident $reduce_add:ident $prefetch_l2:ident
    ) => {
        #[doc = concat!("`cp.async.bulk.tensor.", $dim, ".shared::cluster.global`: loads a box into `dst`.")]
        ///
        /// PTX ISA, "cp.async.bulk.tensor"; sm_90.
        ///
        /// # Safety
        /// `map` points to a tensor map of this rank in global, constant or parameter memory. `dst`
        /// has the alignment that the map's swizzle asks for (at least 128) and room for the box;
        /// nobody uses it until `bar`, an initialised mbarrier that expects the bytes, completes.
        #[inline(always)]
        pub unsafe fn $load(dst: u32, map: *const u8, at: [u32; $rank], bar: u32) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.async.bulk.tensor.", $dim, ".shared::cluster.global.mbarrier::complete_tx::bytes ",
                        "[{dst}], [{map}, ", $coords, "], [{bar}];"),
                    dst = in(reg32) dst, map = in(reg64) map, $($c = in(reg32) at[$i],)* bar = in(reg32) bar)
            }
        }

        #[doc = concat!("[`", stringify!($load), "`] with `.L2::cache_hint`.")]
        ///
        /// PTX ISA, "cp.async.bulk.tensor"; sm_90.
        ///
        /// # Safety
        #[doc = concat!("As for [`", stringify!($load), "`]; `policy` is one of this module's.")]
        #[inline(always)]
        pub unsafe fn $load_hint(dst: u32, map: *const u8, at: [u32; $rank], bar: u32, policy: u64) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.async.bulk.tensor.", $dim, ".shared::cluster.global.mbarrier::complete_tx::bytes",
                        ".L2::cache_hint [{dst}], [{map}, ", $coords, "], [{bar}], {policy};"),
                    dst = in(reg32) dst, map = in(reg64) map, $($c = in(reg32) at[$i],)* bar = in(reg32) bar,
                    policy = in(reg64) policy)
            }
        }

        #[doc = concat!("[`", stringify!($load), "`] with `.multicast::cluster`: into every CTA of `mask`.")]
        ///
        /// PTX ISA, "cp.async.bulk.tensor"; sm_90.
        ///
        /// # Safety
        #[doc = concat!("As for [`", stringify!($load), "`], in each CTA of `mask`; all of them run.")]
        #[inline(always)]
        pub unsafe fn $load_multicast(dst: u32, map: *const u8, at: [u32; $rank], bar: u32, mask: u16) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.async.bulk.tensor.", $dim, ".shared::cluster.global.mbarrier::complete_tx::bytes",
                        ".multicast::cluster [{dst}], [{map}, ", $coords, "], [{bar}], {mask};"),
                    dst = in(reg32) dst, map = in(reg64) map, $($c = in(reg32) at[$i],)* bar = in(reg32) bar,
                    mask = in(reg16) mask)
            }
        }

        #[doc = concat!("[`", stringify!($load_multicast), "`] with `.L2::cache_hint`.")]
        ///
        /// PTX ISA, "cp.async.bulk.tensor"; sm_90.
        ///
        /// # Safety
        #[doc = concat!("As for [`", stringify!($load_multicast), "`]; `policy` is one of this module's.")]
        #[inline(always)]
        pub unsafe fn $load_multicast_hint(
            dst: u32, map: *const u8, at: [u32; $rank], bar: u32, mask: u16, policy: u64,
        ) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.async.bulk.tensor.", $dim, ".shared::cluster.global.mbarrier::complete_tx::bytes",
                        ".multicast::cluster.L2::cache_hint [{dst}], [{map}, ", $coords, "], [{bar}], {mask}, {policy};"),
                    dst = in(reg32) dst, map = in(reg64) map, $($c = in(reg32) at[$i],)* bar = in(reg32) bar,
                    mask = in(reg16) mask, policy = in(reg64) policy)
            }
        }

        #[doc = concat!("`cp.async.bulk.tensor.", $dim, ".global.shared::cta`: stores a box from `src`.")]
        ///
        /// PTX ISA, "cp.async.bulk.tensor"; sm_90.
        ///
        /// # Safety
        /// `map` points to a tensor map of this rank in global, constant or parameter memory. `src`
        /// has the alignment that the map's swizzle asks for (at least 128) and holds the box,
        /// written before a [`fence_proxy_async_shared`](super::sync::fence_proxy_async_shared) of
        /// its writers; nobody writes there until [`bulk_wait_read`].
        #[inline(always)]
        pub unsafe fn $store(map: *const u8, at: [u32; $rank], src: u32) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.async.bulk.tensor.", $dim, ".global.shared::cta.bulk_group ",
                        "[{map}, ", $coords, "], [{src}];"),
                    map = in(reg64) map, $($c = in(reg32) at[$i],)* src = in(reg32) src)
            }
        }

        #[doc = concat!("`cp.reduce.async.bulk.tensor.", $dim, ".add`: adds the box at `src` to the tensor.")]
        ///
        /// PTX ISA, "cp.reduce.async.bulk.tensor"; sm_90.
        ///
        /// # Safety
        #[doc = concat!("As for [`", stringify!($store), "`].")]
        #[inline(always)]
        pub unsafe fn $reduce_add(map: *const u8, at: [u32; $rank], src: u32) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.reduce.async.bulk.tensor.", $dim, ".global.shared::cta.add.tile.bulk_group ",
                        "[{map}, ", $coords, "], [{src}];"),
                    map = in(reg64) map, $($c = in(reg32) at[$i],)* src = in(reg32) src)
            }
        }

        #[doc = concat!("`cp.async.bulk.prefetch.tensor.", $dim, ".L2`: brings a box into L2.")]
        ///
        /// PTX ISA, "cp.async.bulk.prefetch.tensor"; sm_90.
        ///
        /// # Safety
        /// `map` points to a tensor map of this rank in global, constant or parameter memory.
        #[inline(always)]
        pub unsafe fn $prefetch_l2(map: *const u8, at: [u32; $rank]) {
            // SAFETY: the caller's.
            unsafe {
                ptx!(concat!("cp.async.bulk.prefetch.tensor.", $dim, ".L2.global.tile [{map}, ", $coords, "];"),
                    map = in(reg64) map $(, $c = in(reg32) at[$i])*)
            }
        }

        // SAFETY of the calls: each method asks of its caller what the function asks.
        impl Coords for [u32; $rank] {
            const RANK: usize = $rank;

            #[inline(always)]
            unsafe fn load(self, dst: u32, map: *const u8, bar: u32) {
                unsafe { $load(dst, map, self, bar) }
            }

            #[inline(always)]
            unsafe fn load_hint(self, dst: u32, map: *const u8, bar: u32, policy: u64) {
                unsafe { $load_hint(dst, map, self, bar, policy) }
            }

            #[inline(always)]
            unsafe fn load_multicast(self, dst: u32, map: *const u8, bar: u32, mask: u16) {
                unsafe { $load_multicast(dst, map, self, bar, mask) }
            }

            #[inline(always)]
            unsafe fn load_multicast_hint(self, dst: u32, map: *const u8, bar: u32, mask: u16, policy: u64) {
                unsafe { $load_multicast_hint(dst, map, self, bar, mask, policy) }
            }

            #[inline(always)]
            unsafe fn store(self, map: *const u8, src: u32) {
                unsafe { $store(map, self, src) }
            }

            #[inline(always)]
            unsafe fn reduce_add(self, map: *const u8, src: u32) {
                unsafe { $reduce_add(map, self, src) }
            }

            #[inline(always)]
            unsafe fn prefetch_l2(self, map: *const u8) {
                unsafe { $prefetch_l2(map, self) }
            }
        }
    };
}

rank!(2, "2d", "{{{c0}, {c1}}}", [c0 0 c1 1],
    load_2d load_2d_hint load_2d_multicast load_2d_multicast_hint store_2d reduce_add_2d prefetch_l2_2d);
rank!(3, "3d", "{{{c0}, {c1}, {c2}}}", [c0 0 c1 1 c2 2],
    load_3d load_3d_hint load_3d_multicast load_3d_multicast_hint store_3d reduce_add_3d prefetch_l2_3d);
rank!(4, "4d", "{{{c0}, {c1}, {c2}, {c3}}}", [c0 0 c1 1 c2 2 c3 3],
    load_4d load_4d_hint load_4d_multicast load_4d_multicast_hint store_4d reduce_add_4d prefetch_l2_4d);
rank!(5, "5d", "{{{c0}, {c1}, {c2}, {c3}, {c4}}}", [c0 0 c1 1 c2 2 c3 3 c4 4],
    load_5d load_5d_hint load_5d_multicast load_5d_multicast_hint store_5d reduce_add_5d prefetch_l2_5d);

/// `cp.async.bulk.tensor.4d.shared::cluster.global.im2col`: loads pixels into `dst`, as many as the map says, each of as many channels, with a
/// cache policy.
///
/// `at` is channel, width, height and image of the first pixel, between the map's corners; the others follow it there, row by row. What
/// is loaded lies `offsets` further, to the right and down. PTX ISA, "cp.async.bulk.tensor", "im2col mode"; sm_90.
///
/// # Safety
/// As for [`load_4d_hint`]; the map is one in im2col mode.
#[inline(always)]
pub unsafe fn load_im2col_4d_hint(
    dst: u32,
    map: *const u8,
    at: [u32; 4],
    offsets: [u16; 2],
    bar: u32,
    policy: u64,
) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint \
                [{dst}], [{map}, {{{c0}, {c1}, {c2}, {c3}}}], [{bar}], {{{o0}, {o1}}}, {policy};",
            dst = in(reg32) dst, map = in(reg64) map, c0 = in(reg32) at[0], c1 = in(reg32) at[1],
            c2 = in(reg32) at[2], c3 = in(reg32) at[3], bar = in(reg32) bar, o0 = in(reg16) offsets[0],
            o1 = in(reg16) offsets[1], policy = in(reg64) policy)
    }
}

/// As [`load_im2col_4d_hint`], of volumes: `at` is channel, width, height, depth and volume, `offsets` are to the right, down and along the
/// depth.
///
/// PTX ISA, "cp.async.bulk.tensor", "im2col mode"; sm_90.
///
/// # Safety
/// As for [`load_5d_hint`]; the map is one in im2col mode.
#[inline(always)]
pub unsafe fn load_im2col_5d_hint(
    dst: u32,
    map: *const u8,
    at: [u32; 5],
    offsets: [u16; 3],
    bar: u32,
    policy: u64,
) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint \
                [{dst}], [{map}, {{{c0}, {c1}, {c2}, {c3}, {c4}}}], [{bar}], {{{o0}, {o1}, {o2}}}, {policy};",
            dst = in(reg32) dst, map = in(reg64) map, c0 = in(reg32) at[0], c1 = in(reg32) at[1],
            c2 = in(reg32) at[2], c3 = in(reg32) at[3], c4 = in(reg32) at[4], bar = in(reg32) bar,
            o0 = in(reg16) offsets[0], o1 = in(reg16) offsets[1], o2 = in(reg16) offsets[2],
            policy = in(reg64) policy)
    }
}

/// `prefetch.tensormap`: brings a tensor map near the TMA unit.
///
/// PTX ISA, "prefetch, prefetchu"; sm_90.
///
/// # Safety
/// `map` points to a tensor map in global, constant or parameter memory.
#[inline(always)]
pub unsafe fn prefetch_map(map: *const u8) {
    // SAFETY: the caller's.
    unsafe { ptx!("prefetch.tensormap [{0}];", in(reg64) map) }
}

/// `cp.async.bulk.shared::cluster.global`: loads `bytes` contiguous bytes.
///
/// PTX ISA, "cp.async.bulk"; sm_90.
///
/// # Safety
/// `dst`, `src` and `bytes` are multiples of 16, and the ranges exist; nobody uses `dst` until
/// `bar`, an initialised mbarrier that expects the bytes, completes.
#[inline(always)]
pub unsafe fn bulk_load(dst: u32, src: *const u8, bytes: u32, bar: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
            in(reg32) dst, in(reg64) src, in(reg32) bytes, in(reg32) bar)
    }
}

/// `cp.async.bulk.shared::cluster.shared::cta`: copies `bytes` contiguous bytes to another CTA of the cluster.
///
/// `dst` and `bar` are [`mapa`](super::shared::mapa) addresses of that CTA. PTX ISA, "cp.async.bulk"; sm_90.
///
/// # Safety
/// `dst`, `src` and `bytes` are multiples of 16, and the ranges exist; `src` was written as [`store_2d`] says, and nobody writes there, nor uses `dst`,
/// until `bar`, an initialised mbarrier that expects the bytes, completes.
#[inline(always)]
pub unsafe fn bulk_share(dst: u32, src: u32, bytes: u32, bar: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
            in(reg32) dst, in(reg32) src, in(reg32) bytes, in(reg32) bar)
    }
}

/// `cp.async.bulk.global.shared::cta`: stores `bytes` contiguous bytes.
///
/// PTX ISA, "cp.async.bulk"; sm_90.
///
/// # Safety
/// `dst`, `src` and `bytes` are multiples of 16, and the ranges exist; `src` was written as
/// [`store_2d`] says, and nobody writes there until [`bulk_wait_read`].
#[inline(always)]
pub unsafe fn bulk_store(dst: *mut u8, src: u32, bytes: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("cp.async.bulk.global.shared::cta.bulk_group [{0}], [{1}], {2};",
            in(reg64) dst, in(reg32) src, in(reg32) bytes)
    }
}

/// `cp.reduce.async.bulk.global.shared::cta.add.f32`: adds `bytes` contiguous bytes of f32, each number atomically.
///
/// PTX ISA, "cp.reduce.async.bulk"; sm_90.
///
/// # Safety
/// As for [`bulk_store`]; others that use the numbers meanwhile do so atomically.
#[inline(always)]
pub unsafe fn bulk_add_f32(dst: *mut f32, src: u32, bytes: u32) {
    // SAFETY: the caller's.
    unsafe {
        ptx!("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [{0}], [{1}], {2};",
            in(reg64) dst, in(reg32) src, in(reg32) bytes)
    }
}

/// `cp.async.bulk.commit_group`: closes the group of this thread's stores since the last one.
///
/// PTX ISA, "cp.async.bulk.commit_group"; sm_90.
///
/// # Safety
/// None beyond the target.
#[inline(always)]
pub unsafe fn bulk_commit() {
    // SAFETY: no operands.
    unsafe { ptx!("cp.async.bulk.commit_group;") }
}

/// `cp.async.bulk.wait_group.read`: waits until all but the last `N` groups have read shared memory.
///
/// PTX ISA, "cp.async.bulk.wait_group"; sm_90.
///
/// # Safety
/// Waits for the groups of the executing thread alone.
#[inline(always)]
pub unsafe fn bulk_wait_read<const N: u32>() {
    // SAFETY: no operands.
    unsafe { ptx!("cp.async.bulk.wait_group.read {0};", const N) }
}

/// `cp.async.bulk.wait_group`: waits until all but the last `N` groups are complete and visible.
///
/// PTX ISA, "cp.async.bulk.wait_group"; sm_90.
///
/// # Safety
/// Waits for the groups of the executing thread alone.
#[inline(always)]
pub unsafe fn bulk_wait<const N: u32>() {
    // SAFETY: no operands.
    unsafe { ptx!("cp.async.bulk.wait_group {0};", const N) }
}
