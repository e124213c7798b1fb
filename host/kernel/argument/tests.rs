use tilewright_device::kernel;
use tilewright_device::tile::{
    ColMajor, Cta, Elements, Multistage, OneConsumer, RasterOrder, RowMajor, WarpSpecialized,
};

use super::*;
use crate::backend::fake::{self, VAST};
use crate::{
    Instance, KernelEntry, KernelSet, Launch, OrWhereUnreadable, SafeKernel, Stream, Takes, Tensor, f16,
};

/// A factor for each row, and for all of them.
#[kernel(threads = 64, expects(x.shape() == y.shape(), s.rows() == x.rows() && s.cols() == 1))]
fn scale(x: Global<f16, 2>, s: InPlace<Global<f32, 2>>, mut y: GlobalMut<f16, 2>, by: f32) {
    let _ = (x, s, &mut y, by);
}

/// Reads by TMA what it multiplies, and the row in registers.
#[kernel(program = WarpSpecialized<OneConsumer>)]
fn boxes(
    cta: Cta<WarpSpecialized<OneConsumer>>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    row: Global<f16, 2, RowMajor, 0>,
    mut c: GlobalMut<f16, 2>,
) {
    let _ = (cta, a, b, row, &mut c);
}

#[kernel(program = Multistage<4>)]
fn pieces(a: Global<f16, 2>, b: Global<f16, 2, ColMajor>, row: Global<f16, 2>, mut c: GlobalMut<f16, 2>) {
    let _ = (a, b, row, &mut c);
}

#[kernel(program = Multistage<4, Elements>)]
fn elements(a: Global<f16, 2>, b: Global<f16, 2, ColMajor>, row: Global<f16, 2>, mut c: GlobalMut<f16, 2>) {
    let _ = (a, b, row, &mut c);
}

/// Reads and writes in registers.
#[kernel(threads = 64, expects(x.shape() == y.shape()))]
fn direct(x: Unmapped<f16, 2>, y: UnmappedMut<f16, 2>) {
    let _ = (x, y);
}

/// Nothing but numbers and a list of them.
#[kernel(threads = 32, expects(n < 10))]
fn numbers(list: List, order: InBlock<RasterOrder>, n: u32) {
    let _ = (list, order, n);
}

/// Follows an address.
///
/// # Safety
/// `n` numbers are there.
#[kernel(threads = 32)]
unsafe fn raw(address: u64, n: u32) {
    let _ = (address, n);
}

/// A set of `K` alone.
fn set_of<K: Instance>() -> &'static KernelSet {
    let text = format!(".entry {}", K::NAME);
    let entry = KernelEntry {
        name: K::NAME,
        arch: K::ARCH,
        threads: K::THREADS,
        min_ctas: K::MIN_CTAS,
        cluster: K::CLUSTER,
        shared_bytes: K::SHARED_BYTES,
        registers: None,
        spilled: None,
        summary: "",
        ptx_bytes: text.len(),
        ptx: miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6).leak(),
    };
    // SAFETY: fake devices run nothing.
    Box::leak(Box::new(unsafe { KernelSet::new(vec![entry].leak()) }))
}

/// Launches one CTA of `K`, alone in a set.
fn launch<K: Instance + SafeKernel + Takes<A>, A: Arguments<K>>(device: &Device, arguments: A) -> Result<()> {
    device.kernel::<K>(set_of::<K>())?.launch(&Stream::new(device)?, [1, 1, 1], arguments)
}

fn message(result: Result<()>) -> String {
    result.unwrap_err().to_string()
}

fn tensor<T: Element>(device: &Device, shape: &[usize]) -> Tensor<T> {
    Tensor::zeros(device, shape).unwrap()
}

#[test]
fn arguments_become_the_kernels_block() {
    let (device, journal) = fake::h200();
    let (x, s) = (tensor::<f16>(&device, &[8, 32]), tensor::<f32>(&device, &[8, 1]));
    let mut y = tensor::<f16>(&device, &[8, 32]);
    launch::<scale, _>(&device, (x.view(), &s.view(), &mut y.view_mut(), 0.5)).unwrap();
    let launches = journal.launches.lock().unwrap();
    let (config, bytes) = &launches[0];
    assert_eq!((config.grid, config.threads, config.overlap_previous), ([1, 1, 1], 64, false));
    // SAFETY: the block that was launched, of this type.
    let args = unsafe { bytes.as_ptr().cast::<<scale as tilewright::Kernel>::Args>().read_unaligned() };
    assert_eq!((args.x.address, args.s.address, args.y.address), (x.address(), s.address(), y.address()));
    assert_eq!((args.x.shape, args.s.shape, args.by), ([8, 32], [8, 1], 0.5));
    assert!(journal.maps.lock().unwrap().is_empty(), "a kernel for sm_80 has no use for tensor maps");
}

