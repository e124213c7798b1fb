//! Which kernel a reduction takes, and in how many parts.

use super::{Reduce, Reduction};
use crate::backend::fake::{self, VAST};
use crate::{TensorView, TensorViewMut, f16};

/// The kernel for x of this shape and these strides over a dimension, and the elements of memory for parts.
fn chosen(
    capability: (u32, u32),
    shape: [usize; 2],
    strides: [usize; 2],
    dim: usize,
) -> (&'static str, usize) {
    let (device, _) = if capability == (9, 0) { fake::h200() } else { fake::device(capability) };
    // SAFETY: nothing reads the memory of a fake device.
    let x = unsafe { TensorView::<f16>::from_raw_parts(&device, VAST, &shape, &strides) }.unwrap();
    // SAFETY: as above.
    let y =
        unsafe { TensorViewMut::<f16>::from_raw_parts(&device, VAST + (1 << 40), &[shape[1 - dim]], &[1]) };
    let (y, reduce) = (y.unwrap(), Reduce::new(Reduction::Sum));
    let kernel = reduce.plan(&x, &[dim], &y).unwrap().kernel().name();
    (kernel, reduce.workspace_len(&x, &[dim], &y).unwrap())
}

#[test]
fn kernels_suit_how_elements_lie() {
    let hopper = |shape, strides, dim| chosen((9, 0), shape, strides, dim).0;
    assert_eq!(hopper([8192, 8192], [8192, 1], 1), "reduce_rows_sm_90_f16");
    assert_eq!(hopper([8191, 8191], [8191, 1], 1), "reduce_rows_sm_90_f16");
    assert_eq!(hopper([8192, 8192], [8192, 1], 0), "reduce_columns_sm_90_f16");
    // Rows that begin anywhere: taken together where they follow one another, and are many.
    assert_eq!(hopper([8192, 8191], [8191, 1], 0), "reduce_columns_sm_90_f16");
    assert_eq!(hopper([8192, 8191], [8193, 1], 0), "reduce_columns_sm_80_f16_any");
    assert_eq!(hopper([100, 99], [99, 1], 0), "reduce_columns_sm_80_f16_any");
    assert_eq!(hopper([8192, 8192], [20_000, 2], 1), "reduce_columns_sm_80_f16_any");
    assert_eq!(hopper([1, 131_072], [131_072, 1], 1), "reduce_rows_sm_90_f16_c8");
    assert_eq!(hopper([1 << 20, 3], [3, 1], 1), "reduce_columns_sm_80_f16_any");
    assert_eq!(chosen((8, 0), [64, 4096], [4096, 1], 1).0, "reduce_rows_sm_80_f16");
}

#[test]
fn rows_taken_together_leave_parts_for_each_of_them() {
    let parts = |shape: [usize; 2]| {
        let of = chosen((9, 0), shape, [shape[1], 1], 0).1;
        assert!(of.is_multiple_of(shape[1]), "{of}");
        of / shape[1]
    };
    // Eight rows end at a multiple of 16 bytes, and two of 8188 columns do; what is left is another part.
    assert_eq!([parts([8192, 8191]) % 8, parts([8191, 8191]) % 8], [0, 1]);
    assert_eq!([parts([8192, 8188]) % 2, parts([8191, 8188]) % 2], [0, 1]);
}

#[test]
fn few_results_of_many_elements_are_divided() {
    let parts = |shape, dim| chosen((9, 0), shape, [shape[1], 1], dim).1;
    assert_eq!(parts([8192, 8192], 1), 0);
    assert_eq!(parts([32, 4096], 1), 0);
    let all = parts([1, 1 << 28], 1);
    assert!((64..=1024).contains(&all), "{all}");
    let columns = parts([1 << 20, 64], 0);
    assert!((64 * 32..64 * 1024).contains(&columns), "{columns}");
}
