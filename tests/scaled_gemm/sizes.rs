//! Sizes, orders and places.

use tilewright::ops::{Activation, ScaledGemm, ScaledGemmViews};
use tilewright::{Device, F8E4M3, F8E5M2, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::guarded::Place;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Scaled, Value};

/// M, N and K: partial tiles, whole ones, several of each tile.
const SIZES: [[usize; 3]; 6] =
    [[1, 1, 16], [3, 130, 144], [17, 64, 1040], [64, 8, 256], [130, 257, 272], [264, 136, 128]];

pub fn floats(device: &Device) -> Outcome {
    for size in SIZES {
        Case::<F8E4M3, F8E4M3>::new(size, Scaled::No).check::<bf16>(device)?;
        let fast = Case::<F8E4M3, F8E4M3> { fast: true, ..Case::new(size, Scaled::No) };
        fast.check::<f16>(device)?;
    }
    let size = SIZES[4];
    Case::<F8E4M3, F8E4M3>::new(size, Scaled::No).check::<f32>(device)?;
    Case::<F8E5M2, F8E5M2>::new(size, Scaled::No).check::<f32>(device)?;
    Case::<F8E5M2, F8E5M2>::new(size, Scaled::No).check::<f16>(device)?;
    Case::<F8E5M2, F8E5M2>::new(size, Scaled::No).check::<bf16>(device)?;
    Case::<F8E4M3, F8E5M2>::new(size, Scaled::No).check::<f32>(device)?;
    Case::<F8E4M3, F8E5M2>::new(size, Scaled::No).check::<f16>(device)?;
    Case::<F8E5M2, F8E4M3>::new(size, Scaled::No).check::<f32>(device)?;
    Case::<F8E5M2, F8E4M3>::new(size, Scaled::No).check::<f16>(device)?;
    let fast = Case::<F8E4M3, F8E5M2> { fast: true, ..Case::new(size, Scaled::No) };
    fast.check::<bf16>(device)?;
    Case::<F8E5M2, F8E4M3> { fast: true, ..Case::new(size, Scaled::No) }.check::<bf16>(device)
}

/// Of numbers that tf32 holds, with lines of 4 elements on.
pub fn tf32(device: &Device) -> Outcome {
    for [m, n, k] in SIZES {
        Case::<f32, f32>::new([m, n, k / 4], Scaled::Rows).check::<f32>(device)?;
    }
    Ok(())
}

/// Sums are the same on every kernel, to the bit.
pub fn integers(device: &Device) -> Outcome {
    for size in SIZES {
        let case = Case::<i8, i8>::new(size, Scaled::No);
        let [m, n, k] = size;
        let (a, b) =
            (Tensor::from_slice(device, &case.a, &[m, k])?, Tensor::from_slice(device, &case.b, &[n, k])?);
        let mut c = Tensor::filled(device, i32::MIN, &[m, n])?;
        for kernel in ScaledGemm::<i32>::new().candidates(&a.view(), &b.view(), &c.view_mut())? {
            if kernel.rejection().is_some() {
                continue;
            }
            let mut c = Tensor::filled(device, i32::MIN, &[m, n])?;
            let gemm = ScaledGemm::new().kernel(kernel.name());
            gemm.run(&Stream::new(device)?, &a.view(), &b.view(), &mut c.view_mut())?;
            for (at, got) in c.to_vec()?.into_iter().enumerate() {
                let want = case.sum(at / n, at % n).0;
                assert_eq!(f64::from(got), want, "{}, {size:?}: element {at}", kernel.name());
            }
        }
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for [m, n, k] in [[0, 5, 32], [5, 0, 32], [0, 0, 0]] {
        let (a, b) = (Tensor::<i8>::zeros(device, &[m, k])?, Tensor::<i8>::zeros(device, &[n, k])?);
        let mut c = Tensor::<i32>::zeros(device, &[m, n])?;
        ScaledGemm::new().run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
    }
    let (a, b) = (Tensor::<i8>::zeros(device, &[70, 0])?, Tensor::<i8>::zeros(device, &[9, 0])?);
    let mut c = Tensor::filled(device, 7i32, &[70, 9])?;
    ScaledGemm::new().run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
    assert!(c.to_vec_on(&stream)?.iter().all(|&x| x == 0), "sums without depth");
    if device.runs(tilewright::Arch::Sm90a) {
        let (a, none) =
            (Tensor::<F8E4M3>::zeros(device, &[70, 32])?, Tensor::<F8E4M3>::zeros(device, &[0, 32])?);
        let mut c = Tensor::<bf16>::zeros(device, &[70, 0])?;
        ScaledGemm::new().run(&stream, &a.view(), &none.view(), &mut c.view_mut())?;
        let case = Case::<F8E4M3, F8E4M3> { biased: true, ..Case::new([70, 9, 0], Scaled::Rows) };
        case.check::<bf16>(device)?;
    }
    Ok(())
}

/// C in rows, in columns, with gaps, at odd places; and everything an epilogue has.
pub fn anywhere(device: &Device) -> Outcome {
    let [m, n, k] = [67, 45, 144];
    let mut case = Case::<F8E4M3, F8E4M3>::new([m, n, k], Scaled::Rows);
    (case.alpha, case.activation, case.biased) = (-0.5, Activation::Silu, true);
    let rows = Place::by_rows([1, m, n], 57);
    for place in [rows, rows.shifted(1), Place::by_columns([1, m, n], 72), rows.strided([1, 2 * n + 1, 2])] {
        case.check_at::<bf16>(device, place)?;
    }
    (case.activation, case.alpha) = (Activation::Gelu, 2.0);
    case.check::<f16>(device)
}

pub fn planned(device: &Device) -> Outcome {
    let [m, n, k] = [20, 40, 64];
    let (a, b) = (F8E4M3::some(1, m * k), F8E4M3::some(2, n * k));
    let view = |rows| TensorView::<F8E4M3>::without_memory(device, &[rows, k], &[k, 1], 16);
    let out = TensorViewMut::<f32>::without_memory(device, &[m, n], &[n, 1], 16)?;
    let one = TensorView::<f32>::without_memory(device, &[1], &[1], 4)?;
    let plan = ScaledGemm::<f32>::new().scale_a(&one).plan(&view(m)?, &view(n)?, &out)?;
    let (a, b) = (Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &b, &[n, k])?);
    let stream = Stream::new(device)?;
    let mut first = Vec::new();
    for scale in [1.0f32, 4.0] {
        let (mut c, scale_there) =
            (Tensor::filled(device, f32::NAN, &[m, n])?, Tensor::filled(device, scale, &[1])?);
        let views = ScaledGemmViews { scale_a: Some(scale_there.view()), ..Default::default() };
        plan.run(&stream, &a.view(), &b.view(), &mut c.view_mut(), &views)?;
        let c = c.to_vec_on(&stream)?;
        if first.is_empty() {
            first = c;
        } else {
            assert!(c.iter().zip(&first).all(|(x, one)| *x == scale * one), "the scale of the second run");
        }
    }
    let error = plan.run(
        &stream,
        &a.view(),
        &b.view(),
        &mut Tensor::<f32>::zeros(device, &[m, n])?.view_mut(),
        &ScaledGemmViews::default(),
    );
    let text = error.expect_err("a scale is missing").to_string();
    assert!(text.starts_with("`scale_a` was not given"), "{text}");
    Ok(())
}
