//! The step of one token.

use tilewright::ops::{Ssd, SsdStep, kernels};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Data, Number};

/// A token of each sequence, from a state of `S`.
fn check<T: Number, U: Number2, S: Number2>(
    device: &Device,
    [heads, groups, p, n]: [usize; 4],
    all: bool,
) -> Outcome {
    let batch = 2;
    let case = Case {
        batch,
        heads,
        groups,
        p,
        n,
        skip: all,
        gate: all,
        bias: all,
        softplus: all,
        a: vec![-1.0, -0.1, -1e30, 0.0, -80.0],
        ..Case::new(1)
    };
    let mut data = Data::<T>::new(&case);
    // What the kernel is given, rounded to the type of the state and of dt.
    let initial = S::round(&data.initial);
    data.initial = S::widen(&initial);
    let dt = U::round(&T::widen(&data.dt));
    let stream = Stream::new(device)?;
    let of = |of: &[T], count: usize, cols: usize| Tensor::from_slice(device, of, &[batch, count, cols]);
    let (x, b, c, z) =
        (of(&data.x, heads, p)?, of(&data.b, groups, n)?, of(&data.c, groups, n)?, of(&data.z, heads, p)?);
    let dt = Tensor::from_slice(device, &dt, &[batch, heads])?;
    let [a, bias, skip] =
        [&data.a, &data.bias, &data.skip].map(|of| Tensor::from_slice(device, of, &[heads]));
    let (a, bias, skip) = (a?, bias?, skip?);
    let mut state = Tensor::from_slice(device, &initial, &[batch, heads, p, n])?;
    let mut y = Tensor::filled(device, T::POISON, &[batch, heads, p])?;
    let (bias, skip, z) = (bias.view(), skip.view(), z.view());
    let step = SsdStep::new();
    let step = if all { step.dt_bias(&bias).softplus().skip(&skip).gate(&z) } else { step };
    let bc = [&b.view(), &c.view()];
    step.run(&stream, &x.view(), &dt.view(), &a.view(), bc, &mut y.view_mut(), &mut state.view_mut())?;
    let exact = data.exact(&case);
    let what = format!("{} {} {} {heads} {groups} {p} {n} {all}", T::DTYPE, U::DTYPE, S::DTYPE);
    let near = |name: &str, got: &[f32], exact: &[[f64; 2]], rounding: f64| {
        assert_eq!(got.len(), exact.len());
        for (i, (&got, &[exact, size])) in got.iter().zip(exact).enumerate() {
            let allowed = 1e-5 * size + rounding * exact.abs() + 1e-6;
            assert!(
                (f64::from(got) - exact).abs() <= allowed,
                "{what}: {name} {i} is {got:e}, must be {exact:e}"
            );
        }
    };
    near("y", &T::widen(&y.to_vec()?), &exact[0], T::ROUNDING);
    near("state", &S::widen(&state.to_vec()?), &exact[1], S::ROUNDING);
    Ok(())
}

/// Element types of dt and of states.
trait Number2: Real + tilewright::ops::FloatElement {}
impl<T: Real + tilewright::ops::FloatElement> Number2 for T {}

pub fn every_kernel(device: &Device) -> Outcome {
    let count = kernels().filter(|k| k.name.starts_with("state_step")).count();
    assert_eq!(count, 8, "each is run below");
    check::<f16, f16, f16>(device, [3, 1, 64, 128], true)?;
    check::<f16, f32, f32>(device, [4, 2, 64, 128], false)?;
    check::<f16, f16, f32>(device, [2, 2, 40, 64], true)?;
    check::<f16, f32, f16>(device, [2, 1, 33, 200], false)?;
    check::<bf16, bf16, bf16>(device, [3, 3, 64, 128], true)?;
    check::<bf16, f32, f32>(device, [2, 1, 128, 256], true)?;
    check::<bf16, bf16, f32>(device, [5, 1, 7, 5], true)?;
    check::<bf16, f32, bf16>(device, [2, 1, 64, 16], false)
}

/// A sequence's tokens one by one, from the state of the scan before them, come near to what the scan makes of them.
pub fn tokens(device: &Device) -> Outcome {
    let (length, heads, p, n) = (70, 2, 64, 64);
    let stream = Stream::new(device)?;
    let tensor = |seed, shape: &[usize]| {
        Tensor::from_slice(device, &normal::<f16>(seed, shape.iter().product()), shape)
    };
    let (x, dt) = (tensor(1, &[1, length, heads, p])?, tensor(2, &[1, length, heads])?);
    let (b, c) = (tensor(3, &[1, length, 1, n])?, tensor(4, &[1, length, 1, n])?);
    let a = Tensor::from_slice(device, &[-1.0, -0.2], &[heads])?;
    let mut y = Tensor::filled(device, f16::NAN, &[1, length, heads, p])?;
    let mut state = Tensor::<f32>::zeros(device, &[1, heads, p, n])?;
    let (x, dt, a, b, c) = (x.view(), dt.view(), a.view(), b.view(), c.view());
    Ssd::new().softplus().run(&stream, &x, &dt, &a, [&b, &c], &mut y.view_mut())?;
    let scanned = y.to_vec()?;
    for t in 0..length {
        let [x, dt, b, c] = [&x, &dt, &b, &c].map(|of| of.clone().select(1, t));
        let (x, dt, b, c) = (x?, dt?, b?, c?);
        let mut y = y.view_mut().select(1, t)?;
        SsdStep::new().softplus().run(&stream, &x, &dt, &a, [&b, &c], &mut y, &mut state.view_mut())?;
    }
    let largest = scanned.iter().map(|y| y.to_f32().abs()).fold(0.0, f32::max);
    for (i, (one, all)) in y.to_vec()?.iter().zip(&scanned).enumerate() {
        let error = (one.to_f32() - all.to_f32()).abs();
        assert!(error <= 2e-3 * largest, "element {i} is {one} by steps, {all} by the scan");
    }
    Ok(())
}
