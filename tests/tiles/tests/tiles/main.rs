//! Tiles are copied in every direction, whole and at a tensor's edge; what primitives make of them is exact.

mod cuts;
mod gathers;
mod held;
mod neighbours;
mod queues;
mod scans;
mod sums;
mod transpositions;
mod turns;

use std::f32::consts::LOG2_E;
use std::process::ExitCode;

use tilewright::{Arch, Arguments, Device, Instance, SafeKernel, Takes, Tensor, bf16, f16};
use tilewright_device::layout::{ColMajor, Element, Major, RowMajor};
use tilewright_device::tile::{Global, GlobalMut, RowOrder};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, pick, product, relative_error, sample};
use tilewright_support::suite::{Outcome, Suite};
use tilewright_tile_tests::KERNELS;
use tilewright_tile_tests_device::copies::{self, *};
use tilewright_tile_tests_device::cuts::{
    ColumnsCutOfWarpgroups, ColumnsCutOfWarps, RowsCutOfWarpgroup, RowsCutOfWarps,
};
use tilewright_tile_tests_device::gathers::*;
use tilewright_tile_tests_device::held::*;
use tilewright_tile_tests_device::latent::{self, *};
use tilewright_tile_tests_device::neighbours::*;
use tilewright_tile_tests_device::operands::{self, *};
use tilewright_tile_tests_device::products::*;
use tilewright_tile_tests_device::queues::{
    QueuedByElements, QueuedByJointProducers, QueuedByOneProducer, QueuedByThreeProducers, QueuedByWarps,
};
use tilewright_tile_tests_device::rows::*;
use tilewright_tile_tests_device::scans::*;
use tilewright_tile_tests_device::sums::*;
use tilewright_tile_tests_device::transpositions::*;
use tilewright_tile_tests_device::turns::{AddedInParts, AddedInTurn};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    macro_rules! tests {
        ($($arch:ident $Kernel:ident: $test:expr;)*) => { $(
            suite = suite.device(Arch::$arch, stringify!($Kernel), |device| $test(device));
        )* };
    }
    tests! {
        Sm80 F16Striped: registers::<F16Striped, f16, RowMajor, RowMajor>;
        Sm80 F32Striped: registers::<F32Striped, f32, RowMajor, RowMajor>;
        Sm80 F16Columns: registers::<F16Columns, f16, ColMajor, RowMajor>;
        Sm80 F32Columns: registers::<F32Columns, f32, RowMajor, ColMajor>;
        Sm80 F16Warps: registers::<F16Warps, f16, RowMajor, RowMajor>;
        Sm80 F32Warps: registers::<F32Warps, f32, ColMajor, ColMajor>;
        Sm80 F16Warpgroups: registers::<F16Warpgroups, f16, RowMajor, ColMajor>;
        Sm80 F32Warpgroups: registers::<F32Warpgroups, f32, RowMajor, RowMajor>;
        Sm80 InPlaceWarps: in_place::<InPlaceWarps>;
        Sm80 InPlaceWarpgroups: in_place::<InPlaceWarpgroups>;
        Sm80 AmpereSwizzled: scratch::<AmpereSwizzled, f16>;
        Sm80 AmperePadded: scratch::<AmperePadded, f32>;
        Sm90a HopperSwizzled: scratch::<HopperSwizzled, f16>;
        Sm90a HopperLinear: scratch::<HopperLinear, f32>;
        Sm80 AmpereTransposed: transposition::<AmpereTransposed, f16>;
        Sm90a HopperTransposed: transposition::<HopperTransposed, f32>;
        Sm80 AmpereStoredMatrices: scratch::<AmpereStoredMatrices, bf16>;
        Sm90a HopperStoredMatrices: scratch::<HopperStoredMatrices, f16>;
        Sm80 AmpereMatrices: transposition::<AmpereMatrices, f16>;
        Sm90a HopperMatrices: transposition::<HopperMatrices, bf16>;
        Sm80 AmpereRegisters: changed_operands::<AmpereRegisters>;
        Sm90a HopperRegisters: changed_operands::<HopperRegisters>;
        Sm80 AmpereScratch: changed_operands::<AmpereScratch>;
        Sm90a HopperScratch: changed_operands::<HopperScratch>;
        Sm80 HeldByACta: held::held::<HeldByACta, f32, 1536, false>;
        Sm80 HeldWhole: held::held::<HeldWhole, f16, 512, false>;
        Sm90a HeldByACluster: held::held::<HeldByACluster, f16, 4096, false>;
        Sm80 RaggedByACta: held::held::<RaggedByACta, f32, 1536, true>;
        Sm90a TogetherByACluster: held::together::<TogetherByACluster, f16, 2048, false>;
        Sm80 TogetherRagged: held::together::<TogetherRagged, f32, 1536, true>;
        Sm80 TogetherByAWarp: held::together::<TogetherByAWarp, f16, 1024, true>;
        Sm90a RaggedByACluster: held::held::<RaggedByACluster, f16, 3072, true>;
        Sm80 ArgmaxOfLanes: places::<ArgmaxOfLanes, 16, 64>;
        Sm80 ArgmaxOfWarps: places::<ArgmaxOfWarps, 4, 512>;
        Sm80 ArgmaxOfStripes: places::<ArgmaxOfStripes, 32, 128>;
        Sm90a ArgmaxOfCta: places::<ArgmaxOfCta, 1, 2048>;
        Sm90a ArgmaxOfCluster: places::<ArgmaxOfCluster, 1, 2048>;
        Sm90a ArgmaxOfManyWarps: places::<ArgmaxOfManyWarps, 1, 16384>;
        Sm80 StepsOfStripes: steps::<StepsOfStripes>;
        Sm80 StepsOfWarps: steps::<StepsOfWarps>;
        Sm80 StepsOfWarpgroups: steps::<StepsOfWarpgroups>;
        Sm80 ColumnsStriped: columns::<ColumnsStriped>;
        Sm80 ColumnsWarps: columns::<ColumnsWarps>;
        Sm80 ColumnsWarpgroups: columns::<ColumnsWarpgroups>;
        Sm90a LatentRows: latent_attention::<LatentRows>;
        Sm90a LatentColumns: latent_attention::<LatentColumns>;
        Sm80 LatentWarpRows: latent_attention::<LatentWarpRows>;
        Sm80 LatentWarpColumns: latent_attention::<LatentWarpColumns>;
        Sm80 BySingles: f32_products::<BySingles, RowMajor>;
        Sm80 ByPairs: f32_products::<ByPairs, RowMajor>;
        Sm80 ByFours: f32_products::<ByFours, RowMajor>;
        Sm80 Tf32Even: f32_products::<Tf32Even, ColMajor>;
        Sm80 Tf32Odd: f32_products::<Tf32Odd, ColMajor>;
        Sm80 Tf32Narrow: f32_products::<Tf32Narrow, ColMajor>;
        Sm80 Tf32Rows: f32_products::<Tf32Rows, ColMajor>;
        Sm80 SumsOfThreads: sums::of_columns::<SumsOfThreads>;
        Sm80 SumsOfStripes: sums::of_columns::<SumsOfStripes>;
        Sm80 SumsOfAccumulators: sums::of_columns::<SumsOfAccumulators>;
        Sm80 SumsOfSpread: sums::of_columns::<SumsOfSpread>;
        Sm80 RowsOfLanes: scans::rows::<RowsOfLanes>;
        Sm80 RowsOfStripes: scans::rows::<RowsOfStripes>;
        Sm80 RowsOfAccumulators: scans::rows::<RowsOfAccumulators>;
        Sm80 RowsOfWarps: scans::rows::<RowsOfWarps>;
        Sm80 RowsOfManyValues: scans::rows::<RowsOfManyValues>;
        Sm80 ColsOfThreads: scans::cols::<ColsOfThreads>;
        Sm80 ColsOfStripes: scans::cols::<ColsOfStripes>;
        Sm80 ColsOfAccumulators: scans::cols::<ColsOfAccumulators>;
        Sm80 ColsOfOneWarp: scans::cols::<ColsOfOneWarp>;
        Sm80 ColsOfSpread: scans::cols::<ColsOfSpread>;
        Sm80 NeighboursOfLanes: neighbours::mixed_rows::<NeighboursOfLanes>;
        Sm80 NeighboursOfStripes: neighbours::mixed_rows::<NeighboursOfStripes>;
        Sm80 NeighboursOfWarps: neighbours::mixed_rows::<NeighboursOfWarps>;
        Sm80 NeighboursOfAccumulators: neighbours::mixed_rows::<NeighboursOfAccumulators>;
        Sm80 NeighboursOfNarrow: neighbours::mixed_rows::<NeighboursOfNarrow>;
        Sm80 TransposedOfWarpgroup: transpositions::turned::<TransposedOfWarpgroup>;
        Sm80 TransposedOfWarpgroups: transpositions::turned::<TransposedOfWarpgroups>;
        Sm80 TransposedOfWarps: transpositions::turned::<TransposedOfWarps>;
        Sm80 TransposedOfEightWarps: transpositions::turned::<TransposedOfEightWarps>;
        Sm80 ColumnsCutOfWarps: cuts::halves::<ColumnsCutOfWarps>;
        Sm90a ColumnsCutOfWarpgroups: cuts::halves::<ColumnsCutOfWarpgroups>;
        Sm80 RowsCutOfWarps: cuts::halves::<RowsCutOfWarps>;
        Sm90a RowsCutOfWarpgroup: cuts::halves::<RowsCutOfWarpgroup>;
        Sm80 GatheredPieces: gathers::products::<GatheredPieces>;
        Sm80 GatheredElements: gathers::products::<GatheredElements>;
        Sm90a GatheredBoxes: gathers::products::<GatheredBoxes>;
        Sm80 GatheredStripes: gathers::rows::<GatheredStripes, f16>;
        Sm80 GatheredAccumulator: gathers::rows::<GatheredAccumulator, f32>;
        Sm80 GreatestOfStripes: gathers::greatest::<GreatestOfStripes>;
        Sm80 GreatestOfAccumulators: gathers::greatest::<GreatestOfAccumulators>;
        Sm80 AddedF32: sums::added::<AddedF32, f32>;
        Sm80 AddedF16: sums::added::<AddedF16, f16>;
        Sm80 AddedI32: sums::added_integers::<AddedI32>;
        Sm90a AddedBf16: sums::added::<AddedBf16, bf16>;
        Sm80 ArithmeticF16: sums::arithmetic::<ArithmeticF16, f16, 64>;
        Sm80 ArithmeticBf16: sums::arithmetic::<ArithmeticBf16, bf16, 64>;
        Sm80 ArithmeticOfSingles: sums::arithmetic::<ArithmeticOfSingles, f16, 8>;
        Sm80 SummedByOneStage: sums::summed::<SummedByOneStage>;
        Sm80 SummedByStages: sums::summed::<SummedByStages>;
        Sm90a SummedByOneProducer: sums::summed::<SummedByOneProducer>;
        Sm80 WideWarps: sums::wide_products::<WideWarps>;
        Sm90a WideWarpgroup: sums::wide_products::<WideWarpgroup>;
        Sm80 QueuedByWarps: queues::queued::<QueuedByWarps>;
        Sm80 QueuedByElements: queues::queued::<QueuedByElements>;
        Sm90a QueuedByOneProducer: queues::queued::<QueuedByOneProducer>;
        Sm90a QueuedByThreeProducers: queues::queued::<QueuedByThreeProducers>;
        Sm90a QueuedByJointProducers: queues::queued::<QueuedByJointProducers>;
        Sm80 turned_round: sums::behind_a_barrier;
        Sm90a added_in_fours: sums::added_in_fours;
        Sm90a AddedInTurn: turns::added_one_by_one::<AddedInTurn, 1>;
        Sm90a AddedInParts: turns::added_one_by_one::<AddedInParts, 2>;
        Sm90a through_a_pair: sums::through_a_pair;
    }
    suite.main()
}

