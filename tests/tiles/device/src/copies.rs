//! Copies: every output is its input, or its transpose.

use tilewright_device::tile::{
    ColMajor, Cta, Element, Fragment, FragmentLayout, FullCol, FullRow, Global, GlobalMut, Linear, Major,
    Multistage, OneConsumer, Padded, RowMajor, Schedule, Shared, SharedLayout, Striped, Swizzle,
    TwoConsumers, WarpSpecialized, block_x, block_y, copy, warp,
};
use tilewright_device::{bf16, f16, kernel, kernels};

/// Rows of a tile.
pub const M: usize = 64;
/// Columns of a tile.
pub const N: usize = 128;

/// y = x, through registers laid out by `L`.
#[kernel(
    threads = <L as FragmentLayout<M, N>>::THREADS,
    expects(x.shape() == y.shape()),
)]
pub fn through_registers<T: Element, OX: Major, OY: Major, L: FragmentLayout<M, N>>(
    x: Global<T, 3, OX>,
    mut y: GlobalMut<T, 3, OY>,
    batch: u32,
) {
    let place = [batch, block_x(), block_y()];
    copy(Fragment::<T, M, N, L>::load(x.tile(place)), y.tile(place));
}

/// y = 3 y, by sums of y and what was stored last, with no barrier between reads and stores: each thread has the same elements in all of them.
#[kernel(threads = <L as FragmentLayout<M, N>>::THREADS)]
pub fn in_place<L: FragmentLayout<M, N>>(mut y: GlobalMut<f16, 2>) {
    let place = [block_x(), block_y()];
    let once = Fragment::<f16, M, N, L>::load(y.reader().tile(place)).to_f32();
    let mut turn = 0;
    while turn < 2 {
        let last = Fragment::<f16, M, N, L>::load(y.reader().tile(place)).to_f32();
        copy(last.zip(&once, |last, once| last + once).cast::<f16>(), y.tile(place));
        turn += 1;
    }
}

/// y = x, from registers laid out by `A` through shared memory laid out by `S` to registers laid out by `B`; twice,
/// the second time over what the first left behind.
#[kernel(program = P)]
pub fn through_scratch<P: Schedule, T: Element, S: SharedLayout, O: Major, A, B>(
    mut cta: Cta<P>,
    x: Global<T, 2, RowMajor, 0>,
    mut y: GlobalMut<T, 2>,
) where
    A: FragmentLayout<M, N>,
    B: FragmentLayout<M, N>,
{
    let mut tile_s = cta.scratch::<Shared<T, M, N, S, O>>();
    let mut turn = 0;
    while turn < 2 {
        let place = [block_x(), 2 * block_y() + turn];
        copy(Fragment::<T, M, N, A>::load(x.tile(place)), &mut tile_s);
        copy(Fragment::<T, M, N, B>::load(tile_s.full()), y.tile(place));
        turn += 1;
    }
}

/// y = xᵀ, through shared memory.
#[kernel(program = P)]
pub fn transposed<P: Schedule, T: Element, S: SharedLayout, A, B>(
    mut cta: Cta<P>,
    x: Global<T, 2, RowMajor, 0>,
    mut y: GlobalMut<T, 2>,
) where
    A: FragmentLayout<M, N>,
    B: FragmentLayout<N, M>,
{
    let mut tile_s = cta.scratch::<Shared<T, M, N, S>>();
    copy(Fragment::<T, M, N, A>::load(x.tile([block_x(), block_y()])), &mut tile_s);
    copy(Fragment::<T, N, M, B>::load(tile_s.full().t()), y.tile([block_y(), block_x()]));
}

/// y = xᵀ, through shared memory, from which it comes in matrices.
#[kernel(program = P)]
pub fn transposed_in_matrices<P: Schedule, T: Element, S: SharedLayout, A, B>(
    mut cta: Cta<P>,
    x: Global<T, 2, RowMajor, 0>,
    mut y: GlobalMut<T, 2>,
) where
    A: FragmentLayout<M, N>,
    B: FragmentLayout<N, M>,
{
    let mut tile_s = cta.scratch::<Shared<T, M, N, S>>();
    copy(Fragment::<T, M, N, A>::load(x.tile([block_x(), block_y()])), &mut tile_s);
    copy(Fragment::<T, N, M, B>::load_matrices(tile_s.full().t()), y.tile([block_y(), block_x()]));
}

