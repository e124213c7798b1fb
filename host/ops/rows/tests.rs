//! Which dimensions are rows of one matrix, and what is chosen for them.

use super::{Matrices, Operand};
use crate::backend::fake::{self, VAST};
use crate::ops::runs::{launches, offsets};
use crate::ops::{CrossEntropy, Norm, Softmax};
use crate::{Device, TensorView, TensorViewMut, f16};

fn view<'a>(device: &Device, shape: &[usize], strides: &[usize]) -> TensorView<'a, f16> {
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, VAST, shape, strides) }.unwrap()
}

fn view_mut<'a>(device: &Device, shape: &[usize], strides: &[usize]) -> TensorViewMut<'a, f16> {
    // SAFETY: as above.
    unsafe { TensorViewMut::from_raw_parts(device, VAST + (1 << 40), shape, strides) }.unwrap()
}

/// Matrices, rows, and launches.
fn sizes(shape: &[usize], strides: [&[usize]; 2]) -> ([usize; 2], usize) {
    let (device, _) = fake::h200();
    let operand = |strides| Operand::new("x", view(&device, shape, strides).untyped());
    let matrices = Matrices::new(&device, strides.map(operand));
    (matrices.size(), launches(matrices.outer()))
}

#[test]
fn dimensions_that_all_tensors_step_over_evenly_are_one() {
    assert_eq!(sizes(&[7], [&[1], &[3]]), ([1, 1], 1));
    assert_eq!(sizes(&[4, 7], [&[7, 1], &[9, 1]]), ([1, 4], 1));
    assert_eq!(sizes(&[2, 3, 4, 7], [&[84, 28, 7, 1]; 2]), ([1, 24], 1));
    assert_eq!(sizes(&[2, 3, 4, 7], [&[84, 28, 7, 1], &[90, 28, 7, 1]]), ([2, 12], 1));
    assert_eq!(sizes(&[2, 3, 4, 7], [&[28, 56, 7, 1], &[84, 28, 7, 1]]), ([3, 4], 2));
    assert_eq!(sizes(&[2, 1, 4, 7], [&[28, 5, 7, 1], &[28, 28, 7, 1]]), ([1, 8], 1));
    assert_eq!(sizes(&[5, 3, 7], [&[0, 0, 1], &[21, 7, 1]]), ([1, 15], 1));
}

#[test]
fn launches_begin_where_their_rows_lie() {
    let (device, _) = fake::h200();
    let tensor = view(&device, &[2, 3, 4, 5, 7], &[1000, 100_000, 35, 10_000_000, 1]).untyped();
    let matrices = Matrices::new(&device, [Operand::new("x", tensor)]);
    assert_eq!((matrices.size(), launches(matrices.outer())), ([4, 5], 6));
    let first = |launch: usize| offsets(matrices.outer(), launch)[0];
    let expected = [0, 100_000, 200_000, 1000, 101_000, 201_000];
    assert_eq!([0, 1, 2, 3, 4, 5].map(first), expected);
    let [x] = matrices.arguments().unwrap();
    assert_eq!((x.address, x.shape, x.strides), (VAST, [4, 5, 7], [35, 10_000_000, 1]));
}

#[test]
fn rows_of_the_last_dimensions_stay_apart() {
    let (device, _) = fake::h200();
    let size = |shape: &[usize], strides: &[usize]| {
        let operand = Operand::new("x", view(&device, shape, strides).untyped());
        let matrices = Matrices::of_last_dimensions(&device, [operand]);
        (matrices.size(), launches(matrices.outer()))
    };
    assert_eq!(size(&[2, 3, 4, 7], &[84, 28, 7, 1]), ([6, 4], 1));
    assert_eq!(size(&[2, 3, 1, 7], &[21, 7, 7, 1]), ([6, 1], 1));
    assert_eq!(size(&[4, 7], &[7, 1]), ([1, 4], 1));
    assert_eq!(size(&[2, 3, 4, 7], &[1000, 28, 7, 1]), ([3, 4], 2));
}