/// Rows, columns, and unused elements behind each line: whole tiles, edges, lines of any alignment.
const SHAPES: [[usize; 3]; 8] = [
    [64, 128, 0],
    [128, 256, 8],
    [1, 1, 0],
    [63, 127, 1],
    [65, 129, 7],
    [200, 300, 4],
    [70, 520, 0],
    [9, 1000, 2],
];

/// Matrices with random elements, lines with `unused` more behind each.
fn random<T: Real>(
    device: &Device,
    [batch, rows, cols]: [usize; 3],
    unused: usize,
) -> tilewright::Result<Tensor<T>> {
    let shape = [batch, rows, cols + unused];
    Tensor::from_slice(device, &normal((rows * cols) as u64, shape.iter().product()), &shape)
}

fn launch<K: Instance + SafeKernel + Takes<A>, A: Arguments<K>>(
    device: &Device,
    grid: [usize; 2],
    arguments: A,
) -> Outcome {
    let [x, y] = grid.map(|ctas| ctas as u32);
    device.kernel::<K>(&KERNELS)?.launch(&device.default_stream(), [x, y, 1], arguments)?;
    Ok(())
}

fn registers<K, T: Real + Element, OX: Major, OY: Major>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<T, 3, OX>, GlobalMut<T, 3, OY>, u32)>,
{
    // A matrix as it lies in memory: the other way round if its columns are contiguous.
    let lines = |row_major: bool, [batch, rows, cols]: [usize; 3]| {
        if row_major { [batch, rows, cols] } else { [batch, cols, rows] }
    };
    for [rows, cols, unused] in SHAPES {
        let shape = [2, rows, cols];
        let memory = random::<T>(device, lines(OX::ROW_MAJOR, shape), unused)?;
        let length = lines(OX::ROW_MAJOR, shape)[2];
        let mut x = memory.view().narrow(2, 0, length)?;
        let out = lines(OY::ROW_MAJOR, shape);
        let mut guarded = Guarded::<T>::new(device, out, out[2] + unused)?;
        let mut y = guarded.view_mut()?;
        if !OX::ROW_MAJOR {
            x = x.transpose(1, 2)?;
        }
        if !OY::ROW_MAJOR {
            y = y.transpose(1, 2)?;
        }
        // The last matrix is not there: it reads as zeros, and is not stored.
        for batch in 0..3 {
            let grid = [rows.div_ceil(copies::M), cols.div_ceil(copies::N)];
            launch::<K, _>(device, grid, (&x, &mut y, batch))?;
        }
        assert!(y.to_vec()? == x.to_vec()?, "{rows} x {cols}, {unused} unused");
        assert_eq!(guarded.read()?.1, 0, "{rows} x {cols}, {unused} unused: stores outside");
    }
    Ok(())
}

