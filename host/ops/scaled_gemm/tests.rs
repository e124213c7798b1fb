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
