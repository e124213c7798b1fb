//! `ops::grouped_dequant_gemm`.

mod case;
mod errors;

use tilewright::ops::{DeviceWeights, GroupRows, GroupedDequantGemm, grouped_dequant_gemm, kernels};
use tilewright::quant::{Format, Group, HalfType, Halves, Order, QuantizedWeights, ZeroPoints, Zeros};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::Place;
use tilewright_support::planned::{nowhere, nowhere_mut};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};

use case::{Case, SEEN};
pub use errors::refused;

/// Rows of groups: none, one, a tile, a row more, several tiles.
const ROWS: [usize; 7] = [5, 0, 129, 1, 64, 0, 17];

/// What there are kernels for.
const SCHEMES: [(Format, Zeros); 6] = [
    (Format::U4, Zeros::None),
    (Format::U4, Zeros::Original),
    (Format::U4, Zeros::Packed),
    (Format::I8, Zeros::None),
    (Format::FP4, Zeros::None),
    (Format::E4M3, Zeros::None),
];

pub fn offsets(device: &Device) -> Outcome {
    for (format, zeros) in SCHEMES {
        // Tiles have 64 or 256 rows of weights, and 64 to 128 of their columns.
        for (group, n, k) in [(Group::K128, 320, 136), (Group::K32, 64, 200), (Group::Row, 256, 64)] {
            let case = Case { scheme: (format, group, zeros), ..Case::new(&ROWS, n, k) };
            if picked(device, (format.name(), zeros, n), 2) {
                case.check::<f16>(device)?;
            }
            case.check::<bf16>(device)?;
        }
    }
    Case::new(&ROWS, 64, 256).check::<f16>(device)?;
    let seen = SEEN.lock().map_err(|_| "another test failed")?;
    let ours =
        kernels().filter(|kernel| kernel.name.starts_with("grouped_dequant_") && device.runs(kernel.arch));
    let left: Vec<_> = ours.map(|kernel| kernel.name).filter(|name| !seen.contains(name)).collect();
    assert!(left.is_empty(), "not run: {left:?}");
    Ok(())
}

pub fn counts(device: &Device) -> Outcome {
    for (n, k) in [(256, 64), (320, 300)] {
        let case = Case { apart: true, ..Case::new(&[5, 0, 129, 1, 40], n, k) };
        if picked(device, n, 2) {
            case.check::<bf16>(device)?;
        }
        case.check::<f16>(device)?;
    }
    Ok(())
}

pub fn groups(device: &Device) -> Outcome {
    // One group, whose last block of weights is part of one.
    Case::new(&[70], 100, 130).check::<f16>(device)?;
    // Nobody chose most of them.
    let rare = (0..128).map(|group| usize::from(group % 9 == 4) * (group % 5 + 1)).collect();
    let mut all: Vec<Vec<usize>> = vec![rare, vec![0, 0, 300], vec![300, 0, 0], vec![0; 5]];
    if !device.is_emulator() {
        all.push((0..64).map(|group| group * 37 % 411).collect());
        // More rows of tiles than are taken together.
        all.push(vec![128 * 17 + 5, 10, 128 * 33]);
    }
    for rows in all {
        Case { scheme: (Format::U4, Group::K128, Zeros::Original), ..Case::new(&rows, 128, 128) }
            .check::<bf16>(device)?;
    }
    Ok(())
}

pub fn anywhere(device: &Device) -> Outcome {
    let case = Case::new(&[9, 0, 70], 128, 72);
    let [a, c] = case.places();
    let columns = |place: Place| Place::by_columns(place.shape, place.shape[1].next_multiple_of(8));
    let sparse = |place: Place| place.strided(place.strides.map(|stride| 3 * stride));
    for places in [
        [a.shifted(1), c],
        [a.shifted(8), c.shifted(8)],
        [a, c.shifted(1)],
        [a, Place::by_rows(c.shape, c.shape[2] + 1)],
        [columns(a), c],
        [a, columns(c)],
        [sparse(a), sparse(c)],
    ] {
        case.check_at::<f16>(device, places)?;
    }
    Ok(())
}

