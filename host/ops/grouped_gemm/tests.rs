//! What is chosen.

use crate::backend::fake;
use crate::ops::{Activation, GroupRows, GroupedGemm};
use crate::{Device, TensorView, TensorViewMut, bf16};

/// The kernel for so many rows and groups of N x K, whose matrices lie so.
fn chosen_for(device: &Device, rows: usize, groups: usize, size: [usize; 2]) -> &'static str {
    chosen_by(GroupedGemm::new(), device, rows, groups, size, size[0])
}

/// The same for so many columns of C.
fn chosen_by(
    gemm: GroupedGemm<'_>,
    device: &Device,
    rows: usize,
    groups: usize,
    [n, k]: [usize; 2],
    columns: usize,
) -> &'static str {
    let a = TensorView::<bf16>::without_memory(device, &[rows, k], &[k, 1], 16).unwrap();
    let b = TensorView::<bf16>::without_memory(device, &[groups, k, n], &[k * n, 1, k], 16);
    let c = TensorViewMut::<bf16>::without_memory(device, &[rows, columns], &[columns, 1], 16).unwrap();
    let offsets = TensorView::<i32>::without_memory(device, &[groups + 1], &[1], 4).unwrap();
    let rows = GroupRows::offsets(offsets.planned(2));
    let (a, b, c) = (a.planned(0), b.unwrap().planned(1), c.planned(3));
    let all = gemm.candidates(&a, &b, &rows, &c).unwrap();
    all[0].name()
}

fn chosen(device: &Device, rows: usize, groups: usize) -> &'static str {
    chosen_for(device, rows, groups, [2048, 7168])
}

/// Those of BENCHMARKS, but for one, whose kernel takes 3 % longer.
#[test]
fn the_fastest_measured_are_chosen() {
    let (device, _) = fake::h200();
    let [few, high, wide] = ["32x128x64s10", "256x128x64s4", "128x256x64s4"];
    for (top, groups, size, [much, some, little]) in [
        (8, 256, [4096, 7168], [high, wide, few]),
        (8, 256, [7168, 2048], [high, wide, few]),
        (8, 128, [3072, 4096], [high, wide, few]),
        (8, 128, [4096, 1536], [high, wide, few]),
        (2, 8, [28672, 4096], [wide, wide, few]),
        (2, 8, [4096, 14336], [wide, high, few]),
    ] {
        for (tokens, tile) in [(8192, much), (1024, some), (64, little)] {
            let name = format!("grouped_gemm_sm_90_bf16_t_{tile}");
            let chosen = chosen_for(&device, tokens * top, groups, size);
            assert_eq!(chosen, name, "{tokens} tokens, {groups} groups of {size:?}");
        }
    }
}

/// Gated units have the tiles of their products.
#[test]
fn gated_units_are_chosen_as_products() {
    let (device, _) = fake::h200();
    let gated = GroupedGemm::new().gated(Activation::Silu);
    for (entries, groups, size, tile) in [
        (8192 * 8, 256, [4096, 7168], "256x128x64s4"),
        (1024 * 8, 256, [4096, 7168], "128x256x64s4"),
        (64 * 8, 256, [4096, 7168], "32x128x64s10"),
        (8192 * 2, 8, [28672, 4096], "128x256x64s4"),
    ] {
        let chosen = chosen_by(gated, &device, entries, groups, size, size[0] / 2);
        assert_eq!(chosen, format!("grouped_gemm_gated_sm_90_bf16_{tile}"), "{entries} rows");
    }
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
