//! Tests without a GPU: which kernel is chosen, how sequences are shared out, what is too large.

use super::launch::Room;
use super::*;
use crate::backend::fake::{self, VAST};
use crate::{Arch, Device, Element, bf16};

/// Addresses so far apart that no tensor reaches the next one.
const fn far(number: u64) -> u64 {
    VAST + (number << 56)
}

/// Of `T`, packed.
fn view<T: Element>(device: &Device, at: u64, shape: &[usize]) -> TensorView<'static, T> {
    let strides: Vec<_> =
        (1..=shape.len()).map(|dim| shape[dim..].iter().product::<usize>().max(1)).collect();
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, far(at), shape, &strides) }.unwrap()
}

/// The checked scan of x of this shape, with one group and B of `n` columns, beginning some bytes behind a multiple of 16.
fn problem(device: &Device, x: [usize; 4], n: usize, behind: u64, ssd: &Ssd<'_, bf16>) -> Result<Problem> {
    let [batch, length, heads, _] = x;
    let bc = [3, 4].map(|at| view::<bf16>(device, at, &[batch, length, 1, n]));
    let strides: Vec<_> = (1..4).map(|dim| x[dim..].iter().product()).chain([1]).collect();
    // SAFETY: as above.
    let y = unsafe { TensorViewMut::from_raw_parts(device, far(5), &x, &strides) }.unwrap();
    // SAFETY: as above.
    let x = unsafe { TensorView::from_raw_parts(device, far(0) + behind, &x, &strides) }.unwrap();
    let dt = view::<f32>(device, 1, &[batch, length, heads]);
    ssd.problem(&x, &dt, &view(device, 2, &[heads]), [&bc[0], &bc[1]], &y)
}

#[test]
fn the_kernel_fits_the_device_and_the_tensors() {
    let (h200, _) = fake::h200();
    for (n, behind, name) in [
        (128, 0, "chunk_scan_sm_90_bf16_n128s2"),
        (80, 0, "chunk_scan_sm_90_bf16_n128s2"),
        (64, 0, "chunk_scan_sm_90_bf16_n64s2"),
        (200, 0, "chunk_scan_sm_90_bf16_n256s2"),
        (64, 2, "chunk_scan_sm_80_bf16_n128s2_any"),
    ] {
        let problem = problem(&h200, [2, 100, 4, 64], n, behind, &Ssd::new()).unwrap();
        let plan = problem.choose(None).unwrap();
        assert_eq!(plan.kernel().name(), name, "{n} columns, {behind} bytes behind");
        let state = table::state_kernel(plan.descriptor()).expect("chunks' states are read alike");
        assert_eq!(
            state.name,
            name.replace("scan", "state")
                .replace("90_bf16_n128s2", "90_bf16_n128s3")
                .replace("90_bf16_n64s2", "90_bf16_n64s3")
        );
    }
    let wide = problem(&h200, [2, 100, 4, 64], 200, 2, &Ssd::new()).unwrap();
    let error = wide.choose(None).unwrap_err().to_string();
    assert!(error.contains("no kernel for bf16 runs on it"), "{error}");
}

#[test]
fn sequences_are_divided_where_heads_are_few() {
    let (h200, _) = fake::h200();
    let shares = |x, ssd: &Ssd<'_, bf16>| {
        let problem = problem(&h200, x, 128, 0, ssd).unwrap();
        let kernel = problem.choose(None).unwrap().descriptor();
        assert_eq!(kernel.arch, Arch::Sm90a);
        let shares = problem.shares(kernel);
        assert!(shares.blocks * shares.chunks >= problem.extent.blocks(), "all tokens are in chunks");
        (shares.chunks, Room::new(&problem, &shares).unwrap().all)
    };
    // A head's steps are 256 numbers for 64 tokens.
    assert_eq!(shares([8, 4096, 80, 64], &Ssd::new()), (1, 8 * 4096 * 80 * 4));
    assert!(shares([1, 16384, 8, 64], &Ssd::new()).0 >= 16);
    let states = 2 * (64 * 128 + 1);
    assert_eq!(shares([1, 128, 1, 64], &Ssd::new().chunk(64)), (2, 128 * 4 + states));
    assert_eq!(shares([1, 128, 1, 64], &Ssd::new().chunk(usize::MAX / 64 * 64)), (1, 128 * 4));
}

#[test]
fn more_sequences_than_a_grid_has_are_an_error() {
    let (h200, _) = fake::h200();
    let error = problem(&h200, [65536, 4, 1, 1], 1, 0, &Ssd::new()).unwrap_err().to_string();
    assert_eq!(error, "`x` was of 65536 sequences; it must be of at most 65535");
}
