//! What is chosen, and what is said where nothing can be.

use crate::backend::fake;
use crate::ops::ScaledGemm;
use crate::{Device, F8E4M3, Result, TensorView, TensorViewMut, bf16};

fn view<T: crate::Element>(device: &Device, shape: [usize; 2]) -> Result<TensorView<'static, T>> {
    TensorView::without_memory(device, &shape, &[shape[1], 1], 16)
}

fn out<T: crate::Element>(device: &Device, shape: [usize; 2]) -> Result<TensorViewMut<'static, T>> {
    TensorViewMut::without_memory(device, &shape, &[shape[1], 1], 16)
}

#[test]
fn before_hopper_int8_has_a_kernel_and_floats_have_an_error() {
    let (device, _) = fake::device((8, 6));
    let [m, n, k] = [64, 96, 128];
    let (a, b) = (view::<i8>(&device, [m, k]).unwrap(), view::<i8>(&device, [n, k]).unwrap());
    let all = ScaledGemm::<i32>::new().candidates(&a, &b, &out(&device, [m, n]).unwrap()).unwrap();
    // Its fake has less shared memory than such devices.
    let runs = |why: &String| !why.starts_with("it is compiled for");
    let names = all.iter().filter(|c| c.rejection().as_ref().is_none_or(runs)).map(|c| c.name());
    assert_eq!(names.collect::<Vec<_>>(), ["scaled_gemm_sm_80_i8__i32_128x128x64s2k1"]);
    let (a, b) = (view::<F8E4M3>(&device, [m, k]).unwrap(), view::<F8E4M3>(&device, [n, k]).unwrap());
    let error = ScaledGemm::<bf16>::new().plan(&a, &b, &out(&device, [m, n]).unwrap()).unwrap_err();
    let text = "no kernel for e4m3 -> bf16 runs on it: it is compiled for sm_90a";
    assert!(error.to_string().ends_with(text), "{error}");
}

#[test]
fn sums_stay_in_the_tensor_cores_where_they_may() {
    let (device, _) = fake::h200();
    let [m, n, k] = [4096; 3];
    let (a, b) = (view::<F8E4M3>(&device, [m, k]).unwrap(), view::<F8E4M3>(&device, [n, k]).unwrap());
    let c = out(&device, [m, n]).unwrap();
    for (fast, of) in [(false, "promoted"), (true, "fast")] {
        let all = ScaledGemm::<bf16>::new().fast_accumulation(fast).candidates(&a, &b, &c).unwrap();
        assert!(all[0].name().contains(of), "{}", all[0].name());
        assert!(fast || all.iter().all(|candidate| !candidate.name().contains("fast")));
    }
}

#[test]
fn outputs_of_8_bits_have_kernels_of_their_own() {
    let (device, _) = fake::h200();
    for ([m, n, k], of) in [
        ([1, 4096, 4096], "promoted_swap_64x16x64s20k2"),
        ([16, 4096, 4096], "promoted_swap_64x16x64s20k2"),
        ([40, 1536, 7168], "promoted_swap_64x64x64s10_stream"),
        ([17, 28672, 4096], "promoted_swap_"),
        ([96, 5120, 13824], "promoted_swap_64x96x64s10k1"),
        ([48, 4096, 4096], "promoted_swap_64x64x64s1"),
        ([200, 3072, 3072], "promoted_swap_64x112x64s9k1"),
        ([128, 4096, 4096], "promoted_128x64x64s8k2"),
        ([300, 4096, 4096], "promoted_swap_128x96x64s6k1"),
        ([260, 5120, 6912], "promoted_swap_128x96x64s6k1"),
        ([150, 2560, 9728], "promoted_swap_64x64x64s12k1"),
        ([128, 7168, 2048], "promoted_128x64x64s8k1"),
        ([4096, 4096, 4096], "promoted_"),
    ] {
        let (a, b) = (view::<F8E4M3>(&device, [m, k]).unwrap(), view(&device, [n, k]).unwrap());
        let c = out::<F8E4M3>(&device, [m, n]).unwrap();
        let all = ScaledGemm::<F8E4M3>::new().candidates::<F8E4M3, F8E4M3>(&a, &b, &c).unwrap();
        assert!(all.iter().all(|candidate| candidate.name().starts_with("scaled_gemm_sm_90_e4m3_e4m3_")));
        assert!(all[0].name().contains(of), "{m} x {n} x {k}: {}", all[0].name());
    }
}

#[test]
fn parts_of_f32_are_added_up_apart() {
    let (device, _) = fake::h200();
    let [m, n, k] = [1000, 4096, 4100];
    let (a, b) = (view::<f32>(&device, [m, k]).unwrap(), view::<f32>(&device, [n, k]).unwrap());
    let c = out(&device, [m, n]).unwrap();
    let names = |precise| {
        let all = ScaledGemm::<f32>::new().precise(precise).candidates(&a, &b, &c).unwrap();
        all.iter().map(|candidate| candidate.name()).collect::<Vec<_>>()
    };
    assert!(names(false).iter().all(|name| !name.contains("promoted")));
    assert!(names(true).iter().all(|name| name.starts_with("scaled_gemm_sm_90_tf32_f32_promoted_")));
    let plan = ScaledGemm::<f32>::new().precise(true).plan(&a, &b, &c).unwrap();
    // Three parts of each, whose lines are rounded up to 32 elements.
    assert_eq!(plan.workspace_len(), 3 * (m + n) * 4128);
}

#[test]
fn operands_too_large_for_parts_are_refused() {
    let (device, _) = fake::h200();
    let huge = TensorView::<f32>::without_memory(&device, &[1 << 31, 1 << 27], &[0, 1], 16).unwrap();
    let b = view::<f32>(&device, [16, 1 << 27]).unwrap();
    let c = TensorViewMut::<f32>::without_memory(&device, &[1 << 31, 16], &[16, 1], 16).unwrap();
    let error = ScaledGemm::new().precise(true).plan(&huge, &b, &c).unwrap_err().to_string();
    assert!(error.starts_with("`a` was of shape [2147483648, 134217728]; it must be of fewer"), "{error}");
    let (deep, c) = (view::<f32>(&device, [1, 1 << 24]).unwrap(), out::<f32>(&device, [1, 1]).unwrap());
    let error = ScaledGemm::new().precise(true).plan(&deep, &deep, &c).unwrap_err().to_string();
    assert!(error.ends_with("it must be of at most 16776960 columns, where it is split"), "{error}");
}
