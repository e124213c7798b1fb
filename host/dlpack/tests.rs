//! Capsules of this library and of one that the test plays, on a fake GPU and on the emulator.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::raw::{self, CPU, CUDA, Deleter, EXTENSION, Place, READ_ONLY, Type, VERSION, Version};
use super::{Capsule, Managed, ManagedTensor, ManagedTensorVersioned, shared};
use crate::backend::fake;
use crate::{DType, Device, F8E4M3, Stream, Tensor, TensorView, bf16};

/// A tensor of another library, which counts how often it is given back.
struct Theirs {
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    place: Place,
    dtype: Type,
    data: u64,
    byte_offset: u64,
    flags: u64,
    freed: AtomicUsize,
}

const F32: Type = Type { code: 2, bits: 32, lanes: 1 };

impl Theirs {
    /// \[2, 3\] of f32, row-major, in this memory.
    fn new(data: u64) -> Self {
        Theirs {
            shape: vec![2, 3],
            strides: Some(vec![3, 1]),
            place: Place { kind: CUDA, ordinal: 0 },
            dtype: F32,
            data,
            byte_offset: 0,
            flags: 0,
            freed: AtomicUsize::new(0),
        }
    }

    fn raw<M: Managed>(&self) -> Box<M> {
        unsafe extern "C" fn free<M: Managed>(managed: *mut M) {
            // SAFETY: the context is the count, which outlives the capsule.
            unsafe { &*(*managed).context().cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
        }
        let tensor = raw::Tensor {
            data: std::ptr::without_provenance_mut(self.data as usize),
            place: self.place,
            ndim: self.shape.len() as i32,
            dtype: self.dtype,
            shape: self.shape.as_ptr().cast_mut(),
            strides: self
                .strides
                .as_ref()
                .map_or(std::ptr::null_mut(), |strides| strides.as_ptr().cast_mut()),
            byte_offset: self.byte_offset,
        };
        let context = (&raw const self.freed).cast_mut().cast::<c_void>();
        let deleter: Deleter<M> = Some(free::<M>);
        Box::new(M::new(tensor, context, deleter, self.flags))
    }

    /// What a view of it as f32 is: the address, the strides, or the error.
    fn seen(&self, device: &Device) -> Result<(u64, Vec<usize>), String> {
        let mut raw = self.raw::<ManagedTensorVersioned>();
        // SAFETY: the struct outlives the capsule.
        let capsule = unsafe { Capsule::from_raw(&raw mut *raw).unwrap() };
        // SAFETY: nothing is done with the view.
        let view = unsafe { capsule.view::<f32>(device) };
        view.map(|view| (view.address(), view.strides().to_vec())).map_err(|error| error.to_string())
    }
}

fn round_trip<M: Managed>() {
    let (device, journal) = fake::device((9, 0));
    let tensor = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
    let address = tensor.address();
    let raw = tensor.into_dlpack::<M>().into_raw();
    // SAFETY: the pointer is the capsule's.
    let mut capsule = unsafe { Capsule::from_raw(raw).unwrap() };
    assert_eq!(capsule.dtype(), Ok(DType::F32));
    // SAFETY: the fake device does all work at once.
    let mut view = unsafe { capsule.view_mut::<f32>(&device).unwrap() };
    assert_eq!((view.address(), view.shape(), view.strides()), (address, &[2, 3][..], &[3, 1][..]));
    view.fill(&device.default_stream(), 7.0).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { capsule.view::<f32>(&device).unwrap() }.to_vec(), Ok(vec![7.0; 6]));
    assert_eq!(journal.memory.lock().unwrap().len(), 1);
    drop(capsule);
    assert_eq!(journal.memory.lock().unwrap().len(), 0, "the deleter gives the memory back");
}

#[test]
fn a_tensor_goes_out_and_comes_in() {
    round_trip::<ManagedTensorVersioned>();
    round_trip::<ManagedTensor>();
}

