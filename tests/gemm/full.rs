//! Products of f32 in full precision, on each of their kernels.

use std::collections::BTreeSet;

use tilewright::ops::{Activation, Gemm, GemmViews, kernels};
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::suite::{Outcome, picked};

use crate::bias::Bias;
use crate::case::{Case, c_rows, flat};
use crate::operand::{LAYOUTS, Operand, padded};
use crate::reference::{Epilogue, Reference};

/// Sizes around tiles and none of theirs, lines by rows and by columns, with everything that an epilogue has.
pub fn kernels_of_f32(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    for [m, n, k] in [[1, 1, 1], [33, 65, 17], [129, 132, 40], [64, 256, 48], [5, 300, 100], [150, 20, 104]] {
        for (i, [a, b]) in LAYOUTS.into_iter().enumerate() {
            let a = Operand::<f32>::random(device, 1, a.place([1, m, k], padded))?;
            let b = Operand::<f32>::random(device, 2, b.place([1, k, n], padded))?;
            let reference = Reference::new(a.values(), b.values(), 1, m);
            let bias = Bias::<f32>::new(device, &[n], 1)?;
            for activation in Activation::ALL {
                let c = if i % 2 == 0 { c_rows([1, m, n]) } else { Place::by_columns([1, m, n], padded(m)) };
                let case = Case::<f32, f32>::new(&a, &b, &reference, c);
                let case = Case { alpha: 0.5, beta: -1.5, bias: Some(&bias), activation, ..case };
                for name in case.kernels(device)? {
                    if seen.insert(name) || picked(device, (name, i, [m, n, k]), 4) {
                        case.run(device, Some(name))?;
                    }
                }
            }
        }
    }
    let ours = kernels().filter(|kernel| kernel.name.starts_with("gemm_sm_80_f32_"));
    let left: Vec<_> = ours.map(|kernel| kernel.name).filter(|name| !seen.contains(name)).collect();
    assert!(left.is_empty(), "not run: {left:?}");
    Ok(())
}

/// Tiles whose depth CTAs divide, into equal parts or across tiles: with sums in memory of any values, twice; by the device's memory; and whole in a captured call, which has none.
pub fn divided(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut divided = 0;
    for ([m, n, k], layouts) in [([7, 140, 1000], &LAYOUTS[..2]), ([150, 70, 780], &LAYOUTS[1..3])] {
        for [of_a, of_b] in layouts {
            let a = Operand::<f32>::random(device, 1, of_a.place([1, m, k], padded))?;
            let b = Operand::<f32>::random(device, 2, of_b.place([1, k, n], padded))?;
            let reference = Reference::new(a.values(), b.values(), 1, m);
            let case = Case::<f32, f32>::new(&a, &b, &reference, c_rows([1, m, n]));
            let (on_a, on_b) = (a.view()?, b.view()?);
            let exact =
                Epilogue { alpha: 1.0, beta: 0.0, old: &[], bias: None, activation: Activation::Identity };
            for name in case.kernels(device)? {
                let gemm = Gemm::new().kernel(name);
                let mut c = Guarded::<f32>::at(device, c_rows([1, m, n]))?;
                let plan = gemm.plan(&on_a, &on_b, &flat(c.view_mut()?)?)?;
                divided += usize::from(plan.workspace_len() > 0);
                let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len().max(1)])?;
                for run in 0..4 {
                    c.write(&vec![f32::NAN; m * n])?;
                    let mut out = flat(c.view_mut()?)?;
                    let views = GemmViews::default();
                    match run {
                        0 | 1 => {
                            plan.run_in(&stream, &on_a, &on_b, &mut out, &views, &mut memory.view_mut())?
                        }
                        2 => plan.run(&stream, &on_a, &on_b, &mut out, &views)?,
                        _ => {
                            let graph = stream.capture(|stream| gemm.run(stream, &on_a, &on_b, &mut out))?;
                            // SAFETY: the tensors are alive.
                            unsafe { graph.launch(&stream)? };
                        }
                    }
                    stream.synchronize()?;
                    let (out, outside) = c.read()?;
                    assert_eq!(outside, 0, "{name} {run}: elements outside of C were written");
                    reference.check(&out, &exact).map_err(|error| format!("{name} {run}: {error}"))?;
                }
            }
        }
    }
    assert!(divided > 3, "{divided} plans divide tiles");
    Ok(())
}

/// Sums that tf32 or bf16 could not hold are exact, and there is no C of fewer bits.
pub fn precision(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (m, n, k) = (40, 50, 60);
    // Integers of 12 bits: products have 24, and those that cancel are left with the last.
    let value = |i: usize| (i * 7919 % 4096) as f32 - 2048.0;
    let a: Vec<f32> = (0..m * k).map(value).collect();
    let b: Vec<f32> = (0..k * n).map(|i| if i / n % 2 == 0 { 4095.0 } else { -4095.0 }).collect();
    let (on_a, on_b) = (Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &b, &[k, n])?);
    let mut c = Tensor::filled(device, f32::NAN, &[m, n])?;
    for kernel in Gemm::new().candidates(&on_a.view(), &on_b.view(), &c.view_mut())? {
        if kernel.rejection().is_some() {
            continue;
        }
        Gemm::new().kernel(kernel.name()).run(&stream, &on_a.view(), &on_b.view(), &mut c.view_mut())?;
        for (i, out) in c.to_vec_on(&stream)?.into_iter().enumerate() {
            let exact: f64 = (0..k).map(|j| f64::from(a[i / n * k + j]) * f64::from(b[j * n + i % n])).sum();
            // Sums up to 2^28 are rounded to multiples of 16 at most, once a step.
            assert!(
                (f64::from(out) - exact).abs() <= 16.0 * k as f64,
                "{}: {out} and not {exact}",
                kernel.name()
            );
        }
    }
    let mut half = Tensor::<f16>::zeros(device, &[m, n])?;
    let error = Gemm::new().run(&stream, &on_a.view(), &on_b.view(), &mut half.view_mut());
    let error = error.expect_err("f32 to f16").to_string();
    assert!(error.contains("f32 -> f16"), "{error}");
    Ok(())
}
