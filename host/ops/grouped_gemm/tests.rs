//! What is chosen.

use crate::backend::fake;
use crate::ops::{GroupRows, GroupedGemm};
use crate::{Device, TensorView, TensorViewMut, bf16};

/// The kernel for so many rows and groups of 7168 x 2048, whose matrices lie as \[N, K\].
fn chosen(device: &Device, rows: usize, groups: usize) -> &'static str {
    let a = TensorView::<bf16>::without_memory(device, &[rows, 7168], &[7168, 1], 16).unwrap();
    let b = TensorView::<bf16>::without_memory(device, &[groups, 7168, 2048], &[7168 * 2048, 1, 7168], 16);
    let c = TensorViewMut::<bf16>::without_memory(device, &[rows, 2048], &[2048, 1], 16).unwrap();
    let offsets = TensorView::<i32>::without_memory(device, &[groups + 1], &[1], 4).unwrap();
    let rows = GroupRows::offsets(offsets.planned(2));
    let (a, b, c) = (a.planned(0), b.unwrap().planned(1), c.planned(3));
    let all = GroupedGemm::new().candidates(&a, &b, &rows, &c).unwrap();
    all[0].name()
}

#[test]
fn tiles_are_chosen_by_the_rows_of_a_group() {
    let (device, _) = fake::h200();
    assert_eq!(chosen(&device, 64 * 8, 256), "grouped_gemm_sm_90_bf16_t_32x128x64s10");
    assert_eq!(chosen(&device, 8, 256), "grouped_gemm_sm_90_bf16_t_32x128x64s10");
    assert_eq!(chosen(&device, 1024 * 8, 256), "grouped_gemm_sm_90_bf16_t_128x256x64s4");
    assert_eq!(chosen(&device, 8192 * 8, 256), "grouped_gemm_sm_90_bf16_t_256x128x64s4");
    assert_eq!(chosen(&device, 8192 * 2, 8), "grouped_gemm_sm_90_bf16_t_128x256x64s4");
}
