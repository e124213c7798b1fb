//! What is chosen.

use crate::backend::fake;
use crate::ops::{GroupRows, KGroupedGemm};
use crate::{TensorView, TensorViewMut, bf16};

#[test]
fn small_products_take_small_tiles() {
    let (device, _) = fake::h200();
    let chosen = |groups: usize, rows: usize, [m, n]: [usize; 2]| {
        let a = TensorView::<bf16>::without_memory(&device, &[rows, m], &[m, 1], 16).unwrap().planned(0);
        let b = TensorView::<bf16>::without_memory(&device, &[rows, n], &[n, 1], 16).unwrap().planned(1);
        let c = TensorViewMut::<f32>::without_memory(&device, &[groups, m, n], &[m * n, n, 1], 16);
        let offsets = TensorView::<i32>::without_memory(&device, &[groups + 1], &[1], 4).unwrap();
        let rows = GroupRows::offsets(offsets.planned(2));
        let all = KGroupedGemm::new().candidates(&a, &b, &rows, &c.unwrap().planned(3)).unwrap();
        all[0].name()
    };
    assert_eq!(chosen(8, 8192, [4096, 14336]), "k_grouped_gemm_sm_90_bf16_f32_128x256x64s4");
    assert_eq!(chosen(256, 65536, [7168, 2048]), "k_grouped_gemm_sm_90_bf16_f32_128x256x64s4");
    assert_eq!(chosen(8, 8192, [512, 512]), "k_grouped_gemm_sm_90_bf16_f32_128x128x64s6");
    // Lines of 10 bytes.
    assert_eq!(chosen(3, 100, [5, 64]), "k_grouped_gemm_sm_80_bf16_f32_any_64x64x32s3");
}
