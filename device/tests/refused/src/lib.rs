//! What compiles and would be silently wrong: the builder refuses each of these kernels, and says why.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(missing_docs)]

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::*;

type Tile = Shared<f16, 64, 64, Swizzle<128>, RowMajor>;

/// Two rings of as many stages: K's tile is asked for in V's stage.
#[kernel(program = Multistage<4>)]
pub fn ring_of_another_pipeline(
    mut cta: Cta<Multistage<4>>,
    k: Global<f16, 2>,
    v: Global<f16, 2>,
    mut o: GlobalMut<f16, 2>,
) {
    let (k_stages, v_stages) = (cta.stages::<2>(), cta.stages::<2>());
    let k_s = k_stages.alloc::<Tile>(&mut cta);
    let v_s = v_stages.alloc::<Tile>(&mut cta);
    let (mut k_pipe, mut v_pipe) = (cta.pipeline(k_stages), cta.pipeline(v_stages));
    let mut ks = k_pipe.loads(0..4, |s, i| copy(k.tile([i, 0]), k_s.at(s)));
    let mut vs = v_pipe.loads(0..4, |s, i| copy(v.tile([i, 0]), v_s.at(s)));
    for i in 0..4 {
        let (k, v) = (ks.acquire(), vs.acquire());
        copy(Fragment::<f16, 64, 64, Striped<4>>::load(k_s.at(v.full())), o.tile([i, 0]));
        ks.release(k);
        vs.release(v);
    }
}

/// Lines of K's ring are made zeros by V's stages, whose pipeline opens behind that, and K's does not.
#[kernel(program = WarpSpecialized<OneConsumer>)]
pub fn zeros_in_a_ring_of_other_stages(mut cta: Cta<WarpSpecialized<OneConsumer>>, first: u32) {
    let (k_stages, v_stages) = (cta.stages::<2>(), cta.stages::<2>());
    let k_s = k_stages.alloc::<Tile>(&mut cta);
    v_stages.zero_lines(&mut cta, &k_s, first);
    let _pipes = (cta.pipeline(k_stages), cta.pipeline(v_stages));
}

/// The producer takes stages too, and waits for ever.
#[kernel(program = WarpSpecialized<OneConsumer>)]
pub fn stage_taken_by_the_producer(
    mut cta: Cta<WarpSpecialized<OneConsumer>>,
    a: Global<f16, 2>,
    mut o: GlobalMut<f16, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Tile>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let mut tiles = pipe.loads(0..4, |s, i| copy(a.tile([i, 0]), a_s.at(s)));
    for i in 0..4 {
        let tile = tiles.acquire();
        copy(Fragment::<f16, 64, 64, Striped<4>>::load(a_s.at(tile.full())), o.tile([i, 0]));
        tiles.release(tile);
    }
}

/// Rows over four warps, of which two are there.
#[kernel(program = Simt<2>)]
pub fn rows_of_more_warps_than_the_program(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>) {
    copy(Fragment::<f32, 64, 64, Striped<4>>::load(x.tile([0, 0])), y.tile([0, 0]));
}

/// The same, where threads are counted by hand.
#[kernel(threads = 64)]
pub fn rows_of_more_warps_than_threads(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>) {
    copy(Fragment::<f32, 64, 64, Striped<4>>::load(x.tile([0, 0])), y.tile([0, 0]));
}

/// A gemm over two warpgroups, of which one computes.
#[kernel(program = WarpSpecialized<OneConsumer>)]
pub fn policy_of_more_warps_than_compute(
    mut cta: Cta<WarpSpecialized<OneConsumer>>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f32, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 128, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let mut tiles = pipe.loads(0..1, |s, k| {
        copy(a.tile([0, k]), a_s.at(s));
        copy(b.tile([k, 0]), b_s.at(s));
    });
    if !cta.computes() {
        return;
    }
    let tile = tiles.acquire();
    let acc = gemm(FullRow::<2>::default(), a_s.at(tile.full()), b_s.at(tile.full()), Fresh::new()).wait();
    tiles.release(tile);
    copy(acc, c.tile([0, 0]));
}

/// Numbers of 8 bits are rounded as an output stores them; a fragment of them would be stored as words.
#[kernel(program = Simt<4>)]
pub fn bytes_copied_as_a_fragment(x: Global<f32, 2>, mut y: GlobalMut<F8E4M3, 2>) {
    let x = Fragment::<f32, 64, 64, Striped<4>>::load(x.tile([0, 0]));
    copy(x.cast::<F8E4M3>(), y.tile([0, 0]));
}

