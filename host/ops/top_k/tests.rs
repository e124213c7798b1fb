//! Which kernel finds the largest elements, and how many lanes share a short row.

use tilewright_reduce::RowOf;

use super::{Choice, Problem};
use crate::backend::fake::{self, VAST};
use crate::{TensorView, TensorViewMut};

/// The kernel for rows on an H200, and the lanes of a row if lanes share them.
fn chosen([rows, columns]: [usize; 2], found: usize) -> (&'static str, u32) {
    let (device, _) = fake::h200();
    // SAFETY: nothing uses the memory of a fake device.
    let (x, values, indices) = unsafe {
        (
            TensorView::<f32>::from_raw_parts(&device, VAST, &[rows, columns], &[columns, 1]).unwrap(),
            TensorViewMut::<f32>::from_raw_parts(&device, VAST + (1 << 40), &[rows, found], &[found, 1]),
            TensorViewMut::<u32>::from_raw_parts(&device, VAST + (2 << 40), &[rows, found], &[found, 1]),
        )
    };
    let problem = Problem::new(&x, &values.unwrap(), &indices.unwrap()).unwrap();
    let kernel = problem.choose(None).unwrap().descriptor();
    let lanes = match kernel.row {
        RowOf::Lanes(list) => 1 << problem.best_lanes(list).0,
        RowOf::Ctas(_) => 0,
    };
    (kernel.name, lanes)
}

#[test]
fn lanes_share_short_rows() {
    assert_eq!(chosen([65_536, 8], 2), ("top_k_sm_90_f32_short8", 2));
    assert_eq!(chosen([16_384, 128], 8), ("top_k_sm_90_f32_short8", 4));
    assert_eq!(chosen([4096, 128], 8), ("top_k_sm_90_f32_short8", 8));
    assert_eq!(chosen([16_384, 128], 9), ("top_k_sm_90_f32_short16", 4));
    assert_eq!(chosen([1, 256], 8), ("top_k_sm_90_f32_short8", 32));
    assert_eq!(chosen([1, 1024], 16), ("top_k_sm_90_f32_short16", 32));
    assert_eq!(chosen([16_384, 1024], 1), ("top_k_sm_90_f32_short8", 4));
}

#[test]
fn ctas_take_all_others() {
    assert_eq!(chosen([16_384, 128], 17).0, "top_k_sm_90_f32_w4");
    assert_eq!(chosen([16_384, 4097], 8).0, "top_k_sm_90_f32_w4");
    assert_eq!(chosen([16_384, 4097], 513).0, "top_k_sm_90_f32");
    assert_eq!(chosen([256, 32_000], 64).0, "top_k_sm_90_f32");
    assert_eq!(chosen([1, 151_936], 64).0, "top_k_sm_90_f32_c8");
}
