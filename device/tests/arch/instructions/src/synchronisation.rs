//! Barriers, fences and what waits.

use tilewright_device::arch::{mbarrier, shared, sync};

entries! { Sm80:
    barriers => |r, g| {
        sync::syncthreads();
        sync::sync_warp();
        sync::threadfence();
        sync::bar_sync(g.x, g.n);
        sync::bar_sync(1, 128);
        sync::bar_arrive(g.x, g.n);
        r.keep(u32::from(sync::bar_red_or(3, 128, g.x > 3)));
        sync::barrier_sync(2, 128);
    }
    mbarriers => |r, g| {
        mbarrier::init(g.shared, g.n * mbarrier::arrivals(32));
        mbarrier::arrive(g.shared);
        mbarrier::arrive_if(g.shared, mbarrier::arrives(g.x, 32));
        if mbarrier::test_wait(g.shared, g.x) {
            mbarrier::inval(g.shared);
        }
    }
    // Lanes part before and after a barrier that they must execute together.
    barrier_between_branches => |r, g| {
        let thread = tilewright_device::arch::special::thread_x();
        if thread < g.n {
            shared::store_u32(g.shared + thread * 4, g.x);
        }
        sync::syncthreads();
        if thread < g.n {
            r.keep(shared::load_u32(g.shared + 4 * (g.n - thread)));
        }
    }
    shuffle_between_branches => |r, g| {
        let thread = tilewright_device::arch::special::thread_x();
        let mut x = g.x;
        if thread < g.n {
            x = shared::load_u32(g.shared + thread * 4);
        }
        let y = tilewright_device::arch::warp::shfl_bfly_u32(x, 1);
        if thread < g.n {
            r.keep(y);
        }
    }
}

entries! { Sm90a:
    clusters => |r, g| {
        sync::cluster_arrive_relaxed();
        sync::cluster_wait();
        sync::cluster_arrive_release();
        sync::cluster_wait();
    }
    fences => |r, g| {
        sync::fence_proxy_async_shared();
        sync::fence_mbarrier_init();
    }
    dependent_launches => |r, g| {
        sync::griddep_launch_dependents();
        sync::griddep_wait();
    }
    register_reallocation => |r, g| {
        sync::setmaxnreg_dec::<sync::Registers<24>>();
        sync::setmaxnreg_inc::<sync::Registers<240>>();
    }
    transaction_barriers => |r, g| {
        mbarrier::expect_tx(g.shared, g.n);
        mbarrier::arrive_expect_tx(g.shared, g.n);
        mbarrier::arrive_remote(shared::mapa(g.shared, g.x));
        r.keep(mbarrier::try_wait(g.shared, g.x));
        mbarrier::wait(g.shared, g.x);
    }
}
