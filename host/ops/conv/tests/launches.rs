//! What kernels are launched with.

use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::{EpilogueAbi, PatchesAbi, RasterOrder};

use super::*;
use crate::Stream;
use crate::backend::Walk;

/// The arguments of kernels of outputs, as their parameter block has them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Block {
    x: PatchesAbi<f16>,
    w: GlobalAbi<f16, 5>,
    y: GlobalAbi<f16, 3>,
    epilogue: EpilogueAbi<GlobalAbi<f16, 3>, GlobalAbi<f16, 3>>,
    order: RasterOrder,
    lines: u32,
}

/// The arguments of the last launch, which was of a kernel of outputs.
fn last(journal: &fake::Journal) -> (u32, bool, Block) {
    let launches = journal.launches.lock().unwrap();
    let (config, bytes) = launches.last().unwrap();
    assert_eq!(bytes.len(), size_of::<Block>());
    // SAFETY: the kernel's argument struct, of which the bytes are a copy.
    (config.grid[0], config.overlap_previous, unsafe { bytes.as_ptr().cast::<Block>().read_unaligned() })
}

#[test]
fn images_are_walked_through_by_tma() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let Views { x, w, mut y } = Views::new(&device, [32, 28, 256, 256, 3], 2, 1);
    let conv = Conv::new().stride([2, 2]).padding([1, 1]).kernel("conv_sm_90_f16_128x128x64s6k1");
    conv.run(&stream, &x, &w, &mut y).unwrap();
    let (grid, overlaps, Block { x, w, y, order, epilogue, lines }) = last(&journal);
    assert_eq!(x.images.shape, [32, 28, 28, 1, 256]);
    assert_eq!((w.shape, w.strides), ([1, 3, 3, 256, 256], [589_824, 768, 256, 1, 2304]));
    assert_eq!((y.shape, y.strides), ([1, 6272, 256], [256, 256, 1]));
    assert_eq!((x.order.outputs(), order.total(), epilogue.beta), (6272, 49 * 2, 0.0));
    assert_eq!((grid, overlaps, lines), (6, true, 128));
    assert_eq!([x.images.tma, w.tma, y.tma, epilogue.bias.tma], [1, 1, 1, 0]);
    let maps = journal.maps.lock().unwrap();
    let images = maps.iter().find(|map| map.walk.is_some()).unwrap();
    assert_eq!((images.rank, images.shape[..4].to_vec()), (4, vec![256, 28, 28, 32]));
    assert_eq!(
        (images.tile[..2].to_vec(), images.strides[..3].to_vec()),
        (vec![64, 128], vec![512, 14336, 401_408])
    );
    // The last output begins at pixel 25.
    assert_eq!(
        images.walk,
        Some(Walk { lower: [-1, -1, 0], upper: [-2, -2, 0], steps: [2, 2, 1], planes: None })
    );
}

/// Two tiles of 128 outputs have 80 each, in boxes of half of them.
#[test]
fn tiles_have_as_many_outputs_each() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let Views { x, w, mut y } = Views::new(&device, [32, 28, 64, 160, 3], 1, 1);
    let conv = Conv::new().padding([1, 1]).kernel("conv_sm_90_f16_128x128x64s6k1");
    conv.run(&stream, &x, &w, &mut y).unwrap();
    let (_, _, Block { w, order, lines, .. }) = last(&journal);
    assert_eq!((w.shape, order.total(), lines), ([1, 3, 3, 64, 160], 196 * 2, 80));
    let maps = journal.maps.lock().unwrap();
    let filters = maps.iter().find(|map| map.walk.is_none() && map.rank == 5).unwrap();
    assert_eq!(filters.tile[..2].to_vec(), vec![64, 40]);
}

