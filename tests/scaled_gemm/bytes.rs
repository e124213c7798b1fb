//! C of e4m3, with a scale and its largest magnitude.

use std::collections::BTreeSet;

use tilewright::ops::{Activation, ScaledGemm, ScaledGemmViews, ScaledOutput};
use tilewright::{
    Device, Error, F8E4M3, F8E5M2, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16,
};
use tilewright_support::guarded::Place;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Scaled};

/// M, N and K: one row, few and many, partial tiles and whole ones, lines that are and are no multiples of 16 bytes.
const SIZES: [[usize; 3]; 7] = [
    [1, 1, 16],
    [1, 208, 144],
    [16, 64, 1040],
    [100, 130, 272],
    [130, 257, 272],
    [264, 144, 128],
    [256, 256, 64],
];

pub fn sizes(device: &Device) -> Outcome {
    for size in SIZES {
        Case::<F8E4M3, F8E4M3>::new(size, Scaled::No).check::<F8E4M3>(device)?;
    }
    for scaled in [Scaled::Tensors, Scaled::Rows] {
        let mut case = Case::<F8E4M3, F8E4M3>::new([100, 272, 272], scaled);
        (case.alpha, case.biased, case.activation) = (0.5, true, Activation::Gelu);
        case.check::<F8E4M3>(device)?;
        case.fast = true;
        case.check::<F8E4M3>(device)?;
    }
    let [m, n, k] = [67, 80, 144];
    let mut case = Case::<F8E4M3, F8E4M3>::new([m, n, k], Scaled::Rows);
    (case.alpha, case.activation, case.biased) = (-0.5, Activation::Silu, true);
    let rows = Place::by_rows([1, m, n], 96);
    let columns = Place::by_columns([1, m, n], 80);
    for place in [rows, rows.shifted(1), rows.shifted(2), columns, rows.strided([1, 2 * n + 1, 2])] {
        case.check_at::<F8E4M3>(device, place)?;
    }
    case.check_at::<F8E4M3>(device, Place::by_rows([1, m, n], 81))
}

/// Small integers over 8, whose sums f32 holds.
struct Exact {
    size: [usize; 3],
    a: Tensor<F8E4M3>,
    b: Tensor<F8E4M3>,
    /// act(alpha A Bᵀ + bias).
    numbers: Vec<f32>,
}

const ALPHA: f32 = 0.125;

impl Exact {
    fn new(device: &Device, [m, n, k]: [usize; 3], of: impl Fn(f32) -> f32) -> Result<Self> {
        let value = |i: usize| F8E4M3::from_f32(((i * 7 + i / 64 + i / 4096) % 5) as f32 - 2.0);
        let mut case = Case::<F8E4M3, F8E4M3>::new([m, n, k], Scaled::No);
        case.a = (0..m * k).map(value).collect();
        case.b = (0..n * k).map(|i| value(i + 1)).collect();
        let number = |at: usize| of(ALPHA * case.sum(at / n, at % n).0 as f32);
        Ok(Exact {
            size: [m, n, k],
            numbers: (0..m * n).map(number).collect(),
            a: Tensor::from_slice(device, &case.a, &[m, k])?,
            b: Tensor::from_slice(device, &case.b, &[n, k])?,
        })
    }

    fn amax(&self) -> f32 {
        self.numbers.iter().fold(0.0, |most, x| x.abs().max(most))
    }
}

