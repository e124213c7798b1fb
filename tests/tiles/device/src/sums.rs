//! Sums: by atomic additions to global memory, of packed pairs, of several accumulators at a time; and the barrier of a CTA.

use tilewright_device::arch::special::thread_x;
use tilewright_device::tile::{
    Arithmetic, AtomicAdd, Cta, Elements, Fragment, FragmentLayout, FullCol, FullRow, Gemm, Global,
    GlobalMut, Multistage, OneConsumer, Overlapped, Pending, Program, RowMajor, Schedule, Shared, Simt,
    Striped, Swizzle, Threads, TwoConsumers, TwoConsumersThreeProducers, WarpSpecialized, atomic_add,
    block_x, block_y, copy, gemm, warp,
};
use tilewright_device::{bf16, f16, kernel, kernels};

use crate::copies::named;

/// Rows of a tile.
pub const ROWS: usize = 32;
/// Columns of a tile.
pub const COLS: usize = 64;
/// Rows of `by_row`: row r of x is added to row r modulo this, one in so many to none.
pub const LINES: u32 = 5;

/// y += the tiles of x that lie below each other; `by_row` += rows of x.
#[kernel(program = P, expects(x.cols() == y.cols(), x.cols() == by_row.cols()))]
pub fn added<P: Program, T: AtomicAdd, L: FragmentLayout<ROWS, COLS>>(
    x: Global<T, 2>,
    mut y: GlobalMut<T, 2>,
    mut by_row: GlobalMut<T, 2>,
) {
    let x = Fragment::<T, ROWS, COLS, L>::load(x.tile([block_x(), block_y()]));
    atomic_add(x, y.tile([0, block_y()]));
    let line = |r: u32| {
        let row = (block_x() * ROWS as u32 + r) % LINES;
        (row + 1 < LINES).then_some([row, block_y() * COLS as u32])
    };
    atomic_add(x, by_row.scatter(line));
}

/// Sum, difference, product, a b + a and 0.75 a of a and b \[rows, columns\]: one below the other.
#[kernel(threads = <L as FragmentLayout<M, N>>::THREADS, expects(a.rows() == M as u32, a.shape() == b.shape()))]
pub fn arithmetic<T: Arithmetic, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    a: Global<T, 2>,
    b: Global<T, 2>,
    mut y: GlobalMut<T, 2>,
) {
    let load = |x: Global<T, 2>| Fragment::<T, M, N, L>::load(x.tile([0, block_x()]));
    let (a, b) = (load(a), load(b));
    copy(a + b, y.tile([0, block_x()]));
    copy(a - b, y.tile([1, block_x()]));
    copy(a * b, y.tile([2, block_x()]));
    copy(a.mul_add(b, a), y.tile([3, block_x()]));
    copy(a * T::from_f32x2(0.75, 0.0)[0], y.tile([4, block_x()]));
}

/// Columns of C: four accumulators of 64.
pub const WIDE: usize = 256;

