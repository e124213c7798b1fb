//! Instructions of registers, and those of a warp's lanes.

use core::mem::MaybeUninit;

use tilewright_device::arch::{cvt, declare, half, math, print, special, warp};

entries! { Sm80:
    special_registers => |r, g| {
        r.keep([special::thread_x(), special::thread_y(), special::thread_z()]);
        r.keep([special::block_x(), special::block_y(), special::block_z()]);
        r.keep([special::grid_x(), special::grid_y(), special::grid_z()]);
        r.keep([special::lane(), special::sm_id(), special::thread_x_volatile(), special::dynamic_shared_bytes()]);
        r.keep([special::clock64(), special::globaltimer()]);
        r.keep([special::block_x_volatile(), special::grid_x_volatile(), special::same_number(g.x)]);
        r.keep([declare::in_place(g.f.to_bits() as usize as *const u8) as u64]);
        r.keep([declare::late(g.n)]);
        // SAFETY: `%ntid.x` threads compute.
        unsafe { declare::computing_threads_are(declare::computing_threads()) };
        declare::takes_shared(1024);
        if g.x == 7 {
            special::trap()
        }
    }
    printing => |r, g| {
        // SAFETY: the format is the kernel's name, which names no arguments.
        r.keep(unsafe { print::vprintf(print::kernel_name(), g.from) });
    }
    conversions => |r, g| {
        let (half, brain) = (cvt::f32_to_f16(g.f), cvt::f32_to_bf16(g.f));
        r.keep(half);
        r.keep(brain);
        r.keep(cvt::f32_to_tf32(g.f));
        r.keep([cvt::f16_to_f32(half), cvt::bf16_to_f32(brain)]);
        r.keep(cvt::f16x2_to_f32(cvt::f16x2(g.f, 0.5)));
        r.keep(cvt::bf16x2_to_f32(cvt::bf16x2(g.f, 0.5)));
    }
    arithmetic => |r, g| {
        r.keep([math::ex2(g.f), math::lg2(g.f), math::rcp(g.f), math::rsqrt(g.f), math::sqrt(g.f), math::tanh(g.f)]);
        r.keep([math::max(g.f, 1.0), math::min(g.f, 1.0), math::max_nan(g.f, 1.0), math::min_nan(g.f, 1.0)]);
        r.keep(math::fma(g.f, g.f, 1.0));
        r.keep(math::mul_rn_f64(g.f as f64, 1.5) as f32);
        r.keep(math::ceil(g.f));
        r.keep([math::lop3::<0xEA>(g.x, g.n, 3), math::prmt(g.x, g.n, 0x5410)]);
        r.keep(math::dp4a(g.x, g.n, 3));
    }
    pairs_of_halves => |r, g| {
        r.keep([half::fma_f16x2(g.x, g.n, 3), half::fma_bf16x2(g.x, g.n, 3)]);
        r.keep([half::add_f16x2(g.x, g.n), half::mul_f16x2(g.x, g.n), half::sub_f16x2(g.x, g.n)]);
        r.keep(half::twice_f16x2(g.x as u16));
    }
    shuffles => |r, g| {
        r.keep([warp::shfl_bfly_u32(g.x, 1), warp::shfl_idx_u32(g.x, g.n)]);
        r.keep([warp::shfl_up_u32(g.x, 1), warp::shfl_down_u32(g.x, 1)]);
        r.keep([warp::shfl_bfly_f32(g.f, 1), warp::shfl_idx_f32(g.f, g.n)]);
        r.keep([warp::shfl_up_f32(g.f, 1), warp::shfl_down_f32(g.f, 1)]);
        r.keep(warp::shfl_bfly_word(MaybeUninit::new(g.f), 1).assume_init());
        r.keep(warp::shfl_up_word(MaybeUninit::new(g.f), 1).assume_init());
        r.keep(warp::shfl_idx_word(MaybeUninit::new(g.f), g.n).assume_init());
        r.keep(warp::movmatrix_trans(g.x));
        r.keep(warp::uniform(g.x));
        r.keep(warp::touch(g.f));
    }
    warp_reductions => |r, g| {
        r.keep([warp::redux_add_u32(g.x), warp::redux_max_u32(g.x), warp::redux_min_u32(g.x)]);
        r.keep([warp::vote_any(g.x > 3), warp::vote_all(g.x > 3)]);
        r.keep(warp::vote_ballot(g.x > 3));
    }
}

entries! { Sm90a:
    cluster_registers => |r, g| {
        r.keep([special::cluster_rank(), special::cluster_size()]);
    }
    conversions_of_8_bits => |r, g| {
        r.keep([cvt::e4m3x2_to_f16x2(cvt::e4m3x2(g.f, 0.5)), cvt::e4m3x4([g.f, 0.5, 1.0, 2.0])]);
        r.keep(cvt::e5m2x2_to_f16x2(cvt::e5m2x2(g.f, 0.5)));
    }
    election => |r, g| {
        if warp::elect_one() {
            r.keep(1u32);
        }
    }
}