#[test]
fn gradients_kernels_suit_the_rows() {
    let chosen_on = |device: Device, [rows, cols]: [usize; 2], pitch: usize| {
        let (x, y) =
            (view(&device, &[rows, cols], &[pitch, 1]), view_mut(&device, &[rows, cols], &[cols, 1]));
        let softmax = Softmax::new().plan_gradient(&x, &x, &y).unwrap().kernel().name();
        let masked = Softmax::new().causal().plan(&x, &y).unwrap().kernel().name();
        [softmax, masked, Norm::rms().gradient().plan(&x, &x, &y).unwrap().kernel().name()]
    };
    let chosen = |capability, shape: [usize; 2]| chosen_on(fake::device(capability).0, shape, shape[1]);
    for (shape, softmax, norm) in [
        ([100_000, 64], "90_f16_16x256", "90_f16_8x128"),
        ([65536, 1024], "90_f16_4x1024", "90_f16_1x1024"),
        ([8192, 4096], "90_f16_1x4096", "90_f16_1x4096"),
        ([8192, 8192], "90_f16_1x8192", "90_f16_1x8192"),
        // Without shared memory for rows.
        ([4096, 16384], "90_f16_1x16384c1", "80_f16_long"),
        ([1024, 131_072], "90_f16_1x16384c8", "80_f16_long"),
    ] {
        let expected = [
            format!("softmax_gradient_sm_{softmax}"),
            format!("masked_softmax_sm_{softmax}"),
            format!("norm_gradient_sm_{norm}"),
        ];
        assert_eq!(chosen((9, 0), shape).map(str::to_owned), expected, "{shape:?}");
    }
    // Long ones, and rows that begin anywhere, one behind the other and with something between.
    for (shape, pitch, [softmax, masked, norm]) in [
        ([4096, 16384], 16384, ["90_f16_1x16384c1", "90_f16_1x16384c1", "90_f16_held1"]),
        ([1024, 131_072], 131_072, ["90_f16_1x16384c8", "90_f16_1x16384c8", "90_f16_held8"]),
        ([8191, 8191], 8191, ["90_f16_ragged", "90_f16_ragged_1x10240", "90_f16_ragged1"]),
        ([30000, 1023], 1023, ["90_f16_ragged_short", "90_f16_ragged_short", "90_f16_ragged_1x3072"]),
        ([30000, 2048], 2048, ["90_f16_1x4096", "90_f16_1x4096", "90_f16_ragged_1x3072"]),
        ([8192, 4096], 4096, ["90_f16_1x4096", "90_f16_1x4096", "90_f16_1x4096"]),
        ([4096, 5120], 5120, ["90_f16_1x8192", "90_f16_1x8192", "90_f16_ragged_1x6144"]),
        ([8192, 8192], 8192, ["90_f16_1x8192", "90_f16_1x8192", "90_f16_1x8192"]),
        ([8192, 5121], 5121, ["90_f16_ragged", "90_f16_ragged_1x10240", "90_f16_ragged_1x6144"]),
        ([131_072, 333], 333, ["90_f16_ragged_short", "90_f16_ragged_short", "90_f16_ragged_1x768"]),
        ([512, 50257], 50257, ["90_f16_ragged", "90_f16_ragged", "90_f16_ragged8"]),
        ([100, 300], 301, ["80_f16_any", "80_f16_4x1024any", "80_f16_1x1024any"]),
    ] {
        let expected = [
            format!("softmax_gradient_sm_{softmax}"),
            format!("masked_softmax_sm_{masked}"),
            format!("norm_gradient_sm_{norm}"),
        ];
        assert_eq!(chosen_on(fake::h200().0, shape, pitch).map(str::to_owned), expected, "{shape:?} {pitch}");
    }
    assert!(chosen((8, 6), [100, 16384]).iter().all(|name| name.ends_with("sm_80_f16_long")));
}

#[test]
fn kernels_suit_the_rows() {
    let chosen = |capability, [rows, cols]: [usize; 2], pitch: usize| {
        let (device, _) = fake::device(capability);
        let (x, y) =
            (view(&device, &[rows, cols], &[pitch, 1]), view_mut(&device, &[rows, cols], &[cols, 1]));
        let softmax = Softmax::new().plan(&x, &y).unwrap().kernel().name();
        (softmax, Norm::rms().plan(&x, &y).unwrap().kernel().name())
    };
    for (shape, softmax, norm) in [
        ([100_000, 64], "16x128", "16x128"),
        ([100_000, 128], "16x128", "16x128"),
        ([100_000, 136], "16x256", "16x256"),
        ([65536, 1024], "4x1024", "4x1024"),
        ([8192, 8192], "1x8192", "1x8192"),
        ([4096, 16384], "1x16384once1", "1x16384once1"),
        ([1024, 131_072], "1x16384c8", "1x16384c8"),
        ([1, 32000], "1x16384once2", "1x16384once2"),
    ] {
        let expected = (format!("softmax_sm_90_f16_{softmax}"), format!("norm_sm_90_f16_{norm}"));
        let (softmax, norm) = chosen((9, 0), shape, shape[1]);
        assert_eq!((softmax.to_owned(), norm.to_owned()), expected, "{shape:?}");
    }
    assert_eq!(chosen((9, 0), [100, 300], 301).0, "softmax_sm_80_f16_any");
    assert_eq!(chosen((8, 6), [100, 8192], 8192).0, "softmax_sm_80_f16_1x8192");
    assert_eq!(chosen((8, 6), [100, 100_000], 100_000).0, "softmax_sm_80_f16_long");
    assert_eq!(chosen((9, 0), [10, 400_000], 400_000).0, "softmax_sm_80_f16_long");
}

