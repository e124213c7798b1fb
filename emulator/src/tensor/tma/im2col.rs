//! The pixels of copies in im2col mode.
//!
//! PTX ISA, "im2col mode": from the first one on, as many as the map says follow each other along the dimensions, each between its
//! corners, the last dimension, the images, without end. The offsets move what is copied, and not the walk. What is outside
//! the tensor then is filled.

use super::TmaFault;
use crate::tensor::map::{Im2col, MAX_RANK, TensorMap};

/// Where each pixel is copied from, in all dimensions but the first.
pub(super) fn pixels(map: &TensorMap, im2col: Im2col, coordinates: &[i32]) -> Vec<[i64; MAX_RANK - 1]> {
    let mut at = [0; MAX_RANK - 1];
    for (at, coordinate) in at.iter_mut().zip(coordinates.iter().take(map.rank).skip(1)) {
        *at = i64::from(*coordinate);
    }
    let (offsets, spatial) = (coordinates.get(map.rank..).unwrap_or(&[]), map.rank - 2);
    let mut all = Vec::with_capacity(map.lines() as usize);
    for _ in 0..map.lines() {
        let mut pixel = at;
        for (pixel, offset) in pixel.iter_mut().zip(offsets) {
            *pixel += i64::from(*offset);
        }
        all.push(pixel);
        let mut carries = true;
        for (i, at) in at[..spatial].iter_mut().enumerate() {
            let (first, last) = im2col.bounds(i, map.shape[i + 1]);
            if carries {
                *at += i64::from(map.steps[i + 1]);
                carries = *at > last;
                *at = if carries { first } else { *at };
            }
        }
        at[spatial] += i64::from(carries);
    }
    all
}

/// The first pixel must be between the corners.
pub(super) fn check<G, S>(
    map: &TensorMap,
    im2col: Im2col,
    coordinates: &[i32],
) -> Result<(), TmaFault<G, S>> {
    for i in 0..map.rank - 2 {
        let (first, last) = im2col.bounds(i, map.shape[i + 1]);
        let coordinate = coordinates[i + 1];
        if !(first..=last).contains(&coordinate.into()) {
            return Err(TmaFault::Outside { coordinate, first, last });
        }
    }
    Ok(())
}