/// Tiles that are read, changed and stored, twice.
fn in_place<K>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (GlobalMut<f16, 2>,)>,
{
    for [rows, cols, unused] in SHAPES {
        let x = normal::<f16>(3, rows * cols);
        let mut guarded = Guarded::<f16>::with(device, Place::by_rows([1, rows, cols], cols + unused), &x)?;
        let mut y = guarded.view_mut()?.select(0, 0)?;
        launch::<K, _>(device, [rows.div_ceil(copies::M), cols.div_ceil(copies::N)], (&mut y,))?;
        let (y, outside) = guarded.read()?;
        let twice = |x: f16| f16::from_f32(x.to_f32() * 2.0);
        let expected = x.iter().map(|&x| f16::from_f32(twice(x).to_f32() + x.to_f32()));
        assert!(y.iter().copied().eq(expected), "{rows} x {cols}, {unused} unused");
        assert_eq!(outside, 0, "{rows} x {cols}, {unused} unused: stores outside");
    }
    Ok(())
}

/// The parameters of a kernel from one matrix to another.
type Matrices<T> = (Global<T, 2, RowMajor, 0>, GlobalMut<T, 2>);

fn scratch<K, T: Real + Element>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = Matrices<T>>,
{
    for [rows, cols, unused] in SHAPES {
        let memory = random::<T>(device, [1, rows, cols], unused)?;
        let x = memory.view().narrow(2, 0, cols)?.select(0, 0)?;
        let mut guarded = Guarded::<T>::new(device, [1, rows, cols], cols + unused)?;
        let mut y = guarded.view_mut()?.select(0, 0)?;
        let grid = [rows.div_ceil(copies::M), cols.div_ceil(2 * copies::N)];
        launch::<K, _>(device, grid, (&x, &mut y))?;
        assert!(y.to_vec()? == x.to_vec()?, "{rows} x {cols}, {unused} unused");
        assert_eq!(guarded.read()?.1, 0, "{rows} x {cols}, {unused} unused: stores outside");
    }
    Ok(())
}

