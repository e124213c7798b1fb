//! The TMA unit's copies, as functions of a rank and as methods of coordinates.

use tilewright_device::arch::tma::{self, Coords, EVICT_FIRST, EVICT_LAST, EVICT_NORMAL};

macro_rules! ranks {
    ($($functions:ident $methods:ident: [$($at:ident)*],
        $load:ident $load_hint:ident $load_multicast:ident $load_multicast_hint:ident
        $store:ident $reduce_add:ident $prefetch_l2:ident;)*) => {
        entries! { Sm90a: $(
            $functions => |r, g| {
                let at = [$(g.$at),*];
                tma::$load(g.shared, g.from, at, g.shared + 1024);
                tma::$load_hint(g.shared, g.from, at, g.shared + 1024, EVICT_FIRST);
                tma::$load_multicast(g.shared, g.from, at, g.shared + 1024, 3);
                tma::$load_multicast_hint(g.shared, g.from, at, g.shared + 1024, 3, EVICT_LAST);
                tma::$store(g.from, at, g.shared);
                tma::$reduce_add(g.from, at, g.shared);
                tma::$prefetch_l2(g.from, at);
            }
            $methods => |r, g| {
                let at = [$(g.$at),*];
                at.load(g.shared, g.from, g.shared + 1024);
                at.load_hint(g.shared, g.from, g.shared + 1024, EVICT_NORMAL);
                at.load_multicast(g.shared, g.from, g.shared + 1024, 3);
                at.load_multicast_hint(g.shared, g.from, g.shared + 1024, 3, EVICT_NORMAL);
                at.store(g.from, g.shared);
                at.reduce_add(g.from, g.shared);
                at.prefetch_l2(g.from);
            }
        )* }
    };
}
ranks! {
    tma_2d coords_2d: [x n],
        load_2d load_2d_hint load_2d_multicast load_2d_multicast_hint store_2d reduce_add_2d prefetch_l2_2d;
    tma_3d coords_3d: [x n x],
        load_3d load_3d_hint load_3d_multicast load_3d_multicast_hint store_3d reduce_add_3d prefetch_l2_3d;
    tma_4d coords_4d: [x n x n],
        load_4d load_4d_hint load_4d_multicast load_4d_multicast_hint store_4d reduce_add_4d prefetch_l2_4d;
    tma_5d coords_5d: [x n x n x],
        load_5d load_5d_hint load_5d_multicast load_5d_multicast_hint store_5d reduce_add_5d prefetch_l2_5d;
}

entries! { Sm90a:
    im2col => |r, g| {
        tma::load_im2col_4d_hint(g.shared, g.from, [g.x, g.n, g.x, g.n], [1, g.n as u16], g.shared + 1024, EVICT_LAST);
        tma::load_im2col_5d_hint(g.shared, g.from, [g.x, g.n, g.x, g.n, g.x], [1, 2, g.n as u16], g.shared + 1024, EVICT_LAST);
    }
    bulk => |r, g| {
        tma::prefetch_map(g.from);
        tma::bulk_load(g.shared, g.from, g.n, g.shared + 1024);
        tma::bulk_share(g.shared, g.shared + 512, g.n, g.shared + 1024);
        tma::bulk_store(g.to, g.shared, g.n);
        tma::bulk_add_f32(g.to.cast(), g.shared, g.n);
        tma::bulk_commit();
        tma::bulk_wait_read::<0>();
        tma::bulk_wait_read::<3>();
        tma::bulk_wait::<1>();
    }
}
