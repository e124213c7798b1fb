use tilewright::{Device, Launch, Stream, Tensor};
use tilewright_support::suite::Outcome;

use crate::kernels::{Mark, Output, set};

pub fn replays(device: &Device) -> Outcome {
    let kernel = device.kernel::<Mark>(set())?;
    let stream = Stream::new(device)?;
    let mut out = Tensor::<u32>::zeros(device, &[128])?;
    let address = out.address();
    let graph = stream.capture(|stream| {
        for (half, value) in [(0, 5), (1, 6)] {
            let args = Output { address: address + half * 256, value };
            // SAFETY: one CTA of 64 threads writes one element each.
            unsafe { kernel.launch(stream, &Launch::grid([1, 1, 1]), &args)? };
        }
        Ok(())
    })?;
    assert_eq!(graph.nodes(), 2);
    assert_eq!(out.to_vec()?, [0; 128], "captured work does not run");
    let expected: Vec<u32> = (5..69).chain(6..70).collect();
    for _ in 0..3 {
        out.fill(&stream, 0)?;
        // SAFETY: the tensor is alive.
        unsafe { graph.launch(&stream)? };
        assert_eq!(out.to_vec_on(&stream)?, expected);
    }
    assert!(device.default_stream().capture(|_| Ok(())).is_err());
    Ok(())
}

pub fn loads(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let out = Tensor::<u32>::zeros(device, &[64])?;
    let set = set();
    let graph = stream.capture(|stream| {
        let kernel = device.kernel::<Mark>(set)?;
        // SAFETY: one CTA of 64 threads writes one element each.
        unsafe {
            kernel.launch(stream, &Launch::grid([1, 1, 1]), &Output { address: out.address(), value: 1 })
        }
    })?;
    // SAFETY: the tensor is alive.
    unsafe { graph.launch(&stream)? };
    assert_eq!(out.to_vec_on(&stream)?, (1..65).collect::<Vec<_>>());
    Ok(())
}

pub fn allocation(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let inside = stream.capture(|_| Tensor::<f32>::uninit(device, &[16]).map(drop));
    assert!(inside.is_err());
    // The stream and the device go on working.
    let mut x = Tensor::<f32>::zeros(device, &[16])?;
    x.fill(&stream, 2.0)?;
    assert_eq!(x.to_vec_on(&stream)?, [2.0; 16]);
    Ok(())
}
