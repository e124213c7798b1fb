//! Gated units in the epilogue.

use std::collections::BTreeSet;

use tilewright::ops::{Activation, Gemm, HalfElement, kernels};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::exact;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Gates, or ups, that follow each other.
const GATES: usize = 8;

/// Every kernel on partial and whole tiles, more rows than a tile has, and several tiles a CTA.
pub fn units(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    units_of::<f16>(device, &mut seen)?;
    units_of::<bf16>(device, &mut seen)?;
    let named = kernels()
        .map(|kernel| kernel.name)
        .filter(|name| name.starts_with("gemm_") && name.contains("_gated_"));
    assert_eq!(seen, named.collect::<BTreeSet<_>>());
    Ok(())
}

fn units_of<T: Real + HalfElement>(device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
    let stream = Stream::new(device)?;
    for [m, n, k] in [[1, 8, 64], [1, 4304, 136], [5, 104, 392], [16, 64, 256], [33, 40, 640]] {
        let (x, w) = (normal::<T>(1, m * k), normal::<T>(2, 2 * n * k));
        let (x_at, w_at) =
            (Tensor::from_slice(device, &x, &[m, k])?, Tensor::from_slice(device, &w, &[2 * n, k])?);
        let (x, w) = (T::widen(&x), T::widen(&w));
        let alpha = (k as f32).sqrt().recip();
        // A sum, and that of its terms' magnitudes.
        let sum = |row: usize, of: usize| {
            let terms = x[row * k..][..k].iter().zip(&w[of * k..][..k]);
            let terms = terms.map(|(&x, &w)| f64::from(alpha) * f64::from(x) * f64::from(w));
            terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()))
        };
        for activation in [Activation::Gelu, Activation::Silu] {
            let mut c = Tensor::filled(device, T::POISON, &[m, n])?;
            let gemm = Gemm::<T>::new().alpha(alpha).activation(activation).gated();
            let (w, view) = (w_at.view().transpose(0, 1)?, c.view_mut());
            let plan = gemm.plan(&x_at.view(), &w, &view)?;
            seen.insert(plan.kernel().name());
            plan.run(&stream, &x_at.view(), &w, &mut c.view_mut(), &Default::default())?;
            for (i, got) in T::widen(&c.to_vec_on(&stream)?).into_iter().enumerate() {
                let (row, column) = (i / n, i % n);
                let at = column / GATES * 2 * GATES + column % GATES;
                let ((gate, gates), (up, ups)) = (sum(row, at), sum(row, at + GATES));
                let want = exact(activation, gate) * up;
                let allowed = T::ROUNDING * want.abs() + 1e-5 * (1.0 + gates) * (1.0 + ups);
                let off = (f64::from(got) - want).abs();
                if off.is_nan() || off > allowed {
                    return Err(
                        format!("{m} x {n} x {k}, {activation}: element {i} is {got}, not {want}").into()
                    );
                }
            }
        }
    }
    Ok(())
}

/// What has no gated units says so, and leaves C alone.
pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ones = |rows: usize, cols: usize| Tensor::filled(device, f16::ONE, &[rows, cols]);
    let (x, w, bias) = (ones(2, 64)?, ones(64, 64)?, ones(1, 32)?);
    let bias = bias.view();
    let silu = || Gemm::<f16>::new().activation(Activation::Silu).gated();
    for (name, gemm, columns, rows) in [
        ("c", silu(), 31, 64),
        ("b", silu(), 24, 64),
        ("b", silu(), 32, 48),
        ("bias", silu().bias(&bias), 32, 64),
        ("beta", silu().beta(1.0), 32, 64),
    ] {
        let mut c = Tensor::filled(device, f16::NAN, &[2, columns])?;
        let w = w.view().narrow(0, 0, rows)?.transpose(0, 1)?;
        match gemm.run(&stream, &x.view(), &w, &mut c.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
        assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    }
    let (mut c, w) = (ones(2, 32)?, w.view().transpose(0, 1)?);
    assert!(silu().activation(Activation::Relu).run(&stream, &x.view(), &w, &mut c.view_mut()).is_err());
    Ok(())
}