pub fn exact(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for size in SIZES {
        let case = Exact::new(device, size, |x| x.max(0.0))?;
        let [m, n, _] = case.size;
        let scale = Tensor::filled(device, 0.37f32, &[1])?;
        let scale_view = scale.view();
        for (fast, scaled) in [(false, true), (true, true), (false, false)] {
            let new = || ScaledGemm::new().alpha(ALPHA).activation(Activation::Relu).fast_accumulation(fast);
            let mut c = Tensor::<F8E4M3>::zeros(device, &[m, n])?;
            let (a, b) = (case.a.view(), case.b.view());
            for kernel in new().candidates(&a, &b, &c.view_mut())? {
                if kernel.rejection().is_some() {
                    continue;
                }
                let mut c = Tensor::filled(device, F8E4M3::from_bits(0x7f), &[m, n])?;
                // Less than 0: all there is is greater.
                let mut amax = Tensor::filled(device, -3.0f32, &[1])?;
                let (mut amax_view, name) = (amax.view_mut(), kernel.name());
                let mut gemm = new().kernel(name).amax(&mut amax_view);
                if scaled {
                    gemm = gemm.scale_c(&scale_view);
                }
                gemm.run(&stream, &a, &b, &mut c.view_mut())?;
                assert_eq!(amax.to_vec_on(&stream)?, [case.amax()], "{name}, {size:?}: amax");
                let factor = if scaled { 0.37f32 } else { 1.0 };
                for (at, (got, x)) in c.to_vec_on(&stream)?.iter().zip(&case.numbers).enumerate() {
                    let want = F8E4M3::from_f32(factor * x);
                    assert_eq!(got.to_bits(), want.to_bits(), "{name}, {size:?}: element {at} of {x}");
                }
            }
        }
    }
    Ok(())
}

/// Runs on every kernel: C and amax are these in all of their elements.
fn constant(device: &Device, [x, y]: [f32; 2], alpha: f32, scale_c: f32, [want, most]: [f32; 2]) -> Outcome {
    let (stream, nan) = (Stream::new(device)?, F8E4M3::from_bits(0x7f));
    // Partial tiles: what lies outside is 0, times an infinite factor.
    for [m, n, k] in [[5, 48, 32], [130, 130, 144]] {
        let a = Tensor::filled(device, F8E4M3::from_f32(x), &[m, k])?;
        let b = Tensor::filled(device, F8E4M3::from_f32(y), &[n, k])?;
        let scale = Tensor::filled(device, scale_c, &[1])?;
        let (a, b, scale) = (a.view(), b.view(), scale.view());
        let mut c = Tensor::filled(device, nan, &[m, n])?;
        let all = ScaledGemm::new().candidates(&a, &b, &c.view_mut())?;
        for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
            let mut c = Tensor::filled(device, F8E4M3::from_f32(3.0), &[m, n])?;
            let mut amax = Tensor::filled(device, 0.0f32, &[1])?;
            let mut amax_view = amax.view_mut();
            let gemm = ScaledGemm::new().alpha(alpha).kernel(kernel.name());
            gemm.scale_c(&scale).amax(&mut amax_view).run(&stream, &a, &b, &mut c.view_mut())?;
            let same = |got: f32, want: f32| got == want || (got.is_nan() && want.is_nan());
            let (got, found) = (c.to_vec_on(&stream)?, amax.to_vec_on(&stream)?[0]);
            assert!(same(found, most), "{}: amax is {found}, not {most}", kernel.name());
            let wrong = got.iter().find(|got| !same(got.to_f32(), want));
            assert!(wrong.is_none(), "{}: {wrong:?}, not {want}", kernel.name());
        }
    }
    Ok(())
}

