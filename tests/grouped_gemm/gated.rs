//! Gated units of the products.

use tilewright::ops::{Activation, GroupRows, GroupedGemm, GroupedGemmViews, kernels};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::Place;
use tilewright_support::planned::{nowhere, nowhere_mut};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};

use crate::case::{Case, SEEN};
use crate::errors::expect;

fn case(activation: Activation, rows: &[usize], n: usize, k: usize) -> Case {
    Case { gated: Some(activation), ..Case::new(rows, n, k) }
}

/// Every kernel on whole and partial tiles of units, whose gates' boxes reach into the ups.
pub fn units(device: &Device) -> Outcome {
    const ROWS: [usize; 7] = [5, 0, 257, 1, 64, 0, 33];
    let of = [Activation::Silu, Activation::Gelu, Activation::Relu, Activation::Identity];
    for ((n, k), activation) in [(128, 64), (136, 72), (40, 200), (129, 131)].into_iter().zip(of) {
        let case = Case { scaled: n == 136, ..case(activation, &ROWS, n, k) };
        if picked(device, (n, k), 2) {
            case.check::<f16>(device)?;
        }
        case.check::<bf16>(device)?;
    }
    Case { apart: true, scaled: true, ..case(Activation::Silu, &[5, 0, 129, 1, 40], 72, 64) }
        .check::<f16>(device)?;
    let seen = SEEN.lock().map_err(|_| "another test failed")?;
    let ours = kernels().filter(|kernel| kernel.name.starts_with("grouped_gemm_gated_"));
    let left = ours.filter(|kernel| device.runs(kernel.arch) && !seen.contains(kernel.name));
    let left: Vec<_> = left.map(|kernel| kernel.name).collect();
    assert!(left.is_empty(), "not run: {left:?}");
    Ok(())
}

pub fn groups(device: &Device) -> Outcome {
    let mut all = vec![vec![70], vec![0, 0, 0]];
    // Nobody chose most of them.
    all.push((0..256).map(|group| usize::from(group % 9 == 4) * (group % 5 + 1)).collect());
    all.extend([0, 7].map(|of| (0..8).map(|group| if group == of { 300 } else { 0 }).collect()));
    if !device.is_emulator() {
        all.push((0..64).map(|group| group * 37 % 411).collect());
    }
    for rows in all {
        case(Activation::Silu, &rows, 200, 64).check::<bf16>(device)?;
    }
    Ok(())
}

/// C may lie in any way; lines of A and B are aligned.
pub fn anywhere(device: &Device) -> Outcome {
    let case = case(Activation::Silu, &[9, 0, 70], 88, 80);
    let [a, b, c] = case.places(8);
    let [matrix, row, column] = c.strides;
    for places in [
        [a.shifted(8), b.shifted(8), c.shifted(1)],
        [a, b, c.strided([3 * matrix, 3 * row, 3 * column])],
        [a, b, Place::by_columns(c.shape, c.shape[1] + 4)],
    ] {
        case.check_at::<f16>(device, places)?;
    }
    Ok(())
}

/// Without rows, groups or units nothing is done, whatever the depth.
pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (rows, groups, n, k) in [(0, 3, 40, 64), (5, 0, 40, 64), (5, 3, 0, 64), (0, 3, 40, 0)] {
        let a = Tensor::<f16>::zeros(device, &[rows, k])?;
        let b = Tensor::<f16>::zeros(device, &[groups, 2 * n, k])?;
        let offsets = Tensor::<i32>::zeros(device, &[groups + 1])?;
        let mut c = Tensor::filled(device, f16::NAN, &[rows, n])?;
        let by = GroupRows::offsets(offsets.view());
        let gemm = GroupedGemm::new().gated(Activation::Silu);
        gemm.run(&stream, &a.view(), &b.view().transpose(1, 2)?, &by, &mut c.view_mut())?;
        assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    }
    Ok(())
}

/// A NaN in A is its row's; one in a gate or an up is its group's column's.
pub fn not_a_number(device: &Device) -> Outcome {
    let case = case(Activation::Silu, &[20, 0, 30, 1, 40], 80, 64);
    let places = case.places(8);
    let (mut a, mut b) = (normal::<f16>(1, places[0].count()), normal::<f16>(2, places[1].count()));
    (a[19 * 64 + 5], a[92 * 64]) = (f16::NAN, f16::NAN);
    // The first unit behind a box of gates, by its gate, and the first one, by its up.
    (b[(2 * 64 + 3) * 160 + 64], b[(4 * 64 + 9) * 160 + 80]) = (f16::NAN, f16::NAN);
    case.check_with(device, places, &a, &b)
}

