use std::sync::atomic::Ordering;

use half::{bf16, f16};
use tilewright_device::abi::{GlobalAbi, GlobalArg, KernelArg};

use super::*;
use crate::backend::fake;

fn range(n: usize) -> Vec<f32> {
    (0..n).map(|x| x as f32).collect()
}

fn text<T: fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn tensors_are_made_read_and_given_back() {
    let (device, journal) = fake::device((9, 0));
    let x = Tensor::from_slice(&device, &range(6), &[2, 3]).unwrap();
    assert_eq!(x.to_vec().unwrap(), range(6));
    assert_eq!(Tensor::<f16>::zeros(&device, &[3]).unwrap().to_vec().unwrap(), [f16::ZERO; 3]);
    let ones = Tensor::filled(&device, bf16::ONE, &[2, 2]).unwrap();
    assert_eq!(ones.to_vec().unwrap(), [bf16::ONE; 4]);
    assert_eq!(Tensor::filled(&device, -3i8, &[5]).unwrap().to_vec().unwrap(), [-3; 5]);

    let empty = Tensor::<f32>::zeros(&device, &[4, 0]).unwrap();
    assert_eq!((empty.address(), empty.to_vec().unwrap().len()), (0, 0));
    drop((x, ones, empty));
    assert!(journal.memory.lock().unwrap().is_empty());
    assert_eq!(journal.handles.load(Ordering::Relaxed), 0);
}