pub fn not_numbers(device: &Device) -> Outcome {
    let infinite = f32::INFINITY;
    constant(device, [1.0, -2.0], infinite, 1.0, [-448.0, infinite])?;
    constant(device, [1.0, 2.0], infinite, 0.0, [f32::NAN, infinite])?;
    constant(device, [f32::NAN, 2.0], 1.0, 1.0, [f32::NAN, f32::NAN])?;
    constant(device, [0.0, 2.0], infinite, 1.0, [f32::NAN, f32::NAN])?;
    constant(device, [0.0, 2.0], 1.0, infinite, [f32::NAN, 0.0])?;
    constant(device, [0.0, 2.0], 1.0, 7.0, [0.0, 0.0])?;
    // At the ends of the range: halfway between two numbers to the even one, from 2^-9 on, the least.
    let (stream, ones) = (Stream::new(device)?, Tensor::filled(device, F8E4M3::from_f32(1.0), &[40, 128])?);
    let (half, least) = (2f32.powi(-10), 2f32.powi(-9));
    for (number, want) in [
        (431.0, 416.0),
        (432.0, 448.0),
        (1e30, 448.0),
        (-1e30, -448.0),
        (half, 0.0),
        (1.5 * half, least),
        (-3.0 * half, -2.0 * least),
    ] {
        let mut c = Tensor::filled(device, F8E4M3::from_bits(0x7f), &[40, 40])?;
        let gemm = ScaledGemm::new().alpha(number / 128.0);
        gemm.run(&stream, &ones.view(), &ones.view(), &mut c.view_mut())?;
        let wrong = c.to_vec_on(&stream)?.into_iter().find(|x| x.to_f32() != want);
        assert!(wrong.is_none(), "{number} is {wrong:?}, not {want}");
    }
    Ok(())
}

/// amax goes on with what is there.
pub fn collected(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (small, large) =
        (Exact::new(device, [20, 32, 64], |x| x)?, Exact::new(device, [20, 32, 4096], |x| x)?);
    assert!(small.amax() < large.amax());
    let mut amax = Tensor::filled(device, 0.0f32, &[1])?;
    let mut c = Tensor::<F8E4M3>::zeros(device, &[20, 32])?;
    for (case, want) in [(&small, small.amax()), (&large, large.amax()), (&small, large.amax())] {
        let mut view = amax.view_mut();
        let gemm = ScaledGemm::new().alpha(ALPHA).amax(&mut view);
        gemm.run(&stream, &case.a.view(), &case.b.view(), &mut c.view_mut())?;
        assert_eq!(amax.to_vec_on(&stream)?, [want]);
    }
    // Without elements nothing is found; without depth there is the bias.
    let (none, empty) =
        (Tensor::<F8E4M3>::zeros(device, &[0, 64])?, Tensor::<F8E4M3>::zeros(device, &[20, 0])?);
    amax.view_mut().fill(&stream, 0.25)?;
    let mut view = amax.view_mut();
    let gemm = ScaledGemm::new().amax(&mut view);
    gemm.run(&stream, &none.view(), &small.b.view(), &mut c.view_mut().narrow(0, 0, 0)?)?;
    assert_eq!(amax.to_vec_on(&stream)?, [0.25]);
    let bias = Tensor::from_slice(device, &[-1.5, 0.5].map(bf16::from_f32).repeat(10), &[20])?;
    let (bias, mut c) = (bias.view(), Tensor::<F8E4M3>::zeros(device, &[20, 20])?);
    let mut view = amax.view_mut();
    let gemm = ScaledGemm::new().amax(&mut view).bias(&bias);
    gemm.run(&stream, &empty.view(), &empty.view(), &mut c.view_mut())?;
    assert_eq!(amax.to_vec_on(&stream)?, [1.5]);
    assert_eq!(c.to_vec_on(&stream)?, [-1.5, 0.5].map(F8E4M3::from_f32).repeat(200));
    Ok(())
}

