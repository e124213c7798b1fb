//! Tests without a GPU: which kernel is chosen, how blocks and heads are shared out, what memory that takes.

use super::*;
use crate::backend::fake::{self, VAST};
use crate::{Arch, Device, Element, bf16};

/// Of `T`, packed, at an address so far from others that no tensor reaches the next one.
fn view<T: Element>(device: &Device, at: u64, shape: &[usize], behind: u64) -> TensorView<'static, T> {
    let strides: Vec<_> =
        (1..=shape.len()).map(|dim| shape[dim..].iter().product::<usize>().max(1)).collect();
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, VAST + (at << 56) + behind, shape, &strides) }.unwrap()
}

/// The checked gradients by x of a scan with one group and B of `n` columns, of a dy that begins some bytes behind a multiple of 16.
fn problem(device: &Device, [batch, length, heads, p]: [usize; 4], n: usize, behind: u64) -> Problem {
    let bc = [3, 4].map(|at| view::<bf16>(device, at, &[batch, length, 1, n], 0));
    let x = [batch, length, heads, p];
    let (dy, x) = (view::<bf16>(device, 5, &x, behind), view(device, 0, &x, 0));
    let (dt, a) = (view::<f32>(device, 1, &[batch, length, heads], 0), view(device, 2, &[heads], 0));
    // SAFETY: as above.
    let d_dt = unsafe { TensorViewMut::from_raw_parts(device, VAST + (6 << 56), dt.shape(), dt.strides()) };
    let mut d_dt = d_dt.unwrap();
    SsdGradient::<bf16, f32>::new().d_dt(&mut d_dt).problem(&x, &dt, &a, [&bc[0], &bc[1]], &dy).unwrap()
}

#[test]
fn the_kernels_fit_the_device_and_the_tensors() {
    let (h200, _) = fake::h200();
    for (n, behind, name) in [
        (128, 0, "block_gradient_bx_sm_90_bf16_n128s2"),
        (80, 0, "block_gradient_bx_sm_90_bf16_n128s2"),
        (64, 0, "block_gradient_bx_sm_90_bf16_n64s2"),
        (200, 0, "block_gradient_bx_sm_90_bf16_n256s1"),
        (64, 2, "block_gradient_bx_sm_80_bf16_n128s2_any"),
    ] {
        let problem = problem(&h200, [2, 100, 4, 64], n, behind);
        let plan = problem.choose(None).unwrap();
        assert_eq!(plan.kernel().name(), name, "{n} columns, {behind} bytes behind");
        let [by_c, states] =
            choose::alike(plan.descriptor()).map(|kernel| kernel.expect("one that goes with it").name);
        assert_eq!(by_c, name.replace("_gradient_bx", "_gradient_c"));
        assert_eq!(states, name.replace("_gradient_bx", "_states").replace("n256s1", "n256s2"));
    }
    let error = problem(&h200, [2, 100, 4, 64], 200, 2).choose(None).unwrap_err().to_string();
    assert!(error.ends_with("it reads dy row-major, in lines aligned to 16 bytes"), "{error}");
}

#[test]
fn blocks_and_heads_are_shared_out() {
    let (h200, _) = fake::h200();
    let shares = |x| {
        let problem = problem(&h200, x, 128, 0);
        let kernel = problem.choose(None).unwrap().descriptor();
        assert_eq!(kernel.arch, Arch::Sm90a);
        let shares = problem.shares(kernel);
        assert!(shares.blocks * shares.chunks >= problem.extent.blocks(), "all tokens are in chunks");
        assert!((1..=problem.items()).contains(&shares.splits), "a part has a head");
        (shares.chunks, shares.splits, Room::new(&problem, kernel, &shares).unwrap())
    };
    let (chunks, splits, room) = shares([8, 4096, 80, 64]);
    assert_eq!((chunks, splits), (1, 3));
    // Two states of bf16 a block of each head.
    assert_eq!(room.sums - room.before, 2 * 8 * 64 * 80 * 64 * 128 / 2);
    let (chunks, splits, room) = shares([1, 4096, 8, 64]);
    assert!(chunks >= 16, "{chunks} chunks");
    assert_eq!(splits, 8);
    assert_eq!(room.all - room.decays, chunks * 8);
}
