use tilewright::{Device, Element, Error, Event, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::foreign::ForeignMemory;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

pub fn properties(device: &Device) -> Outcome {
    println!("{device:?}: {} SMs, CUDA {:?}", device.sm_count(), device.driver_version());
    let same = if device.is_emulator() { Device::default()? } else { Device::cuda(0)? };
    assert_eq!(*device, same);
    assert_eq!(device.is_emulator(), device.driver_version() == (0, 0));
    assert!(
        device.sm_count() > 0 && device.l2_bytes() > 1 << 20 && device.shared_memory_per_cta() >= 96 << 10
    );
    assert!(device.free_memory()? <= device.total_memory());
    device.synchronize()?;
    Ok(())
}

pub fn round_trips(device: &Device) -> Outcome {
    fn of<T: Element>(device: &Device, value: T) -> Outcome {
        let x = Tensor::filled(device, value, &[3, 37])?;
        assert_eq!(x.to_vec()?, vec![value; 111]);
        let zeros = Tensor::<T>::zeros(device, &[5])?;
        assert_eq!(zeros.to_vec()?, [T::default(); 5]);
        Ok(())
    }
    of(device, f16::from_f32(1.5))?;
    of(device, bf16::from_f32(-2.0))?;
    of(device, 0.1f32)?;
    of(device, 200u8)?;
    of(device, -7i8)?;
    of(device, 1u32 << 31)?;
    of(device, -1i32)?;
    of(device, -7i64 << 33 | 5)?;

    let stream = Stream::new(device)?;
    let data = normal::<f32>(1, 1 << 20);
    let x = Tensor::from_slice(device, &data, &[1 << 10, 1 << 10])?;
    let mut y = Tensor::zeros(device, x.shape())?;
    y.copy_from(&stream, &x)?;
    assert_eq!(y.to_vec_on(&stream)?, data);
    let column = y.view().narrow(1, 5, 1)?.to_vec()?;
    assert!(column.iter().enumerate().all(|(row, &x)| x == data[row * 1024 + 5]));
    Ok(())
}

pub fn foreign(device: &Device) -> Outcome {
    let x = Tensor::from_slice(device, &normal::<f32>(2, 4096), &[4096])?;
    // SAFETY: the tensor outlives the views.
    let view = |address, shape: &[usize], strides: &[usize]| unsafe {
        TensorView::<f32>::from_raw_parts(device, address, shape, strides)
    };
    let inside = view(x.address() + 400, &[9, 9], &[100, 1])?;
    assert_eq!(inside.to_vec()?[9..18], x.to_vec()?[200..209]);
    // The driver may round an allocation up, so go far beyond.
    assert!(matches!(view(x.address(), &[1 << 30], &[1]), Err(Error::Argument { .. })));
    let host = Box::new([0.0f32; 4]);
    let error = view(host.as_ptr().addr() as u64, &[4], &[1]).unwrap_err().to_string();
    let what = format!("which the device does not know; it must be memory of {}", device.label());
    assert!(error.ends_with(&what), "{error}");
    Ok(())
}

pub fn other_context(device: &Device) -> Outcome {
    let memory = ForeignMemory::new(1 << 16)?;
    // SAFETY: the memory outlives the view.
    let view = unsafe { TensorView::<f32>::from_raw_parts(device, memory.address(), &[16], &[1]) };
    let error = view.unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    Ok(())
}

pub fn exhaustion(device: &Device) -> Outcome {
    let most = device.total_memory();
    match Tensor::<u8>::uninit(device, &[2 * most]) {
        Err(Error::OutOfMemory { requested, free, total }) => {
            assert!(requested == 2 * most && free <= total && total == most);
        }
        other => return Err(format!("{other:?}").into()),
    }
    Tensor::<u8>::zeros(device, &[1 << 20])?;
    Ok(())
}

pub fn streams(device: &Device) -> Outcome {
    let first = Stream::new(device)?;
    // SAFETY: `first` outlives it.
    let second = unsafe { Stream::from_raw(device, first.raw())? };
    let third = Stream::new(device)?;
    let (before, after) = (Event::new(device)?, Event::new(device)?);
    let mut x = Tensor::<f32>::zeros(device, &[1 << 24])?;
    first.record(&before)?;
    for i in 0..20 {
        x.fill(&second, i as f32)?;
    }
    first.record(&after)?;
    third.wait(&after)?;
    x.fill(&third, 100.0)?;
    assert_eq!(x.view().narrow(0, (1 << 24) - 1, 1)?.to_vec_on(&third)?, [100.0]);
    assert!(before.elapsed_ms(&after)? > 0.01);
    Ok(())
}

/// Elements that repeat may be more than the host has room for.
pub fn no_room(device: &Device) -> Outcome {
    let x = Tensor::filled(device, 1.0f32, &[1])?;
    let all = 1 << 50;
    let text = x.view().broadcast(&[all])?.to_vec().unwrap_err().to_string();
    let (strides, bytes) = ([0], 4 * all);
    assert_eq!(
        text,
        format!(
            "`self` was of shape {:?} and strides {strides:?}: {bytes} bytes in row-major order; it must be of as many \
             bytes as the host has room for",
            [all]
        )
    );
    assert_eq!(x.view().broadcast(&[3])?.to_vec()?, [1.0; 3]);
    Ok(())
}