/// A graph of a step of training: amax begins at 0 in each, of the scale of the moment.
pub fn planned(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let case = Exact::new(device, [24, 48, 128], |x| x)?;
    let [m, n, k] = case.size;
    let view = |rows| TensorView::<F8E4M3>::without_memory(device, &[rows, k], &[k, 1], 16);
    let out = TensorViewMut::<F8E4M3>::without_memory(device, &[m, n], &[n, 1], 16)?;
    let one = TensorView::<f32>::without_memory(device, &[1], &[1], 4)?;
    let mut most = TensorViewMut::<f32>::without_memory(device, &[1], &[1], 4)?;
    let gemm = ScaledGemm::new().alpha(ALPHA).scale_c(&one).amax(&mut most);
    let plan = gemm.plan(&view(m)?, &view(n)?, &out)?;
    let mut c = Tensor::<F8E4M3>::zeros(device, &[m, n])?;
    let mut scale = Tensor::filled(device, 1.0f32, &[1])?;
    let mut amax = Tensor::filled(device, f32::NAN, &[1])?;
    let graph = stream.capture(|stream| {
        amax.view_mut().fill(stream, 0.0)?;
        let (scale_c, amax) = (Some(scale.view()), Some(amax.view_mut()));
        let views = ScaledGemmViews { scale_c, amax, ..Default::default() };
        plan.run(stream, &case.a.view(), &case.b.view(), &mut c.view_mut(), &views)
    })?;
    for factor in [0.5f32, 16.0] {
        scale.write(&[factor])?;
        amax.write(&[1e9])?;
        // SAFETY: what it was captured with is alive, and nobody else uses it.
        unsafe { graph.launch(&stream)? };
        assert_eq!(amax.to_vec_on(&stream)?, [case.amax()]);
        let want = case.numbers.iter().map(|x| F8E4M3::from_f32(factor * x).to_bits());
        assert!(c.to_vec_on(&stream)?.iter().map(|x| x.to_bits()).eq(want), "by {factor}");
    }
    let views = ScaledGemmViews { scale_c: Some(scale.view()), ..Default::default() };
    let error = plan.run(&stream, &case.a.view(), &case.b.view(), &mut c.view_mut(), &views);
    let text = error.expect_err("amax is missing").to_string();
    assert!(text.starts_with("`amax` was not given"), "{text}");
    Ok(())
}

/// Kernels that divide the depth of tiles among all CTAs: in a workspace that holds anything, several times, and without one in a graph.
pub fn streamed(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (mut all, mut divided) = (BTreeSet::new(), BTreeSet::new());
    // Few tiles with deep sums, of one row too; more tiles than CTAs.
    for size in [[100, 120, 4112], [60, 64, 4096], [1, 50, 3056], [153, 130, 2048], [300, 1040, 1168]] {
        let case = Exact::new(device, size, |x| x)?;
        let [m, n, _] = size;
        let mut c = Tensor::<f16>::zeros(device, &[m, n])?;
        let want: Vec<_> = case.numbers.iter().map(|&x| f16::from_f32(x)).collect();
        let (a, b, views) = (case.a.view(), case.b.view(), ScaledGemmViews::default());
        let gemm = ScaledGemm::new().alpha(ALPHA);
        let names: Vec<_> = gemm.candidates(&a, &b, &c.view_mut())?.iter().map(|one| one.name()).collect();
        let names = names.into_iter().filter(|name| name.ends_with("_stream"));
        for name in names {
            let plan = ScaledGemm::new().alpha(ALPHA).kernel(name).plan(&a, &b, &c.view_mut())?;
            all.insert(name);
            if plan.workspace_len() > 0 {
                divided.insert(name);
            }
            let mut room = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
            for _ in 0..2 {
                c.view_mut().fill(&stream, f16::NAN)?;
                plan.run_in(&stream, &a, &b, &mut c.view_mut(), &views, &mut room.view_mut())?;
                assert_eq!(c.to_vec_on(&stream)?, want, "{name} {size:?}");
            }
            c.view_mut().fill(&stream, f16::NAN)?;
            let graph = stream.capture(|stream| plan.run(stream, &a, &b, &mut c.view_mut(), &views))?;
            // SAFETY: what it was captured with is alive, and nobody else uses it.
            unsafe { graph.launch(&stream)? };
            assert_eq!(c.to_vec_on(&stream)?, want, "{name} {size:?}, captured");
        }
    }
    assert!(!all.is_empty() && all == divided, "{all:?} divide tiles; {divided:?} did");
    Ok(())
}

