//! Rows of a table by index: the bits themselves.

use std::collections::BTreeSet;

use tilewright::ops::{Embedding, IndexElement, embedding};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, assert_near, by_each, done, packed, places, runnable};

/// Rows of the tables.
const COUNT: usize = 11;

/// The table's rows at these indices, as places of one matrix, checked; whether the kernel can compute them.
fn check<T: Number, I: IndexElement>(
    stream: &Stream,
    options: Embedding<'_>,
    indices: &[I],
    number: impl Fn(I) -> i64,
    [from, to]: [Place; 2],
) -> tilewright_support::Result<bool> {
    let (device, cols) = (stream.device(), from.shape[2]);
    let values = normal::<T>(cols as u64, COUNT * cols);
    let table = Guarded::with(device, from, &values)?;
    let places = Tensor::from_slice(device, indices, &[indices.len()])?;
    let mut y = Guarded::<T>::at(device, to)?;
    let table = table.view()?.select(0, 0)?;
    if !done(options.run(stream, &table, &places.view(), &mut y.view_mut()?.select(0, 0)?))? {
        return Ok(false);
    }
    let wide = T::widen(&values);
    let row = |&index: &I| match usize::try_from(number(index)) {
        Ok(row) if row < COUNT => wide[row * cols..][..cols].iter().map(|&x| f64::from(x)).collect(),
        _ => vec![f64::NAN; cols],
    };
    let exact: Vec<f64> = indices.iter().flat_map(row).collect();
    assert_near(&format!("{options:?}, {cols} columns"), &y, &exact, |_, _| 0.0);
    Ok(true)
}

pub fn every_kernel(device: &Device) -> Outcome {
    let all = runnable(device, |name| name.starts_with("embedding_"));
    fn of<T: Number>(
        device: &Device,
        all: &BTreeSet<&'static str>,
    ) -> tilewright_support::Result<BTreeSet<&'static str>> {
        let (stream, mut seen) = (Stream::new(device)?, BTreeSet::new());
        for cols in LENGTHS {
            let indices: Vec<i32> = (0..7).map(|i| i * 5 % COUNT as i32).collect();
            let at = [packed(COUNT, cols), packed(7, cols)];
            seen.append(&mut by_each(all, |name| {
                check::<T, _>(&stream, Embedding::new().kernel(name), &indices, i64::from, at)
            })?);
        }
        Ok(seen)
    }
    let mut seen = of::<f16>(device, &all)?;
    seen.append(&mut of::<bf16>(device, &all)?);
    seen.append(&mut of::<f32>(device, &all)?);
    assert_eq!(seen, all);
    Ok(())
}

/// Padded, unaligned, by columns.
pub fn places_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [33, 1000] {
        let (from, to) = (places([1, COUNT, cols]), places([1, 4, cols]));
        for i in 0..5 {
            for at in [[from[i], to[i]], [from[i], to[(i + 1) % 5]]] {
                assert!(check::<f16, _>(&stream, Embedding::new(), &[3u32, 0, 10, 3], i64::from, at)?);
            }
        }
    }
    let wide: Vec<i64> = (0..9).map(|i| i * 5 % COUNT as i64).collect();
    for cols in [8, 33] {
        let at = [packed(COUNT, cols), packed(9, cols)];
        assert!(check::<bf16, _>(&stream, Embedding::new(), &wide, |index| index, at)?);
    }
    // Indices of two dimensions that lie by columns.
    let table = Tensor::from_slice(device, &normal::<f32>(1, COUNT * 8), &[COUNT, 8])?;
    let indices = Tensor::<i32>::from_slice(device, &[1, 2, 3, 4, 5, 6], &[3, 2])?;
    let mut y = Tensor::<f32>::zeros(device, &[2, 3, 8])?;
    embedding(&stream, &table.view(), &indices.view().transpose(0, 1)?, &mut y.view_mut())?;
    let (table, y) = (table.to_vec()?, y.to_vec()?);
    for (place, row) in [1, 3, 5, 2, 4, 6].into_iter().enumerate() {
        assert_eq!(y[place * 8..][..8], table[row * 8..][..8], "place {place}");
    }
    Ok(())
}

/// Negative, one too far, and as far as indices go.
pub fn outside(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [8, 33] {
        let at = [packed(COUNT, cols), packed(5, cols)];
        let signed = [0, -1, COUNT as i32, i32::MAX, i32::MIN];
        assert!(check::<f16, _>(&stream, Embedding::new(), &signed, i64::from, at)?);
        assert!(check::<bf16, _>(&stream, Embedding::new(), &signed, i64::from, at)?);
        let wide = [0, -1, COUNT as i64, i64::MIN, 1 << 32 | 1];
        assert!(check::<f16, _>(&stream, Embedding::new(), &wide, |index| index, at)?);
        let unsigned = [10, u32::MAX, COUNT as u32, 1 << 31, 0];
        assert!(check::<f32, _>(&stream, Embedding::new(), &unsigned, i64::from, at)?);
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (rows, count, cols) in [(3, 0, 8), (3, 2, 0)] {
        let table = Tensor::<f16>::zeros(device, &[rows, cols])?;
        let indices = Tensor::<i32>::zeros(device, &[count])?;
        let mut y = Tensor::<f16>::zeros(device, &[count, cols])?;
        embedding(&stream, &table.view(), &indices.view(), &mut y.view_mut())?;
        Embedding::new().plan(&table.view(), &indices.view(), &y.view_mut())?;
    }
    // A table without rows has none to give.
    let table = Tensor::<f32>::zeros(device, &[0, 8])?;
    let mut y = Tensor::<f32>::zeros(device, &[2, 8])?;
    embedding(&stream, &table.view(), &Tensor::<i32>::zeros(device, &[2])?.view(), &mut y.view_mut())?;
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}
