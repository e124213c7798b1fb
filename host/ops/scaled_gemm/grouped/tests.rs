//! What is chosen.

use crate::backend::fake;
use crate::ops::{BlockScaled, GroupRows, GroupedScaledGemm};
use crate::{TensorView, TensorViewMut, bf16};

#[test]
fn tiles_are_chosen_by_the_rows_of_a_group() {
    let (device, _) = fake::h200();
    let chosen = |groups: usize, rows: usize| {
        let (n, k) = (4096, 7168);
        let scaled = |numbers: [usize; 2], shape: &[usize], scales: &[usize]| {
            let contiguous = |shape: &[usize]| -> Vec<usize> {
                (0..shape.len()).map(|i| shape[i + 1..].iter().product()).collect()
            };
            let codes = TensorView::without_memory(&device, shape, &contiguous(shape), 16).unwrap();
            let scales = TensorView::without_memory(&device, scales, &contiguous(scales), 16).unwrap();
            BlockScaled { codes: codes.planned(numbers[0]), scales: scales.planned(numbers[1]) }
        };
        let a = scaled([0, 2], &[rows, k], &[rows, k / 128]);
        let b = scaled([1, 3], &[groups, n, k], &[groups, n / 128, k / 128]);
        let offsets = TensorView::<i32>::without_memory(&device, &[groups + 1], &[1], 4).unwrap();
        let c = TensorViewMut::<bf16>::without_memory(&device, &[rows, n], &[n, 1], 16).unwrap();
        let rows = GroupRows::offsets(offsets.planned(4));
        let all = GroupedScaledGemm::new().candidates(&a, &b, &rows, &c.planned(5)).unwrap();
        all[0].name()
    };
    assert_eq!(chosen(256, 8 * 64), "grouped_scaled_gemm_sm_90_e4m3_bf16_32x128x64s10");
    assert_eq!(chosen(256, 8 * 8192), "grouped_scaled_gemm_sm_90_e4m3_bf16_192x128x64s4");
}