/// Small integers: any order of sums gives the same.
pub fn exact(device: &Device) -> Outcome {
    let case = Case::new(&[70, 0, 3, 129], 128, 128);
    let (rows, k) = (4 * case.n, case.k);
    let places = case.places();
    let integers = |count: usize| (0..count).map(|i| f16::from_f32((i * 7919 % 5) as f32 - 2.0));
    let a: Vec<_> = integers(places[0].count()).collect();
    let codes = (0..rows * k).map(|i| (i * 31 % 16) as u8).collect();
    let scales = Halves::round(HalfType::F16, (0..rows).map(|row| [1.0, 2.0, 0.5, 0.0][row % 4]));
    let shape = [rows, k];
    let w = QuantizedWeights::new("w", Format::U4, Group::Row, shape, codes, scales, ZeroPoints::None)?;
    let on_a = Tensor::from_slice(device, &a, &[a.len() / k, k])?;
    let w_on = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let numbers = Tensor::from_slice(device, &case.numbers(), &[5])?;
    let (stream, rows) = (Stream::new(device)?, GroupRows::offsets(numbers.view()));
    let mut c = Tensor::filled(device, f16::NAN, &[a.len() / k, case.n])?;
    let sums = case.reference(&a, &w);
    assert!(sums.iter().flatten().all(|[sum, _]| sum.abs() <= 2048.0));
    let all = GroupedDequantGemm::new().candidates(&on_a.view(), &w_on, &rows, &c.view_mut())?;
    for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
        let gemm = GroupedDequantGemm::new().kernel(kernel.name());
        gemm.run(&stream, &on_a.view(), &w_on, &rows, &mut c.view_mut())?;
        for (out, exact) in c.to_vec_on(&stream)?.iter().zip(&sums) {
            assert!(exact.is_none_or(|[exact, _]| f64::from(out.to_f32()) == exact), "{}", kernel.name());
        }
    }
    Ok(())
}

/// A NaN in A is its row's, whoever has the rows beside it.
pub fn not_a_number(device: &Device) -> Outcome {
    let case = Case::new(&[20, 0, 30, 1, 40], 128, 128);
    let places = case.places();
    let mut a = normal::<f16>(1, places[0].count());
    // The last row of the first group, the one of the fourth, and one that no group has.
    (a[19 * 128 + 5], a[50 * 128], a[92 * 128]) = (f16::NAN, f16::NAN, f16::NAN);
    case.check_with(device, places, &a, &case.weights::<f16>()?)
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let w = DeviceWeights::upload(device, &Case::new(&[0; 3], 64, 64).weights::<f16>()?.pack(Order::B16)?)?;
    let a = Tensor::<f16>::zeros(device, &[0, 64])?;
    let offsets = Tensor::<i32>::zeros(device, &[4])?;
    let rows = GroupRows::offsets(offsets.view());
    let mut c = Tensor::filled(device, f16::NAN, &[0, 64])?;
    grouped_dequant_gemm(&stream, &a.view(), &w, &rows, &mut c.view_mut())?;
    // Rows that all are nobody's.
    let a = Tensor::<f16>::zeros(device, &[5, 64])?;
    let mut c = Tensor::filled(device, f16::NAN, &[5, 64])?;
    grouped_dequant_gemm(&stream, &a.view(), &w, &rows, &mut c.view_mut())?;
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}

/// Offsets outside of A, and such that decrease: no row is wrong that one group alone has.
pub fn wrong_numbers(device: &Device) -> Outcome {
    const ROWS: usize = 150;
    let case = Case::new(&[1, 1, 1], 64, 64);
    let stream = Stream::new(device)?;
    let a = Tensor::from_slice(device, &normal::<bf16>(1, ROWS * 64), &[ROWS, 64])?;
    let w = DeviceWeights::upload(device, &case.weights::<bf16>()?.pack(Order::B16)?)?;
    for offsets in [[0, 100, 130, 170], [-5, 60, 1 << 30, i32::MAX], [40, 120, 60, 60], [i32::MIN, -1, -1, 0]]
    {
        let numbers = Tensor::from_slice(device, &offsets, &[4])?;
        let mut c = Tensor::filled(device, bf16::NAN, &[ROWS, 64])?;
        let rows = GroupRows::offsets(numbers.view());
        grouped_dequant_gemm(&stream, &a.view(), &w, &rows, &mut c.view_mut())?;
        let ends = offsets.map(|at| (at.max(0) as usize).min(ROWS));
        for (row, out) in c.to_vec_on(&stream)?.chunks(64).enumerate() {
            let is_written = (0..3).any(|group| (ends[group]..ends[group + 1]).contains(&row));
            let nans = out.iter().filter(|x| x.is_nan()).count();
            assert_eq!(nans, if is_written { 0 } else { 64 }, "row {row} of {offsets:?}");
        }
    }
    Ok(())
}