fn transposition<K, T: Real + Element>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = Matrices<T>>,
{
    for [rows, cols, unused] in SHAPES {
        let memory = random::<T>(device, [1, rows, cols], unused)?;
        let x = memory.view().narrow(2, 0, cols)?.select(0, 0)?;
        let mut guarded = Guarded::<T>::new(device, [1, cols, rows], rows + unused)?;
        let mut y = guarded.view_mut()?.select(0, 0)?;
        launch::<K, _>(device, [rows.div_ceil(copies::M), cols.div_ceil(copies::N)], (&x, &mut y))?;
        assert!(y.to_vec()? == x.transpose(0, 1)?.to_vec()?, "{rows} x {cols}, {unused} unused");
        assert_eq!(guarded.read()?.1, 0, "{rows} x {cols}, {unused} unused: stores outside");
    }
    Ok(())
}

fn changed_operands<K>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<f16, 2>, Global<f16, 2, ColMajor>, GlobalMut<f32, 2>)>,
{
    // The last, for a GPU, has many CTAs and many turns of the ring: a stage that is filled too early would show.
    for [m, n, k] in [[128, 64, 64], [200, 100, 520], [1, 8, 1000], [1024, 1024, 4096]] {
        if device.is_emulator() && m * n * k > 1 << 24 {
            continue;
        }
        let (a, b) = (normal::<f16>(1, m * k), normal::<f16>(2, n * k));
        let positive: Vec<f16> =
            a.iter().map(|&x| if x.is_sign_negative() { f16::ZERO } else { x }).collect();
        let rows = sample(m, 64);
        let expected = product(&Matrix::new(&positive, m, k), &Matrix::new(&b, n, k).t(), &rows);
        let (a, b) = (Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &b, &[n, k])?);
        let mut guarded = Guarded::<f32>::new(device, [1, m, n], n + 3)?;
        let c = guarded.view_mut()?.select(0, 0)?;
        let grid = [m.div_ceil(operands::M), n.div_ceil(operands::N)];
        launch::<K, _>(device, grid, (a.view(), b.view().transpose(0, 1)?, c))?;
        let (c, outside) = guarded.read()?;
        let found = pick(&c, n, &rows);
        let error = relative_error(&found, &expected);
        assert!(error < 1e-5, "{m} x {n} x {k}: relative error {error:e}");
        assert_eq!(outside, 0, "{m} x {n} x {k}: stores outside");
    }
    Ok(())
}

