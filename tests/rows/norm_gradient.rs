//! The gradients of RMSNorm and LayerNorm.

use std::collections::BTreeSet;

use tilewright::ops::Norm;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::rows;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, Tried, assert_each, output, packed, runnable};

const EPSILON: f32 = 1e-3;

/// How rows were normalised, and what is wanted.
#[derive(Clone, Copy, Debug)]
struct Case {
    centred: bool,
    added: bool,
    weight: bool,
    d_weight: bool,
    d_bias: bool,
}

const LAYER: Case = Case { centred: true, added: true, weight: true, d_weight: true, d_bias: true };
const RMS: Case = Case { centred: false, added: false, weight: true, d_weight: true, d_bias: false };

struct Inputs<T> {
    x: Vec<T>,
    dy: Vec<T>,
    d_sum: Vec<T>,
    weight: Vec<T>,
    from: Place,
    to: Place,
}

/// Results, and what each may be off by.
#[derive(Default)]
struct Exact {
    dx: Vec<[f64; 2]>,
    d_weight: Vec<[f64; 2]>,
    d_bias: Vec<[f64; 2]>,
}

impl<T: Number> Inputs<T> {
    fn new(from: Place, to: Place) -> Self {
        let (count, cols) = (from.count(), from.shape[2]);
        // Off the mean, so that LayerNorm has one to take away.
        let x = T::round(&normal::<f32>(1, count).iter().map(|x| x * 2.0 + 3.0).collect::<Vec<_>>());
        let [dy, d_sum] = [2, 3].map(|seed| normal::<T>(seed, count));
        Inputs { x, dy, d_sum, weight: normal::<T>(4, cols), from, to }
    }

    fn exact(&self, case: Case) -> Exact {
        let cols = self.from.shape[2];
        let [x, dy, d_sum] = [&self.x, &self.dy, &self.d_sum].map(|data| T::widen(data));
        let w = if case.weight { T::widen(&self.weight) } else { vec![1.0; cols] };
        let mut exact =
            Exact { dx: Vec::new(), d_weight: vec![[0.0; 2]; cols], d_bias: vec![[0.0; 2]; cols] };
        for ((x, dy), d_sum) in x.chunks(cols).zip(dy.chunks(cols)).zip(d_sum.chunks(cols)) {
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let (dx, by_weight) = rows::norm_gradient(&x, [dy, &w], f64::from(EPSILON), case.centred);
            let unit = rows::norm(&x, [&vec![1.0; cols], &vec![0.0; cols]], f64::from(EPSILON), case.centred);
            // One over the deviation: at least what it is in front of rows as long as these.
            let squares = unit.iter().map(|x| x * x).sum::<f64>() / cols as f64;
            let by = ((1.0 - squares).max(0.0) / f64::from(EPSILON)).sqrt() + 1.0;
            for (i, dx) in dx.iter().enumerate() {
                let g = f64::from(dy[i]) * f64::from(w[i]);
                let dx = dx + if case.added { f64::from(d_sum[i]) } else { 0.0 };
                let off = by * (g.abs() + unit[i].abs() + 1.0) * 4e-6;
                exact.dx.push([dx, dx.abs() * T::ROUNDING + T::LEAST + off]);
            }
            for (i, (sum, by_weight)) in exact.d_weight.iter_mut().zip(by_weight).enumerate() {
                let off = (by_weight.abs() + f64::from(dy[i]).abs()) * 4e-6;
                *sum = [sum[0] + by_weight, sum[1] + off];
            }
            for (sum, &dy) in exact.d_bias.iter_mut().zip(dy) {
                *sum = [sum[0] + f64::from(dy), sum[1] + f64::from(dy).abs() * 1e-6];
            }
        }
        for [sum, off] in exact.d_weight.iter_mut().chain(&mut exact.d_bias) {
            *off += sum.abs() * T::ROUNDING + T::LEAST;
        }
        exact
    }