/// y = x, through shared memory, to which it goes in matrices.
#[kernel(program = P)]
pub fn through_matrices<P: Schedule, T: Element, S: SharedLayout, A, B>(
    mut cta: Cta<P>,
    x: Global<T, 2, RowMajor, 0>,
    mut y: GlobalMut<T, 2>,
) where
    A: FragmentLayout<M, N>,
    B: FragmentLayout<M, N>,
{
    let mut tile_s = cta.scratch::<Shared<T, M, N, S>>();
    let mut turn = 0;
    while turn < 2 {
        let place = [block_x(), 2 * block_y() + turn];
        Fragment::<T, M, N, A>::load(x.tile(place)).copy_matrices(&mut tile_s);
        copy(Fragment::<T, M, N, B>::load(tile_s.full()), y.tile(place));
        turn += 1;
    }
}

/// Names of instances, as types and as entry points.
macro_rules! named {
    ($($sm:ident $name:ident = $kernel:ty;)*) => {
        $(
            #[doc = concat!("The kernel `", stringify!($name), "`.")]
            pub type $name = $kernel;
        )*
        kernels! { $($sm: $name: $name;)* }
    };
}
pub(crate) use named;

named! {
    sm_80 F16Striped = through_registers<f16, RowMajor, RowMajor, Striped<4>>;
    sm_80 F32Striped = through_registers<f32, RowMajor, RowMajor, Striped<8>>;
    sm_80 F16Columns = through_registers<f16, ColMajor, RowMajor, Striped<4>>;
    sm_80 F32Columns = through_registers<f32, RowMajor, ColMajor, Striped<16>>;
    sm_80 F16Warps = through_registers<f16, RowMajor, RowMajor, warp::Square<2, 2>>;
    sm_80 F32Warps = through_registers<f32, ColMajor, ColMajor, warp::Square<2, 4>>;
    sm_80 F16Warpgroups = through_registers<f16, RowMajor, ColMajor, FullRow<1>>;
    sm_80 F32Warpgroups = through_registers<f32, RowMajor, RowMajor, FullCol<2>>;

    sm_80 InPlaceWarps = in_place<warp::Square<2, 2>>;
    sm_80 InPlaceWarpgroups = in_place<FullRow<1>>;

    sm_80 AmpereSwizzled = through_scratch<Multistage<4>, f16, Swizzle<128>, RowMajor, warp::Square<2, 2>, Striped<4>>;
    sm_80 AmperePadded = through_scratch<Multistage<8>, f32, Padded, ColMajor, Striped<8>, warp::FullRow<4>>;
    sm_90 HopperSwizzled = through_scratch<WarpSpecialized<TwoConsumers>, f16, Swizzle<64>, ColMajor, FullRow<1>, Striped<8>>;
    sm_90 HopperLinear = through_scratch<WarpSpecialized<TwoConsumers>, f32, Linear, RowMajor, Striped<8>, FullCol<2>>;

    sm_80 AmpereTransposed = transposed<Multistage<4>, f16, Swizzle<128>, Striped<4>, warp::FullCol<4>>;
    sm_90 HopperTransposed = transposed<WarpSpecialized<OneConsumer>, f32, Padded, FullRow<1>, Striped<4>>;
    sm_80 AmpereStoredMatrices = through_matrices<Multistage<4>, bf16, Swizzle<128>, warp::Square<2, 2>, Striped<4>>;
    sm_90 HopperStoredMatrices = through_matrices<WarpSpecialized<TwoConsumers>, f16, Swizzle<128>, FullCol<2>, Striped<8>>;
    sm_80 AmpereMatrices = transposed_in_matrices<Multistage<4>, f16, Swizzle<64>, Striped<4>, warp::Square<2, 2>>;
    sm_90 HopperMatrices = transposed_in_matrices<WarpSpecialized<OneConsumer>, bf16, Swizzle<128>, Striped<4>, FullRow<1>>;
}