#[test]
fn the_emulators_memory_is_an_extensions() {
    let device = Device::emulator();
    let tensor = Tensor::from_slice(&device, &[bf16::ONE, bf16::ZERO], &[2]).unwrap();
    let capsule = tensor.into_dlpack::<ManagedTensorVersioned>();
    // SAFETY: the emulator does all work at once.
    assert_eq!(unsafe { capsule.view::<bf16>(&device).unwrap() }.to_vec(), Ok(vec![bf16::ONE, bf16::ZERO]));
    let (gpu, _) = fake::device((9, 0));
    // SAFETY: it fails.
    let error = unsafe { capsule.view::<bf16>(&gpu) }.unwrap_err().to_string();
    assert_eq!(error, "`device` was an extension's device 0; it must be CUDA device 0, the memory of fake:0");
    assert_eq!(
        format!("{capsule:?}"),
        r#"Capsule { dtype: bf16, device: an extension's device 0, ndim: 1, read_only: false }"#
    );
}

#[test]
fn what_is_shared_or_viewed_stays_and_is_not_written() {
    let (device, journal) = fake::device((9, 0));
    let tensor = Arc::new(Tensor::<f32>::filled(&device, 2.0, &[4, 8]).unwrap());
    let mut all = shared(&tensor);
    let column = tensor.view().select(1, 3).unwrap();
    // SAFETY: what is kept is the tensor.
    let part = unsafe { column.to_dlpack(Arc::clone(&tensor)).unwrap() };
    let address = tensor.address();
    drop(tensor);
    // SAFETY: the fake device does all work at once; the second fails.
    unsafe {
        let view = part.view::<f32>(&device).unwrap();
        assert_eq!((view.address(), view.shape(), view.strides()), (address + 12, &[4][..], &[8][..]));
        assert_eq!(view.to_vec(), Ok(vec![2.0; 4]));
        let error = all.view_mut::<f32>(&device).unwrap_err().to_string();
        assert_eq!(
            error,
            "`flags` was read-only; it must be without the flag of read-only memory, since the view is to be written"
        );
    }
    drop(all);
    assert_eq!(journal.memory.lock().unwrap().len(), 1);
    drop(part);
    assert_eq!(journal.memory.lock().unwrap().len(), 0);
}

#[test]
fn a_written_view_goes_out_in_either_struct() {
    let (device, _) = fake::device((9, 0));
    let mut tensor = Tensor::<f32>::filled(&device, 2.0, &[4, 8]).unwrap();
    let kept = Arc::new(());
    // SAFETY: the capsule is dropped before the tensor.
    let mut capsule: Capsule<ManagedTensor> =
        unsafe { tensor.view_mut().narrow(0, 1, 2).unwrap().into_dlpack(Arc::clone(&kept)).unwrap() };
    // SAFETY: the fake device does all work at once.
    unsafe { capsule.view_mut::<f32>(&device).unwrap() }.fill(&device.default_stream(), 5.0).unwrap();
    assert_eq!(Arc::strong_count(&kept), 2);
    drop(capsule);
    assert_eq!(Arc::strong_count(&kept), 1);
    let rows = [2.0, 5.0, 5.0, 2.0];
    assert_eq!(tensor.to_vec().unwrap(), rows.iter().flat_map(|&x| [x; 8]).collect::<Vec<_>>());
}

#[test]
fn views_without_memory_stay_here() {
    let (device, _) = fake::device((9, 0));
    let view = TensorView::<f32>::without_memory(&device, &[2], &[1], 16).unwrap();
    // SAFETY: it fails.
    let error = unsafe { view.to_dlpack(()) }.unwrap_err().to_string();
    assert!(error.starts_with("`self` was a view without memory"), "{error}");
}