#[test]
fn views_move_no_data() {
    let (device, _) = fake::device((9, 0));
    let x = Tensor::from_slice(&device, &range(24), &[2, 3, 4]).unwrap();
    let get = |view: TensorView<'_, f32>| view.to_vec().unwrap();
    assert_eq!(get(x.view().select(0, 1).unwrap().narrow(1, 1, 2).unwrap()), [13., 14., 17., 18., 21., 22.]);
    let t = x.view().select(0, 0).unwrap().transpose(0, 1).unwrap();
    assert_eq!((t.shape(), t.strides()), ([4, 3].as_slice(), [1, 4].as_slice()));
    assert_eq!(get(t), [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
    let wide = x.view().narrow(2, 0, 1).unwrap().narrow(0, 1, 1).unwrap().broadcast(&[2, 3, 2]).unwrap();
    assert_eq!(get(wide), [12., 12., 16., 16., 20., 20., 12., 12., 16., 16., 20., 20.]);
    assert_eq!(x.view().insert_dim(1).unwrap().shape(), [2, 1, 3, 4]);
}

#[test]
fn reshape_cuts_and_joins_even_runs() {
    let (device, _) = fake::device((9, 0));
    let x = Tensor::from_slice(&device, &range(24), &[4, 6]).unwrap();
    let half = x.view().narrow(1, 0, 3).unwrap();
    assert!(!half.is_contiguous());
    let split = half.clone().reshape(&[2, 1, 2, 3]).unwrap();
    assert_eq!(split.to_vec().unwrap(), half.to_vec().unwrap());
    assert_eq!(
        text(half.reshape(&[12])),
        "`shape` was [12]; it must be a split or merge of dimensions of [4, 3] with strides [6, 1]"
    );
    assert_eq!(text(x.view().reshape(&[5])), "`shape` was [5]; it must be of 24 elements, as [4, 6]");
    assert_eq!(x.reshape(&[24]).unwrap().view().strides(), [1]);
}

#[test]
fn bounds_are_checked() {
    let (device, _) = fake::device((9, 0));
    let x = Tensor::<f32>::zeros(&device, &[4, 6]).unwrap();
    assert_eq!(
        text(x.view().narrow(1, 4, 3)),
        "`start..start + len` was 4..7; it must be within 0..6, dimension 1"
    );
    assert!(x.view().narrow(1, usize::MAX, 2).is_err());
    assert_eq!(text(x.view().select(0, 4)), "`index` was 4; it must be below 4, the size of dimension 0");
    assert_eq!(text(x.view().transpose(0, 2)), "`j` was 2; it must be a dimension of shape [4, 6], below 2");
    assert!(x.view().broadcast(&[4, 12]).is_err());
    assert!(x.view().broadcast(&[6]).is_err());
    assert!(x.view().insert_dim(3).is_err());
    let scalar = Tensor::<f32>::zeros(&device, &[]).unwrap();
    assert_eq!(
        text(scalar.view().select(6, 0)),
        "`dim` was 6; it must be a dimension of the view, which has none: its shape is []"
    );
    // At the end, and empty.
    assert!(x.view().narrow(0, 4, 0).unwrap().to_vec().unwrap().is_empty());
}

#[test]
fn sizes_that_overflow_are_refused() {
    let (device, _) = fake::device((9, 0));
    assert!(Tensor::<f32>::uninit(&device, &[usize::MAX, 2]).is_err());
    assert!(Tensor::<f32>::uninit(&device, &[1 << 40, 1 << 40]).is_err());
    assert!(Tensor::<f32>::uninit(&device, &[1; 6]).is_err());
    let x = Tensor::<f32>::zeros(&device, &[4]).unwrap();
    // SAFETY: the fake device's memory is checked.
    let view = |shape: &[usize], strides: &[usize]| unsafe {
        TensorView::<f32>::from_raw_parts(&device, x.address(), shape, strides)
    };
    assert!(view(&[2], &[usize::MAX]).is_err());
    assert!(view(&[3, 3], &[usize::MAX / 4, 1]).is_err());
    assert_eq!(text(view(&[2], &[])), "`strides` was []; it must be 1 numbers, one a dimension");
    let nothing = view(&[0, usize::MAX, usize::MAX], &[usize::MAX, usize::MAX, 1]).unwrap();
    assert!(nothing.narrow(1, 5, 5).unwrap().to_vec().unwrap().is_empty());
    // The stride of a dimension of size 1 is nowhere taken: offsets are those of elements.
    let single = view(&[1, 4, 1], &[usize::MAX, 1, usize::MAX - 2]).unwrap();
    assert_eq!(single.to_vec().unwrap(), [0.0; 4]);
    let mut offsets = Vec::new();
    let layout = Layout::strided(&[1, 2, 1, 2], &[usize::MAX, 1, usize::MAX, 2]).unwrap();
    layout.for_each_offset(|offset| offsets.push(offset));
    assert_eq!(offsets, [0, 2, 1, 3]);
    let nothing = Tensor::<f16>::uninit(&device, &[0, 7, usize::MAX >> 33]).unwrap();
    assert_eq!(nothing.view().arg::<3, Parameter>().unwrap().tma, 0);
}

#[test]
fn out_of_memory_says_how_much_there_was() {
    let (device, _) = fake::device((9, 0));
    let _kept = Tensor::<u8>::zeros(&device, &[1 << 19]).unwrap();
    assert_eq!(
        text(Tensor::<f32>::zeros(&device, &[1 << 18])),
        "out of device memory: 1048576 bytes asked for, 524288 of 1048576 bytes free"
    );
}

#[test]
fn foreign_memory_is_checked() {
    let (device, _) = fake::device((9, 0));
    let x = Tensor::from_slice(&device, &range(16), &[16]).unwrap();
    // SAFETY: the fake device's memory is checked.
    let view = |address, shape: &[usize], strides: &[usize]| unsafe {
        TensorView::<f32>::from_raw_parts(&device, address, shape, strides)
    };
    let at = x.address();
    assert_eq!(view(at + 8, &[2, 3], &[4, 1]).unwrap().to_vec().unwrap(), [2., 3., 4., 6., 7., 8.]);
    let size = "a device address that is a multiple of 4, the size of f32, with 8 bytes behind it";
    for wrong in [0, at + 2, u64::MAX - 3] {
        assert_eq!(text(view(wrong, &[2], &[1])), format!("`address` was {wrong:#x}; it must be {size}"));
    }
    assert_eq!(
        text(view(at + 8, &[4, 4], &[4, 1])),
        format!(
            "`address` was {:#x}, 56 bytes before its allocation's end; it must be in an allocation with room for the view's 64 bytes",
            at + 8
        )
    );
    assert_eq!(
        text(view(0xdead << 32, &[1], &[1])),
        "`address` was on fake:1; it must be on fake:0, the device of this call"
    );
    assert_eq!(
        text(view(0x1000, &[1], &[1])),
        "`address` was 0x1000, which the device does not know; it must be memory of fake:0"
    );
    // SAFETY: as above.
    let shared = unsafe { TensorViewMut::<f32>::from_raw_parts(&device, at, &[4, 4], &[2, 1]) };
    assert_eq!(
        text(shared),
        "`strides` was [2, 1] with shape [4, 4]; it must be such that each dimension steps over all that lies inside it, \
         so that no two indices mean the same element"
    );
    // No two indices mean the same, and yet one dimension begins inside the other's reach: the message holds.
    // SAFETY: as above.
    let interleaved = unsafe { TensorViewMut::<f32>::from_raw_parts(&device, at, &[3, 2], &[2, 3]) };
    assert!(text(interleaved).ends_with(
        "each dimension steps over all that lies inside it, so that no two indices mean the same element"
    ));
}

#[test]
fn memory_that_the_device_does_not_know_is_taken_at_its_word() {
    let (device, _) = fake::device((9, 0));
    // SAFETY: no work is queued with the views.
    let view = |address, shape: &[usize], strides: &[usize]| unsafe {
        TensorView::<f32>::from_raw_parts_unchecked(&device, address, shape, strides)
    };
    assert_eq!(view(0x1000, &[2, 3], &[4, 1]).unwrap().address(), 0x1000);
    let size = "a device address that is a multiple of 4, the size of f32, with 28 bytes behind it";
    for wrong in [0, 0x1002, u64::MAX - 3] {
        let text = text(view(wrong, &[2, 3], &[4, 1]));
        assert_eq!(text, format!("`address` was {wrong:#x}; it must be {size}"));
    }
    assert!(view(0, &[0, 3], &[3, 1]).unwrap().is_empty());
    // SAFETY: as above.
    let shared = unsafe { TensorViewMut::<f32>::from_raw_parts_unchecked(&device, 0x1000, &[4, 4], &[2, 1]) };
    assert!(text(shared).starts_with("`strides` was [2, 1] with shape [4, 4]"));
}

#[test]
fn overlaps_are_found() {
    let (device, _) = fake::device((9, 0));
    let x = Tensor::<f16>::zeros(&device, &[8, 32]).unwrap();
    let y = Tensor::<f32>::zeros(&device, &[8, 8]).unwrap();
    let columns = |start, len| x.view().narrow(1, start, len).unwrap();
    let rows = |start, len| x.view().narrow(0, start, len).unwrap();
    assert!(!x.view().overlaps(&y.view()));
    assert!(x.view().overlaps(&x.view()));
    assert!(!rows(0, 4).overlaps(&rows(4, 4)));
    assert!(rows(0, 5).overlaps(&rows(4, 4)));
    // Column blocks of one matrix, as a fused projection gives them.
    assert!(!columns(0, 16).overlaps(&columns(16, 16)));
    assert!(!columns(16, 16).overlaps(&columns(0, 16)));
    assert!(columns(0, 17).overlaps(&columns(16, 16)));
    assert!(!columns(0, 16).overlaps(&columns(16, 16).transpose(0, 1).unwrap()));
    assert!(!columns(0, 8).narrow(0, 2, 3).unwrap().overlaps(&columns(24, 8)));
    // A row through the middle meets every column block.
    assert!(columns(0, 16).overlaps(&rows(3, 1)));
    assert!(!columns(0, 16).overlaps(&rows(3, 1).narrow(1, 16, 16).unwrap()));
    assert!(!columns(0, 0).overlaps(&columns(0, 16)));
    // Batches of column blocks: two pitches.
    let z = Tensor::<f16>::zeros(&device, &[3, 8, 32]).unwrap();
    let block = |start| z.view().narrow(2, start, 8).unwrap();
    assert!(!block(0).overlaps(&block(8)));
    assert!(!block(0).narrow(1, 0, 4).unwrap().overlaps(&block(0).narrow(1, 4, 4).unwrap()));
    assert!(block(0).overlaps(&block(4)));
}

#[test]
fn mutable_views_split_fill_and_copy() {
    let (device, _) = fake::device((9, 0));
    let stream = device.default_stream();
    let from = Tensor::from_slice(&device, &range(4), &[1, 4]).unwrap();
    let mut x = Tensor::<f32>::zeros(&device, &[3, 4]).unwrap();
    let (mut top, mut rest) = x.view_mut().split_at(0, 1).unwrap();
    top.copy_from(&stream, &from.view()).unwrap();
    rest.fill(&stream, 9.0).unwrap();
    let column = rest.reborrow().narrow(1, 0, 1).unwrap().fill(&stream, 0.0);
    assert_eq!(text(column), "`self` was of shape [2, 1] with strides [4, 1]; it must be contiguous");
    assert!(rest.copy_from(&stream, &from.view()).is_err());
    assert_eq!(x.to_vec().unwrap()[..5], [0., 1., 2., 3., 9.]);
    assert!(x.view_mut().split_at(0, 4).is_err());
    assert!(x.view_mut().split_at(2, 0).is_err());
    assert_eq!(
        text(x.write(&[1.0])),
        "`data` was of 1 elements; it must be of 12 elements, for shape [3, 4]"
    );
}

/// A kernel's parameter, as the device crate's `Global` is one.
struct Parameter;

impl KernelArg for Parameter {
    type Abi = GlobalAbi<f16, 3>;
    unsafe fn load(_: *const Self::Abi) -> Self {
        Parameter
    }
}

impl GlobalArg<3> for Parameter {
    type Element = f16;
    const ROW_MAJOR: bool = true;
    const BOX_ROWS: u32 = 128;
}

#[test]
fn arguments_have_a_map_where_tma_can_have_one() {
    let (device, journal) = fake::device((9, 0));
    let x = Tensor::<f16>::zeros(&device, &[8, 32]).unwrap();
    let arg = x.view().arg::<3, Parameter>().unwrap();
    assert_eq!((arg.address, arg.shape, arg.strides), (x.address(), [1, 8, 32], [0, 32, 1]));
    assert_eq!((arg.align, arg.tma, arg.map.0), (16, 1, [7; 16]));
    assert_eq!(journal.maps.lock().unwrap()[0].tile[..3], [64, 128, 1]);

    let arg = x.view().narrow(1, 3, 8).unwrap().arg::<3, Parameter>().unwrap();
    assert_eq!((arg.address, arg.align, arg.tma), (x.address() + 6, 2, 0));

    let (older, _) = fake::device((8, 0));
    let y = Tensor::<f16>::zeros(&older, &[8, 32]).unwrap();
    let arg = y.view().arg::<3, Parameter>().unwrap();
    assert_eq!((arg.align, arg.tma, arg.map.0), (16, 0, [0; 16]));
}