/// C = A B of f32. What tensor cores multiply is rounded to 11 bits, which the error tells from what is not.
fn f32_products<K, O: Major>(device: &Device) -> Outcome
where
    K: Instance + Tiled + SafeKernel<Parameters = (Global<f32, 2>, Global<f32, 2, O>, GlobalMut<f32, 2>)>,
{
    for [m, n, k] in [[64, 128, 128], [33, 50, 129], [1, 1, 1], [70, 131, 300]] {
        let (a, b) = (normal::<f32>(1, m * k), normal::<f32>(2, k * n));
        let rows = sample(m, 64);
        let expected = product(&Matrix::new(&a, m, k), &Matrix::new(&b, k, n), &rows);
        let a = Tensor::from_slice(device, &a, &[m, k])?;
        let transposed: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
        let (b, transposed) =
            (Tensor::from_slice(device, &b, &[k, n])?, Tensor::from_slice(device, &transposed, &[n, k])?);
        let b = if O::ROW_MAJOR { b.view() } else { transposed.view().transpose(0, 1)? };
        let mut guarded = Guarded::<f32>::new(device, [1, m, n], n + 3)?;
        let c = guarded.view_mut()?.select(0, 0)?;
        launch::<K, _>(device, [n.div_ceil(K::TILE[1]), m.div_ceil(K::TILE[0])], (a.view(), b, c))?;
        let (c, outside) = guarded.read()?;
        let error = relative_error(&pick(&c, n, &rows), &expected);
        let allowed = if O::ROW_MAJOR { 1e-6 } else { 1e-3 };
        assert!(error < allowed, "{m} x {n} x {k}: relative error {error:e}");
        assert_eq!(outside, 0, "{m} x {n} x {k}: stores outside");
    }
    Ok(())
}

/// Queries, cache, output and scale.
type Latent = (Global<f16, 2>, Global<f16, 2>, GlobalMut<f32, 2>, f32);