#[test]
fn tensors_without_maps_are_of_any_strides() {
    let (device, journal) = fake::h200();
    let (x, row) = (tensor::<f16>(&device, &[8, 33]), tensor::<f16>(&device, &[33]));
    let mut y = tensor::<f16>(&device, &[33, 8]);
    let y_address = y.address();
    launch::<direct, _>(&device, (&x.view(), y.view_mut().transpose(0, 1).unwrap())).unwrap();
    let launches = journal.launches.lock().unwrap();
    let (_, bytes) = &launches[0];
    assert_eq!(bytes.len(), 2 * 48, "two arguments of addresses, strides and shapes");
    // SAFETY: the block that was launched, of this type.
    let args = unsafe { bytes.as_ptr().cast::<<direct as tilewright::Kernel>::Args>().read_unaligned() };
    assert_eq!((args.x.address, args.y.address), (x.address(), y_address));
    assert_eq!((args.x.strides, args.y.strides, args.y.shape), ([33, 1], [1, 8], [8, 33]));
    assert!(journal.maps.lock().unwrap().is_empty(), "nothing has a map");

    let error = message(launch::<direct, _>(&device, (row.view(), y.view_mut())));
    assert_eq!(error, "`x` was of shape [33]; it must be of 2 dimensions");
    let error = message(launch::<direct, _>(&device, (x.view(), y.view_mut())));
    assert!(error.contains("x.shape() == y.shape()"), "{error}");
}

#[test]
fn each_error_names_the_parameter() {
    let ((device, _), (elsewhere, _)) = (fake::h200(), fake::device((9, 0)));
    let (x, s) = (tensor::<f16>(&device, &[8, 32]), tensor::<f32>(&device, &[8, 1]));
    let (row, long) = (tensor::<f16>(&device, &[32]), tensor::<f32>(&device, &[9, 1]));
    let (mut y, mut other) = (tensor::<f16>(&device, &[8, 32]), tensor::<f16>(&elsewhere, &[8, 32]));
    let mut short = tensor::<f16>(&device, &[8, 31]);

    let error = message(launch::<scale, _>(&device, (row.view(), s.view(), y.view_mut(), 1.0)));
    assert_eq!(error, "`x` was of shape [32]; it must be of 2 dimensions");
    let error = message(launch::<scale, _>(&device, (x.view(), s.view(), other.view_mut(), 1.0)));
    assert_eq!(error, "`y` was on fake:0; it must be on fake:1, the device of this call");
    // SAFETY: nothing reads the memory of a fake device.
    let own = unsafe { TensorView::from_raw_parts(&device, y.address(), &[8, 32], &[32, 1]) }.unwrap();
    let error = message(launch::<scale, _>(&device, (own, s.view(), y.view_mut(), 1.0)));
    assert_eq!(error, "`y` overlaps `x`; what a call writes must lie apart from all else that it uses");
    let error = message(launch::<scale, _>(&device, (x.view(), s.view(), short.view_mut(), 1.0)));
    let rule = "it must be such that x.shape() == y.shape(), with `y` of shape [8, 31]";
    assert_eq!(error, format!("`x` was of shape [8, 32]; {rule}"));
    let error = message(launch::<scale, _>(&device, (x.view(), long.view(), y.view_mut(), 1.0)));
    let rule = "it must be such that s.rows() == x.rows() && s.cols() == 1, with `x` of shape [8, 32]";
    assert_eq!(error, format!("`s` was of shape [9, 1]; {rule}"));
    // SAFETY: as above.
    let vast = unsafe { TensorView::from_raw_parts(&device, VAST, &[1 << 32, 1], &[1, 1]) }.unwrap();
    let error = message(launch::<scale, _>(&device, (x.view(), vast, y.view_mut(), 1.0)));
    assert_eq!(error, "`s` was of shape [4294967296, 1]; it must be of sizes below 2^32");
    let stream = Stream::new(&elsewhere).unwrap();
    let kernel = device.kernel::<scale>(set_of::<scale>()).unwrap();
    let error = message(kernel.launch(&stream, [1, 1, 1], (x.view(), s.view(), y.view_mut(), 1.0)));
    assert_eq!(error, "`kernel` was on fake:1; it must be on fake:0, the device of this call");
    let stream = Stream::new(&device).unwrap();
    let error = message(kernel.launch(&stream, [0, 1, 1], (x.view(), s.view(), y.view_mut(), 1.0)));
    assert!(error.starts_with("`grid` was [0, 1, 1]"), "{error}");
}

