//! What the tests of the scan's gradients share: what is right, how a case is run.

use tilewright::ops::SsdGradient;
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::adjoint::{Sized, slope};
use crate::case::{Case, Data, Number, padded};
use crate::reference::{Head, Time, silu};

/// The results of a call, by name, as f32.
pub type Results = Vec<(&'static str, Vec<f32>)>;

/// dy of a case, and the gradient by the final states.
pub fn given<T: Number>(case: &Case) -> (Vec<T>, Vec<f32>) {
    let states = case.sequences().len() * case.heads * case.p * case.n;
    (normal(9, case.batch * case.length * case.heads * case.p), normal(10, states))
}

/// The gradients of a case, of each tensor as it lies.
pub fn exact<T: Number>(
    case: &Case,
    data: &Data<T>,
    (dy, d_last): (&[T], &[f32]),
) -> Vec<(&'static str, Vec<Sized>)> {
    let &Case { length, heads, groups, p, n, .. } = case;
    let wide = |of: &[T]| T::widen(of).into_iter().map(f64::from).collect::<Vec<_>>();
    let [x, dt, b, c, z, dy] = [&data.x, &data.dt, &data.b, &data.c, &data.z, dy].map(wide);
    let zeros = |len: usize| vec![[0.0; 2]; len];
    let (mut dx, mut d_dt, mut d_b, mut d_c, mut d_z) =
        (zeros(x.len()), zeros(dt.len()), zeros(b.len()), zeros(c.len()), zeros(x.len()));
    let (mut d_a, mut d_skip, mut d_bias, mut d_initial) =
        (zeros(heads), zeros(heads), zeros(heads), Vec::new());
    let put = |to: &mut Sized, x: Sized| *to = [to[0] + x[0], to[1] + x[1]];
    for (i, (matrix, rows)) in case.sequences().into_iter().enumerate() {
        for h in 0..heads {
            let g = h / (heads / groups);
            let pick = |of: &[f64], per: usize, at: usize, len: usize| {
                let each = |t: usize| of[((matrix * length + t) * per + at) * len..][..len].to_vec();
                rows.clone().flat_map(each).collect::<Vec<_>>()
            };
            let time = Time {
                a: data.a[h].into(),
                bias: if case.bias { data.bias[h].into() } else { 0.0 },
                softplus: case.softplus,
                limits: case.limits.map_or([0.0, f64::INFINITY], |limits| limits.map(f64::from)),
                skip: if case.skip { data.skip[h].into() } else { 0.0 },
            };
            let (own, own_dt) = (pick(&x, heads, h, p), pick(&dt, heads, h, 1));
            let (own_b, own_c) = (pick(&b, groups, g, n), pick(&c, groups, g, n));
            let head = Head { x: &own, dt: &own_dt, b: &own_b, c: &own_c, time, size: [p, n] };
            let state = |of: &[f32], is: bool| -> Vec<f64> {
                let of = &of[(i * heads + h) * p * n..][..p * n];
                of.iter().map(|&x| if is { x.into() } else { 0.0 }).collect()
            };
            let initial = state(&data.initial, case.initial);
            let (own_dy, own_z) = (pick(&dy, heads, h, p), pick(&z, heads, h, p));
            let gated: Vec<f64> = match case.gate {
                true => own_dy.iter().zip(&own_z).map(|(dy, &z)| dy * silu(z)).collect(),
                false => own_dy.clone(),
            };
            let y = head.scan(&initial).y;
            let by = head.gradients(&initial, &gated, &state(d_last, true));
            for (t, row) in rows.clone().enumerate() {
                let token = matrix * length + row;
                for q in 0..p {
                    let (at, own) = ((token * heads + h) * p + q, t * p + q);
                    dx[at] = by.x[own];
                    let of_y = own_dy[own] * slope(own_z[own]);
                    d_z[at] = [y[own][0] * of_y, y[own][1] * of_y.abs()];
                }
                for j in 0..n {
                    put(&mut d_b[(token * groups + g) * n + j], by.b[t * n + j]);
                    put(&mut d_c[(token * groups + g) * n + j], by.c[t * n + j]);
                }
                d_dt[token * heads + h] = by.dt[t];
            }
            put(&mut d_a[h], by.a);
            put(&mut d_skip[h], by.skip);
            put(&mut d_bias[h], by.bias);
            d_initial.extend(by.initial);
        }
    }
    let mut all = vec![("dx", dx), ("d_dt", d_dt), ("d_b", d_b), ("d_c", d_c), ("d_a", d_a)];
    all.extend([("d_skip", d_skip), ("d_dt_bias", d_bias), ("d_initial_state", d_initial)]);
    all.extend(case.gate.then_some(("d_gate", d_z)));
    all
}

/// Runs a case: all gradients.
pub fn run<T: Number>(
    device: &Device,
    case: &Case,
    data: &Data<T>,
    (dy, d_last): (&[T], &[f32]),
) -> Result<Results, tilewright::Error> {
    let stream = Stream::new(device)?;
    let &Case { batch, length, heads, groups, p, n, pad, .. } = case;
    let on = |of: &[T], count: usize, cols: usize| {
        Tensor::from_slice(device, &padded(of, count * cols, pad), &[batch, length, count * cols + pad])
    };
    let of = |tensor: &'_ Tensor<T>, count: usize, cols: usize| {
        let width = count * cols + pad;
        let (shape, strides) = ([batch, length, count, cols], [length * width, width, cols, 1]);
        // SAFETY: a view of the tensor's own elements, which outlives it.
        unsafe { TensorView::<T>::from_raw_parts(device, tensor.address(), &shape, &strides) }
    };
    let to = |tensor: &'_ mut Tensor<T>, count: usize, cols: usize| {
        let width = count * cols + pad;
        let (shape, strides) = ([batch, length, count, cols], [length * width, width, cols, 1]);
        // SAFETY: as above.
        unsafe { TensorViewMut::<T>::from_raw_parts(device, tensor.address(), &shape, &strides) }
    };
    let (x, b, c) = (on(&data.x, heads, p)?, on(&data.b, groups, n)?, on(&data.c, groups, n)?);
    let (z, dy) = (on(&data.z, heads, p)?, on(dy, heads, p)?);
    let dt = Tensor::from_slice(device, &data.dt, &[batch, length, heads])?;
    let [a, bias, skip] =
        [&data.a, &data.bias, &data.skip].map(|of| Tensor::from_slice(device, of, &[heads]));
    let (a, bias, skip) = (a?, bias?, skip?);
    let sequences = case.sequences();
    let states = [sequences.len(), heads, p, n];
    let (initial, d_last) =
        (Tensor::from_slice(device, &data.initial, &states)?, Tensor::from_slice(device, d_last, &states)?);
    let empty =
        |count: usize, cols: usize| Tensor::filled(device, T::POISON, &[batch, length, count * cols + pad]);
    let (mut dx, mut d_z) = (empty(heads, p)?, empty(heads, p)?);
    let (mut d_b, mut d_c) = (empty(groups, n)?, empty(groups, n)?);
    let mut d_dt = Tensor::filled(device, T::POISON, &[batch, length, heads])?;
    let vector = || Tensor::filled(device, f32::NAN, &[heads]);
    let (mut d_a, mut d_skip, mut d_bias) = (vector()?, vector()?, vector()?);
    let mut d_initial = Tensor::filled(device, f32::NAN, &states)?;
    {
        let ends = sequences.iter().map(|(_, rows)| rows.end as u32);
        let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
        let (bias, skip, initial, offsets, z) =
            (bias.view(), skip.view(), initial.view(), offsets.view(), of(&z, heads, p)?);
        let (mut dx, mut d_z) = (to(&mut dx, heads, p)?, to(&mut d_z, heads, p)?);
        let (mut d_b, mut d_c) = (to(&mut d_b, groups, n)?, to(&mut d_c, groups, n)?);
        let (mut d_dt, mut d_a, mut d_skip) = (d_dt.view_mut(), d_a.view_mut(), d_skip.view_mut());
        let (mut d_bias, mut d_initial, d_last) = (d_bias.view_mut(), d_initial.view_mut(), d_last.view());
        let mut gradient = SsdGradient::new().dx(&mut dx).d_b(&mut d_b).d_c(&mut d_c).d_dt(&mut d_dt);
        gradient = gradient.d_a(&mut d_a).d_skip(&mut d_skip).d_dt_bias(&mut d_bias);
        gradient = gradient.d_initial_state(&mut d_initial).d_final_state(&d_last);
        gradient = if case.bias { gradient.dt_bias(&bias) } else { gradient };
        gradient = if case.softplus { gradient.softplus() } else { gradient };
        gradient = if case.skip { gradient.skip(&skip) } else { gradient };
        gradient = if case.gate { gradient.gate(&z).d_gate(&mut d_z) } else { gradient };
        gradient = if case.initial { gradient.initial_state(&initial) } else { gradient };
        if let Some([least, most]) = case.limits {
            gradient = gradient.dt_limits(least, most);
        }
        if let Some(lengths) = &case.packed {
            gradient = gradient.packed(&offsets, lengths.iter().copied().max().unwrap_or(0));
        }
        if let Some(chunk) = case.chunk {
            gradient = gradient.chunk(chunk);
        }
        if let Some(kernel) = case.kernel {
            gradient = gradient.kernel(kernel);
        }
        let bc = [&of(&b, groups, n)?, &of(&c, groups, n)?];
        let (x, dy) = (of(&x, heads, p)?, of(&dy, heads, p)?);
        gradient.run(&stream, &x, &dt.view(), &a.view(), bc, &dy)?;
        stream.synchronize()?;
    }
    // Nothing between the tokens is written.
    let whole = |tensor: &Tensor<T>, width: usize| -> Result<Vec<f32>, tilewright::Error> {
        let all = T::widen(&tensor.to_vec()?);
        let rows: Vec<_> = all.chunks((width + pad).max(1)).map(|row| row.split_at(width)).collect();
        assert!(rows.iter().all(|(_, rest)| rest.iter().all(|x| x.is_nan())), "{case:?}");
        Ok(rows.iter().flat_map(|(row, _)| row.to_vec()).collect())
    };
    let mut all = vec![("dx", whole(&dx, heads * p)?), ("d_dt", T::widen(&d_dt.to_vec()?))];
    all.extend([("d_b", whole(&d_b, groups * n)?), ("d_c", whole(&d_c, groups * n)?)]);
    all.extend([("d_a", d_a.to_vec()?), ("d_skip", d_skip.to_vec()?), ("d_dt_bias", d_bias.to_vec()?)]);
    all.push(("d_initial_state", d_initial.to_vec()?));
    if case.gate {
        all.push(("d_gate", whole(&d_z, heads * p)?));
    }
    Ok(all)
}