/// C = A B, all columns of which one CTA has.
#[kernel(program = P, expects(a.cols() == b.rows(), c.cols() == WIDE as u32))]
pub fn wide_product<P: Schedule, Y: Gemm<f16, 64, 64, 64, B = Swizzle<128>>>(
    mut cta: Cta<P>,
    a: Global<f16, 2>,
    b: Global<f16, 2>,
    mut c: GlobalMut<f32, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 64, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, WIDE, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let zero = Fragment::<f32, 64, 64, _>::zero();
    let (p, q, r, s) = pipe.run(
        0..a.cols().div_ceil(64),
        (zero, zero, zero, zero),
        #[inline(always)]
        |s, k| {
            copy(a.tile([block_x(), k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
        },
        #[inline(always)]
        |(p, q, r, t), s, _| {
            let b = b_s.at(s);
            (
                gemm(Y::default(), a_s.at(s), b.columns::<0, 64>(), p),
                gemm(Y::default(), a_s.at(s), b.columns::<64, 64>(), q),
                gemm(Y::default(), a_s.at(s), b.columns::<128, 64>(), r),
                gemm(Y::default(), a_s.at(s), b.columns::<192, 64>(), t),
            )
        },
    );
    copy(p, c.tile([block_x(), 0]));
    copy(q, c.tile([block_x(), 1]));
    copy(r, c.tile([block_x(), 2]));
    copy(s, c.tile([block_x(), 3]));
}

/// y = the sum of x's tiles of 64 columns, taken one by one from a ring of `STAGES` stages.
#[kernel(program = P, expects(x.rows() == y.rows(), y.cols() == 64))]
pub fn summed<P: Schedule, L: FragmentLayout<64, 64>, const STAGES: usize>(
    mut cta: Cta<P>,
    x: Global<f16, 2>,
    mut y: GlobalMut<f32, 2>,
) {
    let stages = cta.stages::<STAGES>();
    let x_s = stages.alloc::<Shared<f16, 64, 64, Swizzle<128>>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let count = x.cols().div_ceil(64);
    let mut tiles = pipe.loads(
        0..count,
        #[inline(always)]
        |s, k| copy(x.tile([block_x(), k]), x_s.at(s)),
    );
    if !cta.computes() {
        return;
    }
    let (mut sum, mut k) = (Fragment::<f32, 64, 64, L>::zero(), 0);
    while k < count {
        let full = tiles.acquire();
        let tile = Fragment::<f16, 64, 64, L>::load(x_s.at(full.full()));
        sum = sum + tile.to_f32();
        tiles.release(full);
        k += 1;
    }
    copy(sum, y.tile([block_x(), 0]));
}

/// Adds the tiles of x that lie below each other, each in the order of its registers, to \[tiles of columns, elements\].
#[kernel(program = WarpSpecialized<TwoConsumersThreeProducers>, expects(sums.cols() == (ROWS_OF_FOURS * COLS) as u32))]
pub fn added_in_fours(
    mut cta: Cta<WarpSpecialized<TwoConsumersThreeProducers>>,
    x: Global<f32, 2, RowMajor, 0>,
    sums: GlobalMut<f32, 2, RowMajor, 0>,
) {
    let mut room = cta.block_sums::<ROWS_OF_FOURS, COLS, FullRow<2>>();
    if block_y() >= sums.rows() {
        return;
    }
    if !cta.computes() {
        let row = sums.reader().pointer().cast_mut().wrapping_add(block_y() as usize * ROWS_OF_FOURS * COLS);
        // SAFETY: a line of as many elements, which CTAs add to alone.
        return unsafe { room.add::<1>(&cta, 1, || (row, None)) };
    }
    let x = Fragment::<f32, ROWS_OF_FOURS, COLS, FullRow<2>>::load(x.tile([block_x(), block_y()]));
    // SAFETY: the only one.
    unsafe { room.put(x, 0) };
}

/// Rows of a tile that is added in the order of its registers.
pub const ROWS_OF_FOURS: usize = 128;

/// y = those sums, where their tiles lie.
#[kernel(program = Simt<8>, expects(sums.cols() == (ROWS_OF_FOURS * COLS) as u32, y.rows() <= ROWS_OF_FOURS as u32))]
pub fn sums_of_fours(sums: Global<f32, 2, RowMajor, 0>, mut y: GlobalMut<f32, 2>) {
    if block_x() >= sums.rows() {
        return;
    }
    let row = sums.pointer().wrapping_add(block_x() as usize * ROWS_OF_FOURS * COLS);
    // SAFETY: a line of as many elements.
    let sum = unsafe { Fragment::<f32, ROWS_OF_FOURS, COLS, FullRow<2>>::of_sums(row) };
    copy(sum, y.tile([0, block_x()]));
}

/// C = Aᵀ B of \[depth, 64\] and \[depth, 128\], 128 rows of each at a time; A goes from registers through one of two tiles.
#[kernel(program = WarpSpecialized<TwoConsumers>, expects(a.rows() == b.rows(), a.cols() == 64, b.cols() == 128))]
pub fn through_a_pair(
    mut cta: Cta<WarpSpecialized<TwoConsumers>>,
    a: Global<f16, 2, RowMajor, 0>,
    b: Global<f16, 2>,
    mut c: GlobalMut<f32, 2>,
) {
    let mut pair = cta.scratch_pair::<Shared<f16, 128, 64, Swizzle<128>>>();
    let stages = cta.stages::<2>();
    let b_s = stages.alloc::<Shared<f16, 128, 128, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let count = b.rows().div_ceil(128);
    let mut loads = pipe.loads(
        0..count,
        #[inline(always)]
        |s, k| copy(b.tile([k, 0]), b_s.at(s)),
    );
    if !cta.computes() {
        return;
    }
    let (mut sum, mut k) = (Fragment::<f32, 64, 128, FullCol<2>>::zero(), 0);
    while k < count {
        let x = Fragment::<f16, 128, 64, FullRow<2>>::load(a.tile([k, 0]));
        let turn = loads.acquire();
        // SAFETY: the gemm that reads it is waited for here.
        let x = unsafe { pair.put(x.operand().unpacked()) };
        let b = b_s.at(turn.full()).aligned();
        sum = gemm(FullCol::<2>::default(), x.aligned().t(), b, sum).wait();
        loads.release_read(turn);
        k += 1;
    }
    copy(sum, c.tile([0, 0]));
}

/// Threads of a CTA that turns its numbers round.
pub const THREADS: u32 = 128;

/// y = x \[CTAs, threads\], and z = y with each CTA's numbers in the opposite order, which other threads wrote.
#[kernel(program = Simt<4>, expects(x.cols() == THREADS, x.shape() == y.shape(), x.shape() == z.shape()))]
pub fn turned_round(
    cta: Cta<Simt<4>>,
    x: Global<i32, 2>,
    mut y: GlobalMut<i32, 2>,
    mut z: GlobalMut<i32, 2>,
) {
    let (row, thread) = (block_x(), thread_x());
    y.tile([row, thread]).put::<1, 1>(0, 0, x.tile([row, thread]).element::<1, 1>(0, 0));
    cta.barrier();
    z.tile([row, thread]).put::<1, 1>(0, 0, y.read([row, THREADS - 1 - thread]).element::<1, 1>(0, 0));
}

named! {
    sm_80 AddedF32 = added<Simt<4>, f32, Striped<4>>;
    sm_80 AddedF16 = added<Simt<4>, f16, Striped<4>>;
    sm_80 AddedI32 = added<Simt<4>, i32, warp::Square<2, 2>>;
    sm_90 AddedBf16 = added<Overlapped<2>, bf16, warp::FullRow<2>>;

    sm_80 ArithmeticF16 = arithmetic<f16, Striped<4>, 32, 64>;
    sm_80 ArithmeticBf16 = arithmetic<bf16, Striped<4>, 32, 64>;
    sm_80 ArithmeticOfSingles = arithmetic<f16, Threads<32, 8>, 32, 8>;

    sm_80 SummedByOneStage = summed<Multistage<4>, Striped<4>, 1>;
    sm_80 SummedByStages = summed<Multistage<4, Elements>, Striped<4>, 3>;
    sm_90 SummedByOneProducer = summed<WarpSpecialized<OneConsumer>, Striped<4>, 1>;

    sm_80 WideWarps = wide_product<Multistage<4>, warp::FullRow<4>>;
    sm_90 WideWarpgroup = wide_product<WarpSpecialized<OneConsumer>, FullRow<1>>;
}