#[test]
fn another_librarys_tensor_is_given_back_once() {
    let (device, _) = fake::device((9, 0));
    let memory = Tensor::<f32>::filled(&device, 1.0, &[6]).unwrap();
    let theirs = Theirs { flags: READ_ONLY, ..Theirs::new(memory.address()) };
    assert!(theirs.seen(&device).is_ok());
    assert_eq!(theirs.freed.load(Ordering::Relaxed), 1);

    // The old struct has no flags.
    let mut old = theirs.raw::<ManagedTensor>();
    // SAFETY: the struct outlives the capsule.
    let capsule = unsafe { Capsule::from_raw(&raw mut *old).unwrap() };
    assert!(!capsule.is_read_only());
    drop(capsule);
    assert_eq!(theirs.freed.load(Ordering::Relaxed), 2);

    // Another major version may be laid out otherwise behind the deleter.
    let mut later = theirs.raw::<ManagedTensorVersioned>();
    later.version = Version { major: VERSION.major + 1, minor: 0 };
    // SAFETY: as above.
    let error = unsafe { Capsule::from_raw(&raw mut *later) }.unwrap_err().to_string();
    assert_eq!(error, "`version` was 2.0; it must be of DLPack 1, whose layout this is");
    assert_eq!(theirs.freed.load(Ordering::Relaxed), 3);

    // A deleter may be missing.
    let mut constant = theirs.raw::<ManagedTensorVersioned>();
    constant.deleter = None;
    // SAFETY: as above.
    drop(unsafe { Capsule::from_raw(&raw mut *constant).unwrap() });
    // SAFETY: it fails.
    let error = unsafe { Capsule::<ManagedTensor>::from_raw(std::ptr::null_mut()) }.unwrap_err().to_string();
    assert_eq!(error, "`managed` was null; it must be a tensor");
}

#[test]
fn layouts_are_theirs() {
    let (device, _) = fake::device((9, 0));
    let memory = Tensor::<f32>::filled(&device, 1.0, &[64]).unwrap();
    let theirs = || Theirs::new(memory.address());
    let seen = |theirs: Theirs| theirs.seen(&device).unwrap();
    let at = memory.address();
    assert_eq!(seen(Theirs { strides: Some(vec![1, 2]), ..theirs() }), (at, vec![1, 2]), "transposed");
    assert_eq!(seen(Theirs { strides: None, ..theirs() }), (at, vec![3, 1]), "null is row-major");
    assert_eq!(seen(Theirs { byte_offset: 8, ..theirs() }), (at + 8, vec![3, 1]));
    assert_eq!(seen(Theirs { shape: vec![], strides: None, ..theirs() }), (at, vec![]), "a scalar");
    let one = Theirs { shape: vec![1, 3], strides: Some(vec![-7, 1]), ..theirs() };
    assert_eq!(seen(one), (at, vec![0, 1]), "one index has no stride");
    let none = Theirs { shape: vec![0, 3], data: 0, ..theirs() };
    assert_eq!(seen(none), (0, vec![3, 1]), "no elements, no memory");
}