    /// Runs the kernel of this name, or any; checks the results. Memory is the caller's if `given`.
    fn check(
        &self,
        device: &Device,
        case: Case,
        kernel: Option<&str>,
        given: bool,
    ) -> tilewright_support::Result<()> {
        let stream = Stream::new(device)?;
        let cols = self.from.shape[2];
        let weight = Tensor::from_slice(device, &self.weight, &[cols])?;
        let [x, dy, d_sum] =
            [&self.x, &self.dy, &self.d_sum].map(|data| Guarded::with(device, self.from, data));
        let (x, dy, d_sum) = (x?, dy?, d_sum?);
        let mut dx = output::<T>(device, self.to)?;
        // With room between the elements.
        let apart = Place::by_columns([1, 1, cols], 2);
        let mut vectors = [output::<T>(device, apart)?, output::<T>(device, apart)?];
        let what = format!("{kernel:?} of {}, {case:?}, {:?} to {:?}", T::DTYPE, self.from, self.to);
        {
            let norm = if case.centred { Norm::layer() } else { Norm::rms() }.epsilon(EPSILON);
            let (weight, d_sum) = (weight.view(), d_sum.view()?);
            let norm = if case.weight { norm.weight(&weight) } else { norm };
            let (x, dy, mut dx) = (x.view()?, dy.view()?, dx.view_mut()?);
            let [d_weight, d_bias] = &mut vectors;
            let (mut d_weight, mut d_bias) = (
                d_weight.view_mut()?.select(0, 0)?.select(0, 0)?,
                d_bias.view_mut()?.select(0, 0)?.select(0, 0)?,
            );
            let mut gradient = norm.gradient();
            gradient = kernel.into_iter().fold(gradient, |gradient, name| gradient.kernel(name));
            if case.added {
                gradient = gradient.d_sum(&d_sum);
            }
            if case.d_weight {
                gradient = gradient.d_weight(&mut d_weight);
            }
            if case.d_bias {
                gradient = gradient.d_bias(&mut d_bias);
            }
            let len = gradient.workspace_len(&x, &dy, &dx)?;
            assert_eq!(len == 0, !case.d_weight && !case.d_bias, "{what}");
            let mut memory = Tensor::filled(device, f32::NAN, &[len])?;
            let mut memory = memory.view_mut();
            if given {
                gradient = gradient.workspace(&mut memory);
            }
            gradient.run(&stream, &x, &dy, &mut dx)?;
            if given {
                stream.synchronize()?;
            }
        }
        let exact = self.exact(case);
        let values = |of: &[[f64; 2]]| of.iter().map(|of| of[0]).collect::<Vec<_>>();
        assert_each(&what, &dx, &values(&exact.dx), 0, |i| exact.dx[i][1]);
        for (is, (exact, wanted)) in
            vectors.iter().zip([(&exact.d_weight, case.d_weight), (&exact.d_bias, case.d_bias)])
        {
            match wanted {
                true => assert_each(&format!("{what}, columns"), is, &values(exact), 0, |i| exact[i][1]),
                false => assert!(T::widen(&is.read()?.0).iter().all(|x| x.is_nan()), "{what}: not wanted"),
            }
        }
        Ok(())
    }

    /// The kernels that can compute it.
    fn possible(&self, device: &Device, tried: Tried) -> tilewright_support::Result<Vec<&'static str>> {
        let [x, dy] = [output::<T>(device, self.from)?, output::<T>(device, self.from)?];
        let mut dx = output::<T>(device, self.to)?;
        let all = Norm::rms().gradient().candidates(&x.view()?, &dy.view()?, &dx.view_mut()?)?;
        Ok(tried.of(device, all.iter().map(|k| (k.name(), k.cycles()))))
    }

    /// Every kernel that can, with and without all that may be absent.
    fn check_all(
        &self,
        device: &Device,
        tried: Tried,
        seen: &mut BTreeSet<&'static str>,
    ) -> tilewright_support::Result<()> {
        for (turn, name) in self.possible(device, tried)?.into_iter().enumerate() {
            let turn = turn + self.from.shape[2] % 7;
            let case = Case {
                centred: turn.is_multiple_of(2),
                added: turn.is_multiple_of(3),
                weight: turn % 5 < 3,
                d_weight: !turn.is_multiple_of(6),
                d_bias: turn % 4 < 2,
            };
            self.check(device, case, Some(name), turn.is_multiple_of(2))?;
            seen.insert(name);
        }
        Ok(())
    }
}

/// Rows that fill nothing, and that fill every tile.
pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let mut seen = BTreeSet::new();
        // Longer rows would take the emulator most of the test's time; every kernel runs all the same.
        let longest = if device.is_emulator() { 20_000 } else { 131_072 };
        for (turn, cols) in LENGTHS.into_iter().chain([128]).filter(|&cols| cols <= longest).enumerate() {
            let rows = match cols {
                0..=1000 => 11,
                1001..=10_000 => 5,
                _ => 2,
            };
            let place = packed(rows, cols);
            Inputs::<T>::new(place, place).check_all(device, Tried::InTurn(turn), &mut seen)?;
        }
        assert_eq!(seen, runnable::<T>(device, "norm_gradient_"));
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// More tiles than the device takes at a time.
pub fn several_tiles(device: &Device) -> Outcome {
    let (sms, mut seen) = (device.sm_count() as usize, BTreeSet::new());
    for [rows, cols] in
        [[sms * 16 * 8 + 5, 8], [sms * 20, 1000], [sms * 9, 333], [sms * 7, 2048], [sms * 2, 16384]]
    {
        let place = packed(rows, cols);
        Inputs::<f16>::new(place, place).check_all(device, Tried::Likely, &mut seen)?;
    }
    for [rows, cols] in [[sms * 50, 128], [sms * 5, 5000], [sms * 9, 301]] {
        let place = packed(rows, cols);
        Inputs::<f32>::new(place, place).check_all(device, Tried::Likely, &mut seen)?;
    }
    // Of rows that begin anywhere the most that kernels have room for, and one more.
    fn at_limits<T: Number>(device: &Device, limits: &[[usize; 2]]) -> tilewright_support::Result<()> {
        for (rows, cols) in limits.iter().flat_map(|&[rows, most]| [(rows, most), (rows, most + 1)]) {
            let place = packed(rows, cols);
            Inputs::<T>::new(place, place).check_all(device, Tried::Likely, &mut BTreeSet::new())?;
        }
        Ok(())
    }
    at_limits::<bf16>(device, &[[sms * 20, 761], [sms * 9, 3065], [sms * 3, 12281], [17, 24569]])?;
    at_limits::<f32>(device, &[[sms * 20, 637], [sms * 9, 2557], [sms * 3, 10237], [9, 20477]])?;
    Ok(())
}