/// The same attention however its products are divided among warps.
fn latent_attention<K: Instance + SafeKernel<Parameters = Latent>>(device: &Device) -> Outcome {
    let (d, dv) = (latent::D, latent::DV);
    for [queries, keys] in [[64, 64], [70, 200], [1, 63], [128, 1000]] {
        let (q, kv) = (normal::<f16>(1, queries * d), normal::<f16>(2, keys * d));
        let v: Vec<f16> = kv.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
        let rows = sample(queries, 16);
        let expected = Head::new([&q, &kv, &v], queries, keys, [d, dv]).rows(&rows, &Scores::new(d));
        let expected: Vec<_> = expected.into_iter().flat_map(|row| row.o).collect();
        let (q, kv) =
            (Tensor::from_slice(device, &q, &[queries, d])?, Tensor::from_slice(device, &kv, &[keys, d])?);
        let mut guarded = Guarded::<f32>::new(device, [1, queries, dv], dv + 4)?;
        let o = guarded.view_mut()?.select(0, 0)?;
        let scale = LOG2_E / (d as f32).sqrt();
        launch::<K, _>(device, [queries.div_ceil(latent::B), 1], (q.view(), kv.view(), o, scale))?;
        let (o, outside) = guarded.read()?;
        let error = relative_error(&pick(&o, dv, &rows), &expected);
        // Weights are rounded to f16.
        assert!(error < f16::ROUNDING, "{queries} queries, {keys} keys: relative error {error:e}");
        assert_eq!(outside, 0, "{queries} queries, {keys} keys: stores outside");
    }
    Ok(())
}

/// The first greatest element of rows of several lengths, in tiles of `ROWS` rows that have room for `MOST` elements; several tiles a CTA.
fn places<K, const ROWS: u32, const MOST: usize>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<f32, 3>, GlobalMut<i32, 3>, RowOrder)>,
{
    let rows = 3 * ROWS as usize + 1;
    for cols in [MOST, MOST / 2 + 4, 4] {
        // Small integers, so that the greatest stands in several columns.
        let x: Vec<f32> = (0..rows * cols).map(|i| (i * 37 % 101) as f32).collect();
        let exact = x.chunks(cols).map(|row| {
            let first = |best: usize, (i, x): (usize, &f32)| if *x > row[best] { i } else { best };
            row.iter().enumerate().fold(0, first) as i32
        });
        let x = Tensor::from_slice(device, &x, &[1, rows, cols])?;
        let mut y = Tensor::filled(device, -1, &[1, rows, 1])?;
        let order = RowOrder::new(1, rows as u32, ROWS).expect("few tiles");
        launch::<K, _>(device, [2 * K::CLUSTER[0] as usize, 1], (x.view(), y.view_mut(), order))?;
        assert!(y.to_vec()?.into_iter().eq(exact), "{cols} columns");
    }
    Ok(())
}

/// Sums that come out otherwise when a step is taken twice, left out or taken of another row.
fn steps<K: Instance + SafeKernel<Parameters = (Global<f32, 2>, GlobalMut<f32, 2>)>>(
    device: &Device,
) -> Outcome {
    for [rows, steps] in [[64, 1], [130, 4], [3, 13], [70, 18], [5, 40], [64, 66]] {
        let data: Vec<f32> = (0..rows * steps).map(|i| (i * 7 % 5) as f32).collect();
        let exact = data.chunks(steps).map(|row| row.iter().fold(0.0, |all, x| 0.5 * all + (x + 1.0)));
        let x = Tensor::from_slice(device, &data, &[rows, steps])?;
        let mut y = Tensor::filled(device, f32::NAN, &[rows, 1])?;
        launch::<K, _>(device, [rows.div_ceil(copies::M), 1], (x.view(), y.view_mut()))?;
        assert!(y.to_vec()? == exact.collect::<Vec<_>>(), "{rows} rows, {steps} steps");
    }
    Ok(())
}

fn columns<K>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<f32, 3>, Global<f32, 3>, GlobalMut<f32, 3>)>,
{
    for [rows, cols] in [[64, 128], [70, 300], [3, 4]] {
        let x: Vec<f32> = (0..rows * cols).map(|i| (i % 97) as f32).collect();
        let w: Vec<f32> = (0..cols).map(|i| (i % 5) as f32).collect();
        let exact: Vec<f32> = (0..rows * cols).map(|i| x[i] * w[i % cols] + (i % cols) as f32).collect();
        let (x, w) = (
            Tensor::from_slice(device, &x, &[1, rows, cols])?,
            Tensor::from_slice(device, &w, &[1, 1, cols])?,
        );
        let mut y = Tensor::filled(device, f32::NAN, &[1, rows, cols])?;
        let grid = [rows.div_ceil(copies::M), cols.div_ceil(copies::N)];
        launch::<K, _>(device, grid, (x.view(), w.view(), y.view_mut()))?;
        assert!(y.to_vec()? == exact, "{rows} x {cols}");
    }
    Ok(())
}