#[test]
fn long_rows_are_read_once() {
    let chosen = |[rows, cols]: [usize; 2], pitch: usize| {
        let (device, _) = fake::h200();
        let (x, y) =
            (view(&device, &[rows, cols], &[pitch, 1]), view_mut(&device, &[rows, cols], &[pitch, 1]));
        Softmax::new().plan(&x, &y).unwrap().kernel().name()
    };
    for (shape, pitch, name) in [
        ([4096, 32000], 32000, "softmax_sm_90_f16_1x16384once2"),
        ([1024, 131_072], 131_072, "softmax_sm_90_f16_1x16384once8"),
        ([512, 262_144], 262_144, "softmax_sm_90_f16_held4"),
        // One behind the other, they may begin anywhere; with something between, not.
        ([512, 50257], 50257, "softmax_sm_90_f16_ragged_1x16384c4"),
        ([512, 50257], 50259, "softmax_sm_80_f16_any"),
        ([30000, 1023], 1023, "softmax_sm_90_f16_ragged_4x1280"),
        ([8191, 8191], 8191, "softmax_sm_90_f16_ragged_1x10240"),
        ([16, 1023], 1023, "softmax_sm_90_f16_ragged_4x1280"),
        ([4096, 5120], 5120, "softmax_sm_90_f16_1x6144"),
        ([1, 4096], 4096, "softmax_sm_90_f16_2x4096"),
    ] {
        assert_eq!(chosen(shape, pitch), name, "{shape:?} {pitch}");
    }
}

#[test]
fn weights_of_rows_that_begin_anywhere_count() {
    let (device, _) = fake::h200();
    let chosen = |rows: usize, cols: usize| {
        let shape = [rows, cols];
        let (x, y) = (view(&device, &shape, &[cols, 1]), view_mut(&device, &shape, &[cols, 1]));
        let weight = view(&device, &[cols], &[1]);
        Norm::rms().weight(&weight).plan(&x, &y).unwrap().kernel().name()
    };
    for (rows, cols, name) in [
        (30000, 1023, "alike_4x1280"),
        (50000, 769, "alike_4x1280"),
        (131_072, 333, "alike_4x512"),
        (20000, 2047, "ragged_short"),
        (10000, 3001, "ragged_short"),
        (8192, 5121, "ragged_1x6144"),
        (8191, 8191, "ragged_1x10240"),
        (512, 50257, "ragged_1x16384c4"),
    ] {
        assert_eq!(chosen(rows, cols), format!("norm_sm_90_f16_{name}"), "{rows} x {cols}");
    }
}

#[test]
fn each_launch_begins_where_its_kernel_can_read() {
    // Labels and losses lie so that each of the first dimension's four matrices takes a launch of its own.
    let chosen = |cols: usize| {
        let (device, _) = fake::h200();
        let (shape, strides) = ([4, 6, 3, cols], [18 * cols, 3 * cols, cols, 1]);
        let [labels_at, loss_at] = [2, 3].map(|number| VAST + (number << 40));
        // SAFETY: nothing reads the memory of a fake device.
        let labels =
            unsafe { TensorView::<i64>::from_raw_parts(&device, labels_at, &shape[..3], &[56, 8, 1]) };
        // SAFETY: as above.
        let loss =
            unsafe { TensorViewMut::<f32>::from_raw_parts(&device, loss_at, &shape[..3], &[1, 32, 8]) };
        let (labels, loss) = (labels.unwrap(), loss.unwrap());
        let (x, y) = (view(&device, &shape, &strides), view_mut(&device, &shape, &strides));
        CrossEntropy::new().plan(&x, &labels, &loss, &y).unwrap().kernel().name()
    };
    assert_eq!(chosen(4), "cross_entropy_sm_90_f16_ragged_4x512");
    assert_eq!(chosen(1), "cross_entropy_sm_80_f16_any");
}