#[test]
fn tensors_that_a_kernel_cannot_read_are_refused_with_the_reason() {
    let (device, journal) = fake::h200();
    let (a, b) = (tensor::<f16>(&device, &[16, 64]), tensor::<f16>(&device, &[64, 64]));
    let (row, mut c) = (tensor::<f16>(&device, &[1, 71]), tensor::<f16>(&device, &[16, 71]));
    let (narrow, empty) = (a.view().narrow(1, 0, 60).unwrap(), a.view().narrow(0, 0, 0).unwrap());
    let shifted = a.view().narrow(1, 1, 8).unwrap();
    let b_t = b.view().transpose(0, 1).unwrap();
    let mut out = c.view_mut().narrow(1, 0, 64).unwrap();

    // Only what may be copied into stages: not the row, whose BOX is 0, nor what is written.
    launch::<boxes, _>(&device, (a.view(), &b_t, row.view(), &mut out)).unwrap();
    launch::<boxes, _>(&device, (&narrow, &b_t, row.view(), &mut out)).unwrap();
    assert_eq!(journal.maps.lock().unwrap().len(), 4, "two of a, two of b");

    let reason = |what: &str, result| assert_eq!(message(result), format!("kernel `{what}"));
    let columns = "boxes` cannot read `b`: it reads the tensor column-major, and its columns are not contiguous: pass a row-major one \
                   transposed";
    reason(columns, launch::<boxes, _>(&device, (a.view(), b.view(), row.view(), &mut out)));
    let rows = "boxes` cannot read `a`: it reads the tensor row-major, and its rows are not contiguous";
    reason(rows, launch::<boxes, _>(&device, (&b_t, &b_t, row.view(), &mut out)));
    let aligned =
        "boxes` cannot read `a`: its address or the distance between its lines is not a multiple of 16 bytes";
    reason(aligned, launch::<boxes, _>(&device, (&shifted, &b_t, row.view(), &mut out)));
    let nothing = "boxes` cannot read `a`: it is empty, and TMA addresses nothing empty";
    reason(nothing, launch::<boxes, _>(&device, (&empty, &b_t, row.view(), &mut out)));
    let ragged = "pieces` cannot read `a`: its lines are not a multiple of 16 bytes long";
    reason(ragged, launch::<pieces, _>(&device, (&narrow, &b_t, a.view(), &mut out)));
    launch::<pieces, _>(&device, (&empty, &b_t, a.view(), &mut out)).unwrap();

    // Any strides at all, in the order of preference.
    for (view, launched) in [(a.view(), "boxes"), (empty, "pieces"), (narrow, "boxes"), (shifted, "elements")]
    {
        let mut by = "boxes";
        launch::<boxes, _>(&device, (&view, &b_t, row.view(), &mut out))
            .or_where_unreadable(|| {
                by = "pieces";
                launch::<pieces, _>(&device, (&view, &b_t, a.view(), &mut out))
            })
            .or_where_unreadable(|| {
                by = "elements";
                launch::<elements, _>(&device, (&view, b.view(), row.view(), &mut out))
            })
            .unwrap();
        assert_eq!(by, launched);
    }
    let error = launch::<boxes, _>(&device, (row.view().select(0, 0).unwrap(), &b_t, row.view(), &mut out))
        .or_where_unreadable(|| unreachable!("it is wrong for any kernel"));
    assert_eq!(message(error), "`a` was of shape [71]; it must be of 2 dimensions");
}

#[test]
fn numbers_and_lists_are_passed_as_they_are() {
    let (device, journal) = fake::h200();
    let list = tensor::<u32>(&device, &[12]);
    let order = RasterOrder::new(1, 2, 3, 1).unwrap();
    launch::<numbers, _>(&device, (list.view(), order, 7)).unwrap();
    let launches = journal.launches.lock().unwrap();
    // SAFETY: the block that was launched, of this type.
    let args =
        unsafe { launches[0].1.as_ptr().cast::<<numbers as tilewright::Kernel>::Args>().read_unaligned() };
    let list_of = (args.list.address, args.list.len);
    assert_eq!((list_of, args.order.total(), args.n), ((list.address(), 12), 6, 7));
    drop(launches);
    let part = list.view().narrow(0, 1, 4).unwrap();
    let error = message(launch::<numbers, _>(&device, (&part, order, 7)));
    let rule = "it must be contiguous, aligned to 16 bytes, of fewer than 2^32 numbers";
    assert_eq!(error, format!("`list` was at {:#x}, of shape [4]; {rule}", part.address()));
    assert_eq!(
        message(launch::<numbers, _>(&device, (list.view(), order, 10))),
        "`n` was 10; it must be such that n < 10"
    );
}

#[test]
fn a_kernel_that_follows_addresses_is_launched_by_who_vouches_for_them() {
    let (device, journal) = fake::h200();
    let (kernel, stream) = (device.kernel::<raw>(set_of::<raw>()).unwrap(), Stream::new(&device).unwrap());
    // SAFETY: the fake device runs nothing.
    unsafe { kernel.launch_with(&stream, &Launch::grid([2, 1, 1]).pdl(true), (VAST, 3)) }.unwrap();
    let launches = journal.launches.lock().unwrap();
    assert_eq!((launches[0].0.grid, launches[0].0.overlap_previous), ([2, 1, 1], true));
}