/// The emulator takes warps in another order for each seed.
pub fn seeds(device: &Device) -> Outcome {
    if device.is_emulator() {
        for seed in 1..4 {
            let device = Device::emulator_with_seed(seed);
            case(Activation::Gelu, &[40, 0, 1, 130], 136, 128).check::<bf16>(&device)?;
        }
    }
    Ok(())
}

const N: usize = 72;
const K: usize = 64;
const ROWS: usize = 100;

/// One plan for other matrices and numbers, alone and in a graph.
pub fn planned(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let activation = Activation::Silu;
    let plan = GroupedGemm::new().gated(activation).plan(
        &nowhere::<bf16>(device, &[ROWS, K])?,
        &nowhere::<bf16>(device, &[4, 2 * N, K])?.transpose(1, 2)?,
        &GroupRows::offsets(nowhere::<i32>(device, &[5])?),
        &nowhere_mut::<bf16>(device, &[ROWS, N])?,
    )?;
    let views = GroupedGemmViews::default();
    for seed in [3, 5] {
        let (a, lines) = (normal::<bf16>(1, ROWS * K), normal::<bf16>(seed, 4 * 2 * N * K));
        let at = |i: usize| lines[i / (K * 2 * N) * K * 2 * N + i % (2 * N) * K + i / (2 * N) % K];
        let b: Vec<_> = (0..lines.len()).map(at).collect();
        let on_a = Tensor::from_slice(device, &a, &[ROWS, K])?;
        let on_b = Tensor::from_slice(device, &lines, &[4, 2 * N, K])?;
        let mut offsets = Tensor::<i32>::zeros(device, &[5])?;
        let mut c = Tensor::filled(device, bf16::NAN, &[ROWS, N])?;
        let graph = {
            let (a, b, mut c) = (on_a.view(), on_b.view().transpose(1, 2)?, c.view_mut());
            let rows = GroupRows::offsets(offsets.view());
            stream.capture(|stream| plan.run(stream, &a, &b, &rows, &mut c, &views))?
        };
        assert_eq!(graph.nodes(), 1);
        for rows in [[25; 4], [0, 100, 0, 0], [1, 0, 98, 1], [0; 4]] {
            let case = Case { more: ROWS - rows.iter().sum::<usize>(), ..case(activation, &rows, N, K) };
            offsets.write(&case.numbers())?;
            c.write(&vec![bf16::NAN; ROWS * N])?;
            // SAFETY: the tensors are alive.
            unsafe { graph.launch(&stream)? };
            assert_eq!(case.compare(&c.to_vec_on(&stream)?, &case.reference(&a, &b)), None, "{rows:?}");
        }
    }
    Ok(())
}

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tensor = |shape: &[usize]| Tensor::filled(device, f16::ONE, shape);
    let (a, w) = (tensor(&[24, 64])?, tensor(&[3, 80, 64])?);
    let (mut c, mut wide) = (Tensor::filled(device, f16::NAN, &[24, 40])?, tensor(&[24, 80])?);
    let numbers = Tensor::<i32>::from_slice(device, &[0, 8, 16, 24], &[4])?;
    let rows = GroupRows::offsets(numbers.view());
    let (a, b) = (a.view(), w.view().transpose(1, 2)?);
    let gemm = || GroupedGemm::new().gated(Activation::Silu);
    let odd = b.clone().narrow(2, 0, 79)?;
    expect("b", gemm().run(&stream, &a, &odd, &rows, &mut c.view_mut()))?;
    expect("c", gemm().run(&stream, &a, &b, &rows, &mut wide.view_mut()))?;
    expect("c", GroupedGemm::new().run(&stream, &a, &b, &rows, &mut c.view_mut()))?;
    let plain = GroupedGemm::new().candidates(&a, &b, &rows, &wide.view_mut())?;
    let of_products = gemm().kernel(plain[0].name());
    expect("kernel", of_products.run(&stream, &a, &b, &rows, &mut c.view_mut()))?;
    // Kernels read columns of gates and ups, of some depth, alone.
    let across = tensor(&[3, 64, 80])?;
    for (a, b) in [(a.clone(), across.view()), (a.clone().narrow(1, 0, 0)?, b.clone().narrow(1, 0, 0)?)] {
        match gemm().run(&stream, &a, &b, &rows, &mut c.view_mut()) {
            Err(Error::UnsupportedGpu { needs, .. }) if needs.contains("gated units") => {}
            other => return Err(format!("not an error about kernels: {other:?}").into()),
        }
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}
