//! Rotary position embedding.

use std::collections::BTreeSet;

use tilewright::ops::{Indices, Pairs, Rope, rope};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Number, assert_near, by_each, done, packed, places, runnable};

/// Rows of `heads` heads and `cols` columns, rotated: row r / heads has the position that is given for it.
fn rotated(
    x: &[f64],
    [heads, cols]: [usize; 2],
    rotated: usize,
    pairs: Pairs,
    theta: f64,
    position: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let mut y = x.to_vec();
    for (row, y) in y.chunks_mut(cols).enumerate() {
        for pair in 0..rotated / 2 {
            let angle = position(row / heads) * theta.powf(-2.0 * pair as f64 / rotated as f64);
            let [a, b] = match pairs {
                Pairs::Interleaved => [2 * pair, 2 * pair + 1],
                Pairs::Halves => [pair, pair + rotated / 2],
            };
            let (sin, cos) = angle.sin_cos();
            (y[a], y[b]) = (y[a] * cos - y[b] * sin, y[b] * cos + y[a] * sin);
        }
    }
    y
}

fn wide<T: Number>(x: &[T]) -> Vec<f64> {
    T::widen(x).into_iter().map(f64::from).collect()
}

/// Rounding, and errors of sines beside elements of about 1.
fn allowed<T: Number>(_: usize, exact: f64) -> f64 {
    exact.abs() * T::ROUNDING + T::LEAST + 3e-6
}

pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let stream = Stream::new(device)?;
        let ends = [format!("_{}", T::DTYPE), format!("_{}_any", T::DTYPE)];
        let all = runnable(device, |name| {
            name.starts_with("rope_sm_") && ends.iter().any(|end| name.ends_with(end))
        });
        let mut seen = BTreeSet::new();
        for (tokens, heads, cols, part) in [
            (1, 1, 1, 0),
            (3, 1, 2, 2),
            (5, 3, 31, 30),
            (4, 2, 32, 32),
            (3, 5, 33, 32),
            (2, 4, 127, 64),
            (7, 9, 128, 128),
            (3, 6, 96, 32),
            (2, 1, 1000, 80),
            (33, 1, 256, 256),
            (2, 3, 4096, 4096),
        ] {
            let place = packed(tokens * heads, cols).strided([0, cols, 1]);
            let values = normal::<T>(cols as u64, place.count());
            for pairs in [Pairs::Interleaved, Pairs::Halves] {
                let exact =
                    rotated(&wide(&values), [heads, cols], part, pairs, 1e4, |token| 5.0 + token as f64);
                seen.append(&mut by_each(&all, |name| {
                    let rope = Rope::new(pairs).columns(part).offset(5).kernel(name);
                    let (x, mut y) =
                        (Guarded::with(device, place, &values)?, Guarded::<T>::at(device, place)?);
                    let from = x.view()?.reshape(&[tokens, heads, cols])?;
                    let ran =
                        done(rope.run(&stream, &from, &mut y.view_mut()?.reshape(&[tokens, heads, cols])?))?;
                    if ran {
                        let what = format!("{name}, {tokens} x {heads} x {cols}, {part} {pairs:?}");
                        assert_near(&what, &y, &exact, allowed::<T>);
                    }
                    Ok(ran)
                })?);
            }
        }
        assert_eq!(seen, all);
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// q and k of one projection, of sequences: apart and in place give the same bits, and the inverse undoes it.
pub fn both(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ([batch, sequence], [q_heads, k_heads], cols) = ([2, 9], [6, 3], 64);
    let all = q_heads + k_heads;
    for (pairs, part) in [(Pairs::Halves, 64), (Pairs::Interleaved, 32), (Pairs::Halves, 22)] {
        let values = normal::<f32>(6, batch * sequence * all * cols);
        let mut x = Tensor::from_slice(device, &values, &[batch, sequence, all, cols])?;
        let rope = Rope::new(pairs).columns(part).theta(5e5);
        let new = |heads| Tensor::filled(device, f32::NAN, &[batch, sequence, heads, cols]);
        let (mut q_to, mut k_to) = (new(q_heads)?, new(k_heads)?);
        let (q, k) = (x.view().narrow(2, 0, q_heads)?, x.view().narrow(2, q_heads, k_heads)?);
        rope.run_both(&stream, [&q, &k], [&mut q_to.view_mut(), &mut k_to.view_mut()])?;
        let exact = rotated(&wide(&values), [all, cols], part, pairs, 5e5, |token| (token % sequence) as f64);
        let (mut q, mut k) = x.view_mut().split_at(2, q_heads)?;
        rope.run_both_in_place(&stream, [&mut q, &mut k])?;
        let is = x.to_vec()?;
        let near = is.iter().zip(&exact).all(|(&x, exact)| (f64::from(x) - exact).abs() < 3e-6);
        assert!(near, "{pairs:?}, {part}");
        assert_eq!(x.view().narrow(2, 0, q_heads)?.to_vec()?, q_to.to_vec()?);
        assert_eq!(x.view().narrow(2, q_heads, k_heads)?.to_vec()?, k_to.to_vec()?);
        rope.inverse().run_in_place(&stream, &mut x.view_mut())?;
        let back = x.to_vec()?;
        assert!(
            back.iter().zip(&values).all(|(x, y)| (x - y).abs() < 3e-6),
            "{pairs:?}, {part}: the inverse"
        );
    }
    Ok(())
}