#[test]
fn volumes_are_walked_through_by_tma() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let x = view::<f16, 5>(&device, X, [2, 9, 14, 14, 128]);
    let w = view::<f16, 5>(&device, W, [128, 3, 3, 3, 128]);
    let mut y = view_mut::<f16, 5>(&device, Y, [2, 5, 14, 14, 128]);
    let conv = Conv::new().stride([2, 1, 1]).padding([1, 1, 1]).kernel("conv_sm_90_f16_128x128x64s6k1");
    conv.run(&stream, &x, &w, &mut y).unwrap();
    let (_, _, Block { x, w, y, order, .. }) = last(&journal);
    assert_eq!((x.images.shape, x.order.outputs()), ([18, 14, 14, 1, 128], 1960));
    assert_eq!((w.shape, w.strides), ([1, 9, 3, 128, 128], [442_368, 384, 128, 1, 3456]));
    assert_eq!((y.shape, order.total()), ([1, 1960, 128], 16));
    let maps = journal.maps.lock().unwrap();
    let volumes = maps.iter().find(|map| map.walk.is_some()).unwrap();
    assert_eq!((volumes.rank, volumes.shape), (5, [128, 14, 14, 9, 2]));
    assert_eq!((volumes.tile[1], volumes.strides), (128, [256, 3584, 50_176, 451_584]));
    let walk = Walk { lower: [-1; 3], upper: [-1; 3], steps: [1, 1, 2], planes: Some(9) };
    assert_eq!(volumes.walk, Some(walk));
}

#[test]
fn rows_of_filters_are_one_tap_of_many_channels() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let Views { x, w, mut y } = Views::new(&device, [2, 224, 3, 64, 7], 2, 3);
    let conv = Conv::new().stride([2, 2]).padding([3, 3]).kernel("conv_sm_80_f16_any_128x64x32s3k1");
    conv.run(&stream, &x, &w, &mut y).unwrap();
    let (_, overlaps, Block { x, w, .. }) = last(&journal);
    assert_eq!((x.images.shape, x.images.tma), ([2, 224, 224, 1, 21], 0));
    assert_eq!((w.shape, w.strides), ([1, 7, 1, 21, 64], [9408, 21, 21, 1, 147]));
    assert!(!overlaps);
}

#[test]
fn joined_pixels_of_one_channel_follow_each_other_whatever_its_stride_is() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let Views { w, mut y, .. } = Views::new(&device, [2, 35, 1, 64, 7], 1, 3);
    // SAFETY: nothing reads the memory of a fake device.
    let x = unsafe { TensorView::from_raw_parts(&device, X, &[2, 35, 35, 1], &[1225, 35, 1, 35]) };
    let conv = Conv::new().padding([3, 3]).kernel("conv_sm_80_f16_any_128x64x32s3k1");
    conv.run(&stream, &x.unwrap(), &w, &mut y).unwrap();
    let (_, _, Block { x, .. }) = last(&journal);
    assert_eq!((x.images.shape, x.images.strides), ([2, 35, 35, 1, 7], [1225, 35, 1, 35, 1]));
}

#[test]
fn biases_and_residuals_have_the_outputs_shape() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let Views { x, w, mut y } = Views::new(&device, [2, 8, 64, 128, 3], 1, 1);
    let residual = view::<f16, 4>(&device, VAST + (3 << 56), [2, 8, 8, 128]);
    // SAFETY: nothing reads the memory of a fake device.
    let bias = unsafe { TensorView::<f16>::from_raw_parts(&device, VAST + (4 << 56), &[128], &[2]) }.unwrap();
    let conv = Conv::new().padding([1, 1]).bias(&bias).residual(&residual).activation(Activation::Relu);
    conv.overlap(false).run(&stream, &x, &w, &mut y).unwrap();
    let (_, overlaps, Block { epilogue, .. }) = last(&journal);
    assert_eq!((epilogue.bias.shape, epilogue.bias.strides), ([1, 128, 128], [256, 0, 2]));
    assert_eq!((epilogue.residual.shape, epilogue.residual.strides), ([1, 128, 128], [128, 128, 1]));
    assert_eq!((epilogue.alpha, epilogue.beta, epilogue.activation), (1.0, 1.0, Activation::Relu));
    assert!(!overlaps);
}