/// Numbers that the kernel in front writes, behind others that wait for one that takes long: where kernels overlap, all of them begin before they are there.
#[cfg(feature = "pointwise")]
pub fn written_in_front(device: &Device) -> Outcome {
    use tilewright::ops::cast;

    let case = Case::new(&[40, 0, 1, 56], 256, 128);
    let (stream, [_, a_rows]) = (Stream::new(device)?, case.matrices());
    let (a, w) = (normal::<bf16>(1, a_rows * case.k), case.weights::<bf16>()?);
    let exact = case.reference(&a, &w);
    let a = Tensor::from_slice(device, &a, &[a_rows, case.k])?;
    let w = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let many = if device.is_emulator() { 1 << 10 } else { 1 << 26 };
    let (long, mut to) = (Tensor::<f32>::zeros(device, &[many])?, Tensor::<f16>::zeros(device, &[many])?);
    let numbers = Tensor::from_slice(device, &case.numbers(), &[5])?;
    let right: Vec<_> = case.numbers().iter().map(|&x| x as f32).collect();
    let (right, mut other) = (Tensor::from_slice(device, &right, &[5])?, Tensor::<i32>::zeros(device, &[5])?);
    let mut offsets = Tensor::<i32>::zeros(device, &[5])?;
    let mut c = Tensor::filled(device, bf16::NAN, &[a_rows, case.n])?;
    let rows = GroupRows::offsets(numbers.view());
    let all = GroupedDequantGemm::new().candidates(&a.view(), &w, &rows, &c.view_mut())?;
    for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
        for wrong in [[0, 97, 97, 97, 97], [0; 5], [0, 1, 2, 3, 97]] {
            offsets.write(&wrong)?;
            c.write(&vec![bf16::NAN; a_rows * case.n])?;
            cast(&stream, &long.view(), &mut to.view_mut())?;
            for _ in 0..16 {
                cast(&stream, &right.view(), &mut other.view_mut())?;
            }
            cast(&stream, &right.view(), &mut offsets.view_mut())?;
            let (rows, gemm) = (GroupRows::offsets(offsets.view()), GroupedDequantGemm::new());
            gemm.kernel(kernel.name()).run(&stream, &a.view(), &w, &rows, &mut c.view_mut())?;
            assert_eq!(case.compare(&c.to_vec_on(&stream)?, &exact), None, "{} of {wrong:?}", kernel.name());
        }
    }
    Ok(())
}

/// The emulator takes warps in another order for each seed.
pub fn seeds(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    for seed in 1..4 {
        let device = Device::emulator_with_seed(seed);
        Case::new(&[40, 0, 1, 130], 320, 256).check::<bf16>(&device)?;
    }
    Ok(())
}

/// A plan on other tensors and weights, in a graph that replays with the numbers of the moment.
pub fn planned(device: &Device) -> Outcome {
    const TOTAL: usize = 100;
    let of = |rows: &[usize]| Case { more: TOTAL - rows.iter().sum::<usize>(), ..Case::new(rows, 128, 128) };
    let (stream, [n, k]) = (Stream::new(device)?, [128, 128]);
    let layers = [5, 6].map(|seed| {
        let (format, group, zeros) = of(&[0; 4]).scheme;
        let scheme = tilewright::quant::Scheme { format, group, zeros, scales: HalfType::BF16 };
        QuantizedWeights::quantize("w", &normal::<f32>(seed, 4 * n * k), [4 * n, k], scheme)
    });
    let layers = layers.into_iter().collect::<tilewright::Result<Vec<_>>>()?;
    let upload = |w: &QuantizedWeights| DeviceWeights::upload(device, &w.pack(Order::B16)?);
    let on_device = layers.iter().map(upload).collect::<tilewright::Result<Vec<_>>>()?;
    let planned = GroupRows::offsets(nowhere::<i32>(device, &[5])?);
    let (a, c) = (nowhere::<bf16>(device, &[TOTAL, k])?, nowhere_mut::<bf16>(device, &[TOTAL, n])?);
    let plan = GroupedDequantGemm::new().plan(&a, &on_device[0], &planned, &c)?;
    let a = normal::<bf16>(1, TOTAL * k);
    let on_a = Tensor::from_slice(device, &a, &[TOTAL, k])?;
    let mut offsets = Tensor::<i32>::zeros(device, &[5])?;
    for (layer, w) in layers.iter().zip(&on_device) {
        let mut c = Tensor::<bf16>::zeros(device, &[TOTAL, n])?;
        let graph = {
            let (rows, mut c) = (GroupRows::offsets(offsets.view()), c.view_mut());
            stream.capture(|stream| plan.run(stream, &on_a.view(), w, &rows, &mut c))?
        };
        assert_eq!(graph.nodes(), 1);
        for rows in [[25; 4], [0, 100, 0, 0], [1, 0, 98, 1], [0; 4]] {
            let case = of(&rows);
            offsets.write(&case.numbers())?;
            c.write(&vec![bf16::NAN; TOTAL * n])?;
            // SAFETY: the tensors and the weights are alive.
            unsafe { graph.launch(&stream)? };
            assert_eq!(case.compare(&c.to_vec_on(&stream)?, &case.reference(&a, layer)), None, "{rows:?}");
        }
    }
    Ok(())
}
