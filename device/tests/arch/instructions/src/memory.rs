//! Loads, stores and atomic operations.

use tilewright_device::arch::{atomic, cp_async, declare, global, shared, tma};

entries! { Sm80:
    shared_words => |r, g| {
        shared::store_u16(g.shared, shared::load_u16(g.shared + 64));
        shared::store_u32(g.shared, shared::load_u32(g.shared + 64));
        shared::store_f32(g.shared, shared::load_f32(g.shared + 64));
        shared::store_u32(shared::dynamic_shared_volatile(), g.x);
    }
    shared_vectors => |r, g| {
        shared::store_u32x2(g.shared, shared::load_u32x2(g.shared + 64));
        shared::store_u32x4(g.shared, shared::load_u32x4(g.shared + 64));
        shared::store_f32x2(g.shared, shared::load_f32x2(g.shared + 64));
        shared::store_f32x4(g.shared, shared::load_f32x4(g.shared + 64));
    }
    global_words => |r, g| {
        global::st_global_u8(g.to, global::ld_global_u8(g.from));
        global::st_global_u16(g.to.cast(), global::ld_global_u16(g.from.cast()));
        global::st_global_u32(g.to.cast(), global::ld_global_u32(g.from.cast()));
        r.keep(global::ld_global_nc_u8(g.from));
        r.keep(global::ld_global_nc_u16(g.from.cast()));
        r.keep(global::ld_global_nc_u32(g.from.cast()));
    }
    global_vectors => |r, g| {
        global::st_global_u32x2(g.to.cast(), global::ld_global_u32x2(g.from.cast()));
        global::st_global_u32x4(g.to.cast(), global::ld_global_u32x4(g.from.cast()));
        r.keep(global::ld_global_nc_u32x2(g.from.cast()));
        r.keep(global::ld_global_nc_u32x4(g.from.cast()));
        r.keep(global::ld_global_nc_u32x4_once(g.from.cast()));
    }
    global_with_policies => |r, g| {
        let words = global::ld_global_u32x4_hint(g.from.cast(), tma::EVICT_FIRST);
        global::st_global_u32x4_hint(g.to.cast(), words, tma::EVICT_LAST);
        r.keep(global::ld_global_nc_u32x4_hint(g.from.cast(), tma::EVICT_NORMAL));
    }
    global_ahead => |_r, g| {
        global::prefetch_l2(g.from as u64);
    }
    global_guarded => |r, g| {
        global::st_global_u8_if(g.to, g.x as u8, g.x > 2);
        global::st_global_u16_if(g.to.cast(), global::ld_global_u16_if(g.from.cast(), g.x > 1), g.x > 2);
        global::st_global_u32_if(g.to.cast(), global::ld_global_u32_if(g.from.cast(), g.x > 1), g.x > 2);
        global::st_global_u32x4_if(g.to.cast(), [g.x; 4], g.x > 2);
    }
    global_replacing => |r, g| {
        let (from, mut half, mut words) = (g.from as u64, [g.x as u16], [g.x, g.n, g.x, g.n]);
        global::replace_u16(&mut half, 0, from, g.x > 1);
        global::replace_u32(&mut words, 3, from, g.x > 2);
        global::replace_u32x2(&mut words, 1, from, g.x > 3);
        r.keep(words);
        global::replace_u32x4(&mut words, 0, from, g.x > 4);
        r.keep(words);
        global::replace_fresh_u32x4(&mut words, 0, from, g.x > 5);
        r.keep(words);
        global::replace_cached_u32x4(&mut words, 0, from, g.x > 6);
        r.keep(words);
        r.keep(half[0]);
    }
    atomics => |r, g| {
        let at: *mut u32 = g.to.cast();
        atomic::red_add_f32(at.cast(), g.f);
        atomic::red_add_u32(at, g.x);
        atomic::red_release_add_u32(at, g.x);
        r.keep([atomic::atom_add_u32(at, g.x), atomic::atom_acq_rel_add_u32(at, g.x), atomic::atom_cas(at, g.x, g.n)]);
        atomic::red_add_f32_if(at.cast(), g.f, g.x > 1);
        atomic::red_add_u32_if(at, g.x, g.x > 2);
        atomic::red_max_i32_if(at.cast(), g.x as i32, g.x > 2);
        atomic::red_add_f16_if(at.cast(), g.x as u16, g.x > 3);
        atomic::red_add_f16x2_if(at, g.x, g.x > 4);
        r.keep(atomic::ld_acquire(at));
        atomic::st_release(at, g.x);
        let wide = atomic::ld_acquire_u64(at.cast());
        r.keep([wide as u32, (wide >> 32) as u32]);
        atomic::st_release_u64(at.cast(), wide);
        atomic::st_relaxed_u64(at.cast(), wide);
    }
    shared_atomics => |r, g| {
        atomic::red_shared_add_u32(g.shared, g.x);
        r.keep(atomic::atom_shared_add_u32(g.shared + 4, g.x));
    }
    asynchronous_copies => |r, g| {
        cp_async::copy16(g.shared, g.from, g.n);
        cp_async::copy16(g.shared, g.from, 16);
        cp_async::copy8(g.shared, g.from, g.n);
        cp_async::copy4(g.shared, g.from, g.n);
        cp_async::copy16_if(g.shared, g.from, g.n == 1);
        cp_async::mbarrier_arrive_noinc_if(g.shared, g.n == 0);
        cp_async::commit();
        cp_async::wait::<5>();
        cp_async::wait_all();
    }
    a_second_declaration => |r, g| {
        declare::declare::<128, 2, 1, 1, 1, 0, true>();
    }
}

entries! { Sm90a:
    atomics_of_bf16 => |r, g| {
        atomic::red_add_bf16_if(g.to.cast(), g.x as u16, g.x > 1);
        atomic::red_add_bf16x2_if(g.to.cast(), g.x, g.x > 2);
    }
    cluster_words => |r, g| {
        let other = shared::mapa(g.shared, g.x);
        shared::store_cluster_u32(other, shared::load_cluster_u32(other));
        shared::store_cluster_f32(other, shared::load_cluster_f32(other));
        shared::store_word(g.shared, shared::load_word(g.shared));
    }
    cluster_vectors => |r, g| {
        let other = shared::mapa(g.shared, g.x);
        shared::store_cluster_u32x2(other, [g.x, g.n]);
        shared::store_cluster_u32x4(other, shared::load_cluster_u32x4(other));
        shared::store_cluster_f32x2(other, shared::load_cluster_f32x2(other));
        shared::store_cluster_f32x4(other, shared::load_cluster_f32x4(other));
    }
    asynchronous_stores => |r, g| {
        let other = shared::mapa(g.shared, g.x);
        shared::st_async_f32x2(other, [g.f; 2], other + 64);
        shared::st_async_f32x4(other, [g.f; 4], other + 64);
        shared::st_async_word(other, shared::load_word(g.shared), other + 64);
    }
}