/// Positions of any size, and angles of a table, in which some are not.
pub fn positions(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [128, 30] {
        let places = [0, 1, -7, 4096, 131_071, 1_000_003, 16_777_215, i32::MAX, i32::MIN];
        let values = normal::<f32>(2, places.len() * cols);
        let x = Tensor::from_slice(device, &values, &[places.len(), 1, cols])?;
        let mut y = Tensor::filled(device, f32::NAN, &[places.len(), 1, cols])?;
        let tensor = Tensor::from_slice(device, &places, &[places.len()])?;
        let turn = Rope::new(Pairs::Halves).positions(tensor.view());
        turn.run(&stream, &x.view(), &mut y.view_mut())?;
        let position = |token: usize| f64::from(places[token]);
        let exact = rotated(&wide(&values), [1, cols], cols, Pairs::Halves, 1e4, position);
        for (i, (&y, &exact)) in y.to_vec()?.iter().zip(&exact).enumerate() {
            let most = if places[i / cols].unsigned_abs() < 1 << 24 { 2e-6 } else { 2e-5 };
            let error = (f64::from(y) - exact).abs();
            assert!(error < most, "position {}: {error:e}", places[i / cols]);
        }
        // Of every type, and of any strides.
        let bits =
            |y: &Tensor<f32>| Ok::<_, Error>(y.to_vec()?.into_iter().map(f32::to_bits).collect::<Vec<_>>());
        let same = bits(&y)?;
        let unsigned = Tensor::from_slice(device, &places.map(i32::cast_unsigned), &[places.len()])?;
        let long: Vec<i64> = places.iter().flat_map(|&place| [place.into(), 1 << 40]).collect();
        let long = Tensor::from_slice(device, &long, &[places.len(), 2])?;
        for given in [Indices::from(unsigned.view()), long.view().select(1, 0)?.into()] {
            let mut y = Tensor::filled(device, f32::NAN, y.shape())?;
            Rope::new(Pairs::Halves).positions(given).run(&stream, &x.view(), &mut y.view_mut())?;
            assert_eq!(bits(&y)?, same);
        }
        // Cosines and sines themselves.
        let ones: Vec<f32> = (0..values.len()).map(|i| f32::from(u8::from(i % cols < cols / 2))).collect();
        let one = Tensor::from_slice(device, &ones, &[places.len(), 1, cols])?;
        turn.run(&stream, &one.view(), &mut y.view_mut())?;
        let exact = rotated(&wide(&ones), [1, cols], cols, Pairs::Halves, 1e4, position);
        for (i, (&y, &exact)) in y.to_vec()?.iter().zip(&exact).enumerate() {
            let most = if places[i / cols].unsigned_abs() < 1 << 24 { 2e-7 } else { 3e-6 };
            let error = (f64::from(y) - exact).abs();
            assert!(error < most, "position {}: {error:e}", places[i / cols]);
        }

        let angles: Vec<f64> = (0..5 * cols / 2).map(|i| i as f64 * 0.37).collect();
        let of = |f: fn(f64) -> f64| angles.iter().map(|&angle| f(angle) as f32).collect::<Vec<f32>>();
        let table = [of(f64::cos), of(f64::sin)];
        let [cos, sin] = [0, 1].map(|i| Tensor::from_slice(device, &table[i], &[5, cols / 2]));
        let (cos, sin) = (cos?, sin?);
        let (cos, sin, tensor) = (cos.view(), sin.view(), Tensor::from_slice(device, &[4, 0, 5, -1], &[4])?);
        let (x, mut to) = (x.view().narrow(0, 0, 4)?, y.view_mut().narrow(0, 0, 4)?);
        let turn = Rope::new(Pairs::Halves).table(&cos, &sin).positions(tensor.view());
        turn.run(&stream, &x, &mut to)?;
        for (i, y) in to.to_vec()?.into_iter().enumerate() {
            let (token, pair, half) = (i / cols, i % cols % (cols / 2), i % cols / (cols / 2));
            let Some(row) = [4, 0].get(token) else {
                assert!(y.is_nan(), "token {token}");
                continue;
            };
            let [a, b] = [pair, pair + cols / 2].map(|col| f64::from(values[token * cols + col]));
            let (sin, cos) = angles[row * cols / 2 + pair].sin_cos();
            let exact = if half == 0 { a * cos - b * sin } else { b * cos + a * sin };
            assert!((f64::from(y) - exact).abs() < 2e-6, "token {token}, pair {pair}");
        }
        // A table without positions has none.
        let empty = Tensor::<f32>::zeros(device, &[0, cols / 2])?;
        let empty = empty.view();
        Rope::new(Pairs::Halves).table(&empty, &empty).run(&stream, &x, &mut to)?;
        assert!(to.to_vec()?.iter().all(|y| y.is_nan()));
    }
    Ok(())
}