/// The same of an output, whose staging is made for units of 16 and 32 bits: by warps.
#[kernel(program = Simt<4>)]
pub fn bytes_stored_by_warps(mut cta: Cta<Simt<4>>, x: Global<f32, 2>, mut y: GlobalMut<F8E4M3, 2>) {
    let mut out = cta.output::<F8E4M3, 64, 64, warp::Square<2, 2>>();
    let x = Fragment::<f32, 64, 64, warp::Square<2, 2>>::load(x.tile([0, 0]));
    out.store(x.cast::<F8E4M3>(), y.tile([0, 0]));
}

/// By warpgroups, which TMA stores for.
#[kernel(program = WarpSpecialized<OneConsumer>)]
pub fn bytes_stored_by_warpgroups(
    mut cta: Cta<WarpSpecialized<OneConsumer>>,
    x: Global<f32, 2>,
    mut y: GlobalMut<F8E4M3, 2>,
) {
    let mut out = cta.output::<F8E4M3, 64, 64, FullRow<1>>();
    if cta.computes() {
        let x = Fragment::<f32, 64, 64, FullRow<1>>::load(x.tile([0, 0]));
        out.store(x.cast::<F8E4M3>(), y.tile([0, 0]));
    }
}

/// A column-major output goes from registers to memory.
#[kernel(program = Simt<4>)]
pub fn bytes_stored_by_columns(
    mut cta: Cta<Simt<4>>,
    x: Global<f32, 2>,
    mut y: GlobalMut<F8E4M3, 2, ColMajor>,
) {
    let mut out = cta.output::<F8E4M3, 64, 64, warp::Square<2, 2>>();
    let x = Fragment::<f32, 64, 64, warp::Square<2, 2>>::load(x.tile([0, 0]));
    out.store(x.cast::<F8E4M3>(), y.tile([0, 0]));
}

/// A third part of a tile that has two.
#[kernel(program = Multistage<4>)]
pub fn part_beyond_the_depth(mut cta: Cta<Multistage<4>>, a: Global<f16, 2>, mut o: GlobalMut<f16, 2>) {
    let stages = cta.stages::<1>();
    let a_s = stages.alloc::<Shared<f16, 64, 128, Swizzle<128>, RowMajor>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let mut tiles = pipe.loads(0..1, |s, k| copy(a.tile([0, k]), a_s.at(s)));
    let tile = tiles.acquire();
    let third = a_s.at(tile.full()).span::<64>(Part::new(2, 3));
    copy(Fragment::<f16, 64, 64, Striped<4>>::load(third), o.tile([0, 0]));
    tiles.release(tile);
}

/// The left half of the columns, which two of four warps hold.
#[kernel(program = Simt<4>)]
pub fn columns_of_other_warps(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>) {
    let x = Fragment::<f32, 64, 64, warp::Square<2, 2>>::load(x.tile([0, 0]));
    copy(x.columns::<0, 32>(), y.tile([0, 0]));
}

/// A register that only the launch knows the number of.
#[kernel(program = Simt<4>, local = true)]
pub fn register_not_known(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>, register: u32) {
    let x = Fragment::<f32, 64, 64, Striped<4>>::load(x.tile([0, 0]));
    let one = x.regs.get(register as usize);
    copy(x.map(|x| x - one), y.tile([0, 0]));
}

/// The conversion of `half`'s own type, by name.
#[kernel(program = Simt<4>)]
pub fn widened_by_half(x: Global<f16, 2>, mut y: GlobalMut<f32, 2>) {
    let x = Fragment::<f16, 64, 64, Striped<4>>::load(x.tile([0, 0]));
    copy(x.map(|x| x.to_f32()), y.tile([0, 0]));
}

/// Arithmetic of `half`'s type, which goes through `f32`.
#[kernel(program = Simt<4>)]
pub fn doubled_by_half(x: Global<bf16, 2>, mut y: GlobalMut<bf16, 2>) {
    let x = Fragment::<bf16, 64, 64, Striped<4>>::load(x.tile([0, 0]));
    copy(x.map(|x| x + x), y.tile([0, 0]));
}

/// Ampere has no atomic addition of bf16.
#[kernel(program = Simt<4>)]
pub fn bf16_added_before_hopper(x: Global<bf16, 2>, mut y: GlobalMut<bf16, 2>) {
    atomic_add(Fragment::<bf16, 64, 64, Striped<4>>::load(x.tile([0, 0])), y.tile([0, 0]));
}