/// Checks gradients against the adjoint: what is rounded to the element type is dy, weights, terms of states and states, each once for every term.
#[track_caller]
pub fn assert_near<T: Number>(case: &Case, got: &Results, exact: &[(&'static str, Vec<Sized>)]) {
    assert_eq!(got.len(), exact.len());
    for ((name, got), (of, exact)) in got.iter().zip(exact) {
        assert_eq!((name, got.len()), (of, exact.len()));
        // Of sums over tokens roundings are few of the terms', or none.
        let roundings = if matches!(*name, "d_dt" | "d_a" | "d_skip" | "d_dt_bias") { 1.5 } else { 2.5 };
        for (i, (&got, &[exact, size])) in got.iter().zip(exact).enumerate() {
            let allowed = roundings * T::ROUNDING * size + 1e-6 + 64.0 * T::LEAST;
            let error = (f64::from(got) - exact).abs();
            assert!(
                error <= allowed,
                "{case:?}: {name} {i} is {got:e}, must be {exact:e} to within {allowed:e}, of terms of {size:e}"
            );
        }
    }
}

pub fn check<T: Number>(device: &Device, case: &Case) -> Outcome {
    let (dy, d_last) = given::<T>(case);
    check_of(device, case, &Data::<T>::new(case), (&dy, &d_last))
}

/// The same, of numbers that have no sign: no sum is small beside its terms.
pub fn check_positive<T: Number>(device: &Device, case: &Case) -> Outcome {
    let positive = |of: &[T]| T::round(&T::widen(of).into_iter().map(f32::abs).collect::<Vec<_>>());
    let (mut data, (dy, d_last)) = (Data::<T>::new(case), given::<T>(case));
    for of in [&mut data.x, &mut data.b, &mut data.c] {
        *of = positive(of);
    }
    data.initial.iter_mut().for_each(|x| *x = x.abs());
    // Small, since sums of so many tokens are large.
    let small: Vec<_> = T::widen(&dy).into_iter().map(|dy| dy.abs() / 16.0).collect();
    let d_last: Vec<_> = d_last.into_iter().map(|x| x.abs() / 16.0).collect();
    check_of(device, case, &data, (&T::round(&small), &d_last))
}

fn check_of<T: Number>(device: &Device, case: &Case, data: &Data<T>, given: (&[T], &[f32])) -> Outcome {
    let results = run(device, case, data, given)?;
    assert_near::<T>(case, &results, &exact(case, data, given));
    Ok(())
}