fn expect<T: std::fmt::Debug>(result: Result<T>, text: &str) {
    assert_eq!(result.expect_err("it is refused").to_string(), text);
}

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let a = Tensor::filled(device, F8E4M3::from_f32(1.0), &[24, 128])?;
    let (a, one) = (a.view(), Tensor::filled(device, 1.0f32, &[1])?);
    let (one, two) = (one.view(), Tensor::filled(device, 1.0f32, &[2])?);
    let two = two.view();
    fn other<U: ScaledOutput>(
        device: &Device,
        a: &TensorView<'_, F8E4M3>,
        one: &TensorView<'_, f32>,
    ) -> Outcome {
        let (stream, name) = (Stream::new(device)?, U::DTYPE);
        let mut c = Tensor::<U>::zeros(device, &[24, 24])?;
        let mut amax = Tensor::filled(device, 0.0f32, &[1])?;
        let mut view = amax.view_mut();
        let must = "it must be left out but for a `c` of e4m3";
        let error = ScaledGemm::new().scale_c(one).run(&stream, a, a, &mut c.view_mut());
        expect(error, &format!("`scale_c` was given for a `c` of {name}; {must}"));
        let error = ScaledGemm::new().amax(&mut view).run(&stream, a, a, &mut c.view_mut());
        expect(error, &format!("`amax` was given for a `c` of {name}; {must}"));
        Ok(())
    }
    other::<bf16>(device, &a, &one)?;
    other::<f16>(device, &a, &one)?;
    other::<f32>(device, &a, &one)?;
    let mut c = Tensor::filled(device, F8E4M3::from_bits(0x7f), &[24, 24])?;
    let error = ScaledGemm::new().scale_c(&two).run(&stream, &a, &a, &mut c.view_mut());
    expect(error, "`scale_c` was of shape [2]; it must be of shape [1]");
    let mut both = Tensor::filled(device, 0.0f32, &[2])?;
    let mut view = both.view_mut();
    let error = ScaledGemm::new().amax(&mut view).run(&stream, &a, &a, &mut c.view_mut());
    expect(error, "`amax` was of shape [2]; it must be of shape [1]");
    // SAFETY: no call may use it.
    let mut inside = unsafe { TensorViewMut::<f32>::from_raw_parts(device, one.address(), &[1], &[1])? };
    let error = ScaledGemm::new().scale_a(&one).amax(&mut inside).run(&stream, &a, &a, &mut c.view_mut());
    assert!(matches!(error, Err(Error::Overlap { written: "amax", other: "scale_a" })), "{error:?}");
    // SAFETY: as above.
    let mut inside = unsafe { TensorViewMut::<f32>::from_raw_parts(device, c.address(), &[1], &[1])? };
    let error = ScaledGemm::new().amax(&mut inside).run(&stream, &a, &a, &mut c.view_mut());
    assert!(matches!(error, Err(Error::Overlap { .. })), "{error:?}");
    let blocks = [Tensor::filled(device, 1.0f32, &[24, 1])?, Tensor::filled(device, 1.0f32, &[1, 1])?];
    let blocks = blocks.each_ref().map(Tensor::view);
    let error = ScaledGemm::new().scale_a(&blocks[0]).scale_b(&blocks[1]);
    let error = error.run(&stream, &a, &a, &mut c.view_mut());
    let must = "it must be of shape [1] or one value a row, for a `c` of e4m3";
    expect(error, &format!("`scale_a` was of blocks; {must}"));
    let gradients = Tensor::<F8E5M2>::zeros(device, &[24, 128])?;
    let error = ScaledGemm::new().run(&stream, &gradients.view(), &a, &mut c.view_mut());
    let must = "it must be of bf16, f16, f32, for products of e5m2 and e4m3";
    expect(error, &format!("`c` was of e4m3; {must}"));
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.to_f32().is_nan()));
    Ok(())
}