/// Padded, unaligned, by columns, with other places of dx; matrices that one launch does not reach.
pub fn places(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        for shape @ [_, rows, cols] in [[2, 3, 1000], [1, 5, 33], [1, 2, 20_000]] {
            let by_rows = Place::by_rows(shape, cols + 8);
            let places = [
                by_rows,
                Place::by_rows(shape, cols + 3),
                by_rows.shifted(1),
                Place::by_columns(shape, rows + 2),
            ];
            for (i, &from) in places.iter().enumerate() {
                Inputs::<T>::new(from, from).check(device, LAYER, None, false)?;
                Inputs::<T>::new(from, places[(i + 1) % 4]).check(device, RMS, None, true)?;
            }
        }
        Ok(())
    }
    of::<bf16>(device)?;
    of::<f32>(device)?;
    // Five dimensions in two orders: several launches go on with the same sums.
    let stream = Stream::new(device)?;
    for cols in [8, 5] {
        let shape = [3, 2, 4, 5, cols];
        let values = [1, 2].map(|seed| normal::<f32>(seed, shape.iter().product()));
        let [x, dy] = values.each_ref().map(|values| Tensor::from_slice(device, values, &shape));
        let (x, dy) = (x?, dy?);
        let [x, dy] = [&x, &dy].map(|tensor| tensor.view().transpose(0, 3)?.transpose(1, 2));
        let (x, dy) = (x?, dy?);
        let mut dx = Tensor::filled(device, f32::NAN, &[5, 4, 2, 3, cols])?;
        let mut d_weight = Tensor::filled(device, f32::NAN, &[cols])?;
        let (mut d_weight_view, norm) = (d_weight.view_mut(), Norm::rms().epsilon(EPSILON));
        norm.gradient().d_weight(&mut d_weight_view).run(&stream, &x, &dy, &mut dx.view_mut())?;
        let (x, dy, ones) = (x.to_vec()?, dy.to_vec()?, vec![1.0; cols]);
        let mut sums = vec![0.0; cols];
        for ((x, dy), is) in x.chunks(cols).zip(dy.chunks(cols)).zip(dx.to_vec()?.chunks(cols)) {
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let (dx, by_weight) = rows::norm_gradient(&x, [dy, &ones], f64::from(EPSILON), false);
            let near = |(is, dx): (&f32, f64)| (f64::from(*is) - dx).abs() < 1e-4;
            assert!(is.iter().zip(dx).all(near), "{cols}");
            sums.iter_mut().zip(by_weight).for_each(|(sum, by)| *sum += by);
        }
        let near = |(is, sum): (&f32, f64)| (f64::from(*is) - sum).abs() < 1e-4;
        assert!(d_weight.to_vec()?.iter().zip(sums).all(near), "{cols}");
    }
    Ok(())
}