/// Padded, unaligned, by columns: heads as rows of a batch of tokens.
pub fn places_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (shape @ [_, heads, cols], part) in [([3, 5, 64], 64), ([2, 3, 33], 16), ([2, 2, 96], 64)] {
        let values = normal::<f16>(5, shape.iter().product());
        let all = places(shape);
        for pairs in [Pairs::Interleaved, Pairs::Halves] {
            let exact = rotated(&wide(&values), [heads, cols], part, pairs, 1e4, |token| token as f64);
            for (i, &from) in all.iter().enumerate() {
                for to in [from, all[(i + 1) % 5]] {
                    let (x, mut y) = (Guarded::with(device, from, &values)?, Guarded::<f16>::at(device, to)?);
                    Rope::new(pairs).columns(part).run(&stream, &x.view()?, &mut y.view_mut()?)?;
                    assert_near(&format!("{pairs:?} from {from:?} to {to:?}"), &y, &exact, allowed::<f16>);
                }
            }
        }
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [&[0, 2, 8][..], &[3, 0, 8], &[3, 2, 0], &[2, 0, 3, 4]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        rope(&stream, &x.view(), &mut y.view_mut())?;
        Rope::new(Pairs::Halves).plan(&x.view(), &y.view_mut())?;
    }
    // In place, without columns to rotate.
    let mut x = Tensor::<f16>::filled(device, f16::ONE, &[2, 2, 8])?;
    Rope::new(Pairs::Halves).columns(0).run_in_place(&stream, &mut x.view_mut())?;
    assert!(x.to_vec()?.iter().all(|&x| x == f16::ONE));
    Ok(())
}
