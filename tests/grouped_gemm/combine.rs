//! Weighted sums of rows.

use tilewright::ops::{HalfElement, group_combine};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

pub fn combined(device: &Device) -> Outcome {
    for (rows, each, n) in [(5, 2, 256), (1, 1, 8), (9, 8, 520), (4, 3, 131), (3, 0, 16), (0, 2, 16)] {
        check::<f16>(device, [rows, each, n])?;
        check::<bf16>(device, [rows, each, n])?;
    }
    Ok(())
}

fn check<T: Real + HalfElement>(device: &Device, [rows, each, n]: [usize; 3]) -> Outcome {
    let (stream, entries) = (Stream::new(device)?, rows * each + 2);
    let x = normal::<T>(1, entries * n);
    let weights = normal::<f32>(2, rows * each);
    // Some have no place.
    let place = |i: usize| if i % 5 == 3 { [-1, entries as i32][i % 2] } else { (i * 7 % entries) as i32 };
    let places: Vec<_> = (0..rows * each).map(place).collect();
    let wide = T::widen(&x);
    let exact = (0..rows * n).map(|i| {
        let (row, column) = (i / n, i % n);
        let parts = (row * each..(row + 1) * each).filter_map(|entry| {
            let at = usize::try_from(places[entry]).ok().filter(|&at| at < entries)?;
            Some(f64::from(weights[entry]) * f64::from(wide[at * n + column]))
        });
        parts.fold([0.0, 0.0], |[sum, all]: [f64; 2], part| [sum + part, all + part.abs()])
    });
    let x = Guarded::with(device, Place::by_rows([1, entries, n], n.next_multiple_of(8)), &x)?;
    let weights = Tensor::from_slice(device, &weights, &[rows, each])?;
    let places = Tensor::from_slice(device, &places, &[rows, each])?;
    let mut y = Guarded::<T>::at(device, Place::by_rows([1, rows, n], n.next_multiple_of(8) + 8))?;
    let (from, to) = (x.view()?.select(0, 0)?, &mut y.view_mut()?.select(0, 0)?);
    group_combine(&stream, &from, &weights.view(), &places.view(), to)?;
    stream.synchronize()?;
    let (out, outside) = y.read()?;
    assert_eq!(outside, 0);
    for (i, (out, [exact, all])) in T::widen(&out).into_iter().zip(exact).enumerate() {
        let bound = T::ROUNDING * exact.abs() + T::LEAST + 1e-6 * all;
        assert!(
            (f64::from(out) - exact).abs() <= bound,
            "{rows} x {each} x {n}, element {i}: {out}, {exact}"
        );
    }
    Ok(())
}