#[test]
fn errors_name_what_does_not_fit() {
    let (device, _) = fake::device((9, 0));
    let memory = Tensor::<f32>::filled(&device, 1.0, &[64]).unwrap();
    let theirs = || Theirs::new(memory.address());
    let fails = |theirs: Theirs| {
        let error = theirs.seen(&device).unwrap_err();
        assert_eq!(theirs.freed.load(Ordering::Relaxed), 1, "{error}");
        error
    };
    let of = |kind, ordinal| Theirs { place: Place { kind, ordinal }, ..theirs() };
    let expected = "it must be CUDA device 0, the memory of fake:0";
    assert_eq!(fails(of(CPU, 0)), format!("`device` was the CPU; {expected}"));
    assert_eq!(fails(of(CUDA, 3)), format!("`device` was CUDA device 3; {expected}"));
    assert_eq!(fails(of(EXTENSION, 0)), format!("`device` was an extension's device 0; {expected}"));
    assert_eq!(fails(of(10, 1)), format!("`device` was device 1 of DLPack's type 10; {expected}"));

    let of = |code, bits, lanes| Theirs { dtype: Type { code, bits, lanes }, ..theirs() };
    let expected = "it must be f32, the type of the view";
    assert_eq!(fails(of(2, 16, 1)), format!("`dtype` was f16; {expected}"));
    assert_eq!(fails(of(12, 8, 1)), format!("`dtype` was e5m2; {expected}"));
    let other = "of DLPack's code 2 with 32 bits and 4 lanes";
    assert_eq!(fails(of(2, 32, 4)), format!("`dtype` was {other}; {expected}"));

    let text = fails(Theirs { strides: Some(vec![3, -1]), ..theirs() });
    assert_eq!(text, "`strides` was [3, -1]; it must be of numbers that are not negative");
    let text = fails(Theirs { shape: vec![2, -3], ..theirs() });
    assert_eq!(text, "`shape` was [2, -3]; it must be of numbers that are not negative");
    let text = fails(Theirs { shape: vec![1; 6], strides: None, ..theirs() });
    assert_eq!(text, "`ndim` was 6; it must be from 0 to 5");
    let text = fails(Theirs { byte_offset: 2, ..theirs() });
    let data = memory.address();
    let allowed = "such that the first element lies at a multiple of 4, its size";
    assert_eq!(text, format!("`byte_offset` was 2 behind {data:#x}; it must be {allowed}"));
    // The driver knows where allocations end.
    let text = fails(Theirs { strides: Some(vec![64, 1]), ..theirs() });
    assert!(text.contains("in an allocation with room for the view's 268 bytes"), "{text}");
    let text = fails(Theirs { data: 0, ..theirs() });
    assert!(text.starts_with("`address` was 0x0; it must be a device address"), "{text}");

    // Two indices, one element: to be read alone.
    let repeated = Theirs { strides: Some(vec![0, 1]), ..theirs() };
    let mut raw = repeated.raw::<ManagedTensorVersioned>();
    // SAFETY: the struct outlives the capsule; nothing is done with the views.
    unsafe {
        let mut capsule = Capsule::from_raw(&raw mut *raw).unwrap();
        assert!(capsule.view::<f32>(&device).is_ok());
        let text = capsule.view_mut::<f32>(&device).unwrap_err().to_string();
        assert!(text.starts_with("`strides` was [0, 1] with shape [2, 3]"), "{text}");
    }
}

#[test]
fn every_element_type_has_its_name() {
    fn there_and_back<T: crate::Element>(device: &Device) {
        let capsule: Capsule = Tensor::<T>::zeros(device, &[3]).unwrap().into_dlpack();
        assert_eq!(capsule.dtype(), Ok(T::DTYPE));
        // SAFETY: the emulator does all work at once.
        assert_eq!(unsafe { capsule.view::<T>(device).unwrap() }.to_vec(), Ok(vec![T::default(); 3]));
    }
    let device = Device::emulator();
    there_and_back::<crate::f16>(&device);
    there_and_back::<u8>(&device);
    there_and_back::<i8>(&device);
    there_and_back::<u32>(&device);
    there_and_back::<i32>(&device);
    there_and_back::<i64>(&device);
    there_and_back::<F8E4M3>(&device);
    there_and_back::<crate::F8E5M2>(&device);
    let mut raw =
        Theirs { dtype: Type { code: 5, bits: 64, lanes: 1 }, ..Theirs::new(0) }.raw::<ManagedTensor>();
    raw.deleter = None;
    // SAFETY: the type alone is looked at.
    let error = unsafe { Capsule::from_raw(&raw mut *raw).unwrap() }.dtype().unwrap_err().to_string();
    assert!(
        error.starts_with("`dtype` was of DLPack's code 5 with 64 bits and 1 lanes; it must be one of f16, "),
        "{error}"
    );
}

#[test]
fn capsules_are_given_back_on_any_thread() {
    let (device, journal) = fake::device((9, 0));
    let capsule: Capsule = Tensor::<f32>::zeros(&device, &[4]).unwrap().into_dlpack();
    let address = capsule.into_raw().expose_provenance();
    std::thread::spawn(move || {
        // SAFETY: the pointer is the capsule's, which this thread has alone.
        drop(unsafe {
            Capsule::from_raw(std::ptr::with_exposed_provenance_mut::<ManagedTensorVersioned>(address))
        });
    })
    .join()
    .unwrap();
    assert_eq!(journal.memory.lock().unwrap().len(), 0);
    assert!(Stream::new(&device).is_ok());
}
