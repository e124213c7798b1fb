//! What kernels are launched with.

use tilewright_device::arch::tma::{EVICT_FIRST, EVICT_NORMAL};

use super::*;
use crate::backend::LaunchConfig;

/// The arguments of every GEMM kernel of `f16`, as its parameter block has them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Block {
    a: GlobalAbi<f16, 3>,
    b: GlobalAbi<f16, 3>,
    c: GlobalAbi<f16, 3>,
    bias: GlobalAbi<f16, 3>,
    order: RasterOrder,
    scale: [f32; 2],
    constant: u32,
    lines: u32,
}

fn last(journal: &Arc<Journal>) -> (LaunchConfig, Block) {
    let launches = journal.launches.lock().unwrap();
    let (config, bytes) = launches.last().unwrap();
    assert!(bytes.len() >= size_of::<Block>());
    // SAFETY: the kernel's argument struct, of which the bytes are a copy, begins with the same fields.
    (*config, unsafe { bytes.as_ptr().cast::<Block>().read_unaligned() })
}

/// Address, shape and strides as the kernel sees them.
fn seen(argument: &GlobalAbi<f16, 3>) -> (u64, [u32; 3], [u64; 3]) {
    (argument.address, argument.shape, argument.strides)
}

#[test]
fn views_become_arguments() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f16>::new(&device, "nt", [2048, 4096, 8192]);
    let bias = view(&device, BIAS, &[4096], &[1]);
    views.run(&Gemm::new().alpha(0.5).beta(2.0).bias(&bias), &stream).unwrap();
    let (config, block) = last(&journal);
    assert_eq!((config.stream, config.overlap_previous, config.cluster), (stream.id(), true, [1, 1, 1]));
    assert_eq!(seen(&block.a), (A, [1, 2048, 8192], [0, 8192, 1]));
    assert_eq!(seen(&block.b), (B, [1, 8192, 4096], [0, 1, 8192]));
    assert_eq!(seen(&block.c), (C, [1, 2048, 4096], [0, 4096, 1]));
    assert_eq!(seen(&block.bias), (BIAS, [1, 2048, 4096], [0, 0, 1]));
    assert_eq!([block.a.tma, block.b.tma, block.c.tma, block.bias.tma], [1, 1, 1, 0]);
    assert_eq!((block.scale, block.order.total()), ([0.5, 2.0], 16 * 16));
    // The fake holds 6 clusters at a time: the kernel is persistent.
    assert_eq!(config.grid, [6, 1, 1]);
    // B is read in boxes of 64 lines along the depth.
    assert_eq!(journal.maps.lock().unwrap()[1].tile[..2], [64, 64]);

    views.run(&Gemm::new().overlap(false), &stream).unwrap();
    let (config, block) = last(&journal);
    assert!(!config.overlap_previous);
    assert_eq!((block.scale, block.bias.shape, block.bias.tma), ([1.0, 0.0], [0; 3], 0));
}

#[test]
fn the_transposed_product_exchanges_everything() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f16>::new(&device, "nt", [16, 4096, 4096]);
    // One value a row, so a column of the transposed product.
    let bias = view(&device, BIAS, &[16, 1], &[1, 1]);
    views.run(&Gemm::new().bias(&bias), &stream).unwrap();
    let (config, block) = last(&journal);
    assert_eq!((config.cluster, config.grid), ([2, 1, 1], [12, 1, 1]));
    assert_eq!(seen(&block.a), (B, [1, 4096, 4096], [0, 4096, 1]));
    assert_eq!(seen(&block.b), (A, [1, 4096, 16], [0, 1, 4096]));
    assert_eq!(seen(&block.c), (C, [1, 4096, 16], [0, 1, 4096]));
    assert_eq!((block.bias.shape, block.bias.strides), ([1, 4096, 16], [0, 0, 1]));
    assert_eq!(block.order.total(), 64);
    // The weights are read once, the few rows by every CTA.
    assert_eq!([block.a.policy, block.b.policy], [EVICT_FIRST, EVICT_NORMAL]);
}

/// Two tiles have the rows of A as columns: 104 each, and not 112 and 88, of which TMA would find 24 outside.
#[test]
fn tiles_beside_each_other_have_equal_lines() {
    let (device, journal) = fake::h200();
    for (rows, tile, lines) in [(200, 112, 104), (224, 112, 112), (100, 112, 104), (1000, 112, 112)] {
        let mut views = Views::<f16, f16>::new(&device, "nt", [rows, 3072, 3072]);
        let name = format!("gemm_sm_90_f16_f16_swap_nt_none_64x{tile}x64s9k1");
        views.run(&Gemm::new().kernel(&name), &device.default_stream()).unwrap();
        let (_, block) = last(&journal);
        assert_eq!((block.lines, block.order.total() as usize), (lines, 48 * rows.div_ceil(tile)), "{rows}");
        // W, the rows, and C, whose tiles are stored by whole boxes or by threads.
        let boxes: Vec<_> =
            journal.maps.lock().unwrap().iter().rev().take(3).map(|map| map.tile[1]).collect();
        assert!(boxes.contains(&lines), "{rows}: {boxes:?}");
    }
}

#[test]
fn matrices_are_shared_along_the_batch() {
    let (device, journal) = fake::h200();
    let mut c = view_mut::<f16>(&device, C, &[5, 128, 256], &[128 * 256, 256, 1]);
    let one = view::<f16>(&device, A, &[1, 128, 64], &[128 * 64, 64, 1]);
    let b = view::<f16>(&device, B, &[5, 64, 256], &[64 * 256, 256, 1]);
    let stream = device.default_stream();
    for a in [one.clone().select(0, 0).unwrap(), one] {
        gemm(&stream, &a, &b, &mut c).unwrap();
        let (_, block) = last(&journal);
        assert_eq!((block.a.shape, block.a.strides), ([5, 128, 64], [0, 64, 1]));
        assert_eq!((block.b.shape, block.b.strides), ([5, 64, 256], [64 * 256, 256, 1]));
    }
}

#[test]
fn ampere_kernels_wait_for_what_is_in_front() {
    let (device, journal) = fake::h200();
    let mut views = Views::<f16, f16>::new(&device, "nt", [256; 3]);
    let name = views.candidates().into_iter().find(|c| c.name().contains("sm_80_f16_f16_nt")).unwrap().name();
    views.run(&Gemm::new().kernel(name), &device.default_stream()).unwrap();
    let (config, block) = last(&journal);
    assert!(!config.overlap_previous);
    // Nor do they use tensor maps.
    assert_eq!([block.a.tma, block.b.tma, block.c.tma], [0; 3]);
    assert!(journal.maps.lock().unwrap().is_empty());
}

#[test]
fn a_captured_call_is_one_launch() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f32>::new(&device, "nn", [64; 3]);
    let used = device.free_memory().unwrap();
    let graph = stream.capture(|stream| gemm(stream, &views.a, &views.b, &mut views.c)).unwrap();
    assert_eq!((graph.nodes(), device.free_memory().unwrap()), (1, used));
    assert_eq!(journal.loads.lock().unwrap().len(), 1);
}