/// NaN stays in its row of dx, and with an epsilon of 0 what lies outside of the tensor does not count.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 128, 1000, 8192, 8193] {
        let rows = 5;
        let mut x = normal::<f32>(cols as u64, rows * cols);
        // Its square is none in f32.
        x[3 * cols + 1] = 1e30;
        let dy = Tensor::from_slice(device, &vec![1f32; rows * cols], &[rows, cols])?;
        for poisoned in [false, true] {
            if poisoned {
                x[2 * cols + 1] = f32::NAN;
            }
            let x = Tensor::from_slice(device, &x, &[rows, cols])?;
            for norm in [Norm::rms(), Norm::layer()] {
                let mut dx = Tensor::filled(device, 7f32, &[rows, cols])?;
                let [mut d_weight, mut d_bias] =
                    [Tensor::filled(device, 7f32, &[cols])?, Tensor::filled(device, 7f32, &[cols])?];
                let (mut d_weight_view, mut d_bias_view) = (d_weight.view_mut(), d_bias.view_mut());
                let gradient = norm.epsilon(0.0).gradient();
                let mut gradient = gradient.d_weight(&mut d_weight_view).d_bias(&mut d_bias_view);
                gradient.run(&stream, &x.view(), &dy.view(), &mut dx.view_mut())?;
                drop(gradient);
                for (i, row) in dx.to_vec()?.chunks(cols).enumerate() {
                    let nan = row.iter().filter(|dx| dx.is_nan()).count();
                    assert_eq!(nan, if poisoned && i == 2 { cols } else { 0 }, "{cols}, row {i}");
                    assert!(i != 3 || row.iter().all(|&dx| dx == 0.0), "{cols}: squares overflow");
                }
                assert!(d_weight.to_vec()?.iter().all(|dw| dw.is_nan() == poisoned), "{cols}");
                assert!(d_bias.to_vec()?.iter().all(|&db| db == rows as f32), "{cols}");
                let mut infinite = vec![1f32; rows * cols];
                infinite[cols + 2] = f32::INFINITY;
                let infinite = Tensor::from_slice(device, &infinite, &[rows, cols])?;
                let mut gradient = norm.gradient();
                gradient.run(&stream, &x.view(), &infinite.view(), &mut dx.view_mut())?;
                for (i, row) in dx.to_vec()?.chunks(cols).enumerate().filter(|(i, _)| *i != 2) {
                    assert!(row.iter().all(|dx| dx.is_finite() == (i != 1)), "{cols}, row {i}: an infinity");
                }
            }
        }
    }
    Ok(())
}

/// No rows: sums of nothing. No elements: nothing.
pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (shape, cols) in [(&[0, 5][..], 5), (&[2, 0, 3, 40], 40), (&[5, 0], 0), (&[0], 0)] {
        let (x, mut dx) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        let mut vectors = [0, 1].map(|_| Tensor::filled(device, f16::NAN, &[cols]));
        let [Ok(d_weight), Ok(d_bias)] = &mut vectors else { return Err("no memory".into()) };
        let (mut d_weight_view, mut d_bias_view) = (d_weight.view_mut(), d_bias.view_mut());
        let mut gradient = Norm::layer().gradient().d_weight(&mut d_weight_view).d_bias(&mut d_bias_view);
        assert_eq!(gradient.workspace_len(&x.view(), &x.view(), &dx.view_mut())?, 0);
        gradient.run(&stream, &x.view(), &x.view(), &mut dx.view_mut())?;
        drop(gradient);
        let zero = |x: &f16| *x == f16::ZERO;
        assert!(d_weight.to_vec()?.iter().all(zero) && d_bias.to_vec()?.iter().all(zero), "{shape:?}");
    }
    Ok(())
}

/// A graph replays it with memory of the caller's alone; two runs give the same bits.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let [rows, cols] = [device.sm_count() as usize * 9, 1024];
    let [x, dy] =
        [1, 2].map(|seed| Tensor::from_slice(device, &normal::<bf16>(seed, rows * cols), &[rows, cols]));
    let (x, dy) = (x?, dy?);
    let mut dx = Tensor::<bf16>::zeros(device, &[rows, cols])?;
    let mut d_weight = Tensor::<bf16>::zeros(device, &[cols])?;
    {
        let mut view = d_weight.view_mut();
        let mut gradient = Norm::rms().gradient().d_weight(&mut view);
        let mut launch = |stream: &Stream| gradient.run(stream, &x.view(), &dy.view(), &mut dx.view_mut());
        let error = stream.capture(&mut launch).expect_err("memory of its own");
        let text = "`workspace` was not given; it must be given to a call that is captured: ";
        assert!(error.to_string().starts_with(text), "{error}");
        launch(&stream)?;
    }
    let once = [d_weight.to_vec_on(&stream)?, dx.to_vec_on(&stream)?];
    let len = {
        let mut view = d_weight.view_mut();
        let gradient = Norm::rms().gradient().d_weight(&mut view);
        gradient.workspace_len(&x.view(), &dy.view(), &dx.view_mut())?
    };
    let mut memory = Tensor::filled(device, f32::NAN, &[len])?;
    let graph = {
        let (mut memory, mut view) = (memory.view_mut(), d_weight.view_mut());
        let mut gradient = Norm::rms().gradient().d_weight(&mut view).workspace(&mut memory);
        stream.capture(|stream| gradient.run(stream, &x.view(), &dy.view(), &mut dx.view_mut()))?
    };
    for _ in 0..2 {
        dx.write(&vec![bf16::NAN; rows * cols])?;
        d_weight.write(&vec![bf16::NAN; cols])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        assert!(once == [d_weight.to_vec_on(&stream)?, dx.to_vec_on(&stream)?]);
    }
    Ok(())
}
