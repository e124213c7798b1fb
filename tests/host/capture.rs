use tilewright::{Device, Error, Event, Launch, Stream, Tensor, TensorViewMut};
use tilewright_support::foreign::{allocate_on, free_on};
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
            unsafe { kernel.launch_block(stream, &Launch::grid([1, 1, 1]), &args)? };
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
            kernel.launch_block(
                stream,
                &Launch::grid([1, 1, 1]),
                &Output { address: out.address(), value: 1 },
            )
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

/// A framework's pool allocates while the stream is captured: the driver knows the memory only when the graph runs.
pub fn foreign_allocation(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut out = Tensor::<u32>::zeros(device, &[64])?;
    let mut allocated = Ok(());
    let graph = stream.capture(|stream| {
        let address = match allocate_on(stream, 256) {
            Ok(address) => address,
            Err(error) => {
                allocated = Err(error);
                return Ok(());
            }
        };
        // SAFETY: the graph allocates 64 elements there before the work that uses them, and frees them behind it.
        let mut pool =
            unsafe { TensorViewMut::<u32>::from_raw_parts_unchecked(device, address, &[64], &[1])? };
        pool.fill(stream, 9)?;
        out.view_mut().copy_from(stream, &pool.as_view())?;
        // SAFETY: what uses it is queued.
        allocated = unsafe { free_on(stream, address) };
        Ok(())
    })?;
    allocated?;
    for _ in 0..2 {
        out.fill(&stream, 0)?;
        // SAFETY: the tensor is alive.
        unsafe { graph.launch(&stream)? };
        assert_eq!(out.to_vec_on(&stream)?, [9; 64]);
    }
    Ok(())
}

/// Calls that wait are refused before anything is recorded, on whatever stream, and the capture goes on.
pub fn waiting(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Stream::new(device)?);
    let mut x = Tensor::filled(device, 3u32, &[16])?;
    let dropped = Tensor::<u32>::zeros(device, &[16])?;
    let (event, empty) = (Event::new(device)?, Tensor::<u32>::zeros(device, &[0])?);
    let old = stream.capture(|_| Ok(()))?;
    event.synchronize()?;
    let refused = |name: &str, result: tilewright::Result<()>| match result {
        Err(Error::Captured { call }) if call == name => Ok(()),
        other => Err(format!("{name} gave {other:?}")),
    };
    let mut calls = Ok(());
    let graph = stream.capture(|stream| {
        calls = (|| {
            refused("write_on", x.write_on(stream, &[7; 16]))?;
            refused("write_on", x.write_on(&other, &[7; 16]))?;
            refused("write", x.write(&[7; 16]))?;
            refused("to_vec_on", x.to_vec_on(stream).map(drop))?;
            refused("to_vec_on", x.to_vec_on(&other).map(drop))?;
            refused("to_vec_on", empty.to_vec_on(stream).map(drop))?;
            refused("to_vec", x.to_vec().map(drop))?;
            refused("Stream::synchronize", stream.synchronize())?;
            refused("Stream::synchronize", other.synchronize())?;
            refused("Event::synchronize", event.synchronize())?;
            refused("Event::synchronize", event.elapsed_ms(&event).map(drop))?;
            refused("Device::synchronize", device.synchronize())?;
            refused("allocating memory", Tensor::<u32>::uninit(device, &[4]).map(drop))?;
            // SAFETY: it is empty.
            refused("Graph::launch", unsafe { old.launch(stream) })
        })();
        drop((dropped, old));
        x.fill(stream, 5)
    })?;
    calls?;
    assert_eq!(graph.nodes(), 1, "what was refused is not recorded");
    assert_eq!(x.to_vec()?, [3; 16]);
    // SAFETY: the tensor is alive.
    unsafe { graph.launch(&stream)? };
    assert_eq!(x.to_vec_on(&stream)?, [5; 16]);
    let text = Error::Captured { call: "write_on" }.to_string();
    assert_eq!(text, "write_on cannot be captured in a graph");
    Ok(())
}

/// Another thread's captured stream is not waited for either; what is put on other streams runs.
pub fn of_other_threads(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Stream::new(device)?);
    let (mut x, mut y) = (Tensor::filled(device, 3u32, &[16])?, Tensor::filled(device, 3u32, &[16])?);
    let mut inside = Ok(Vec::new());
    let graph = stream.capture(|stream| {
        inside = std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let refused = [stream.synchronize(), x.write_on(stream, &[7; 16])];
                y.fill(&other, 4)?;
                Ok::<_, Error>((refused, y.to_vec_on(&other)?))
            });
            let (refused, y) = waits.join().expect("no panic")?;
            assert!(
                refused.iter().all(|result| matches!(result, Err(Error::Captured { .. }))),
                "{refused:?}"
            );
            Ok::<_, Error>(y)
        });
        Ok(())
    })?;
    assert_eq!((inside?, graph.nodes()), (vec![4; 16], 0));
    Ok(())
}

/// A stream that waits for an event of a capture is captured too.
pub fn forks(device: &Device) -> Outcome {
    let (stream, second) = (Stream::new(device)?, Stream::new(device)?);
    let (fork, join) = (Event::new(device)?, Event::new(device)?);
    let (mut x, mut y) = (Tensor::<u32>::zeros(device, &[16])?, Tensor::<u32>::zeros(device, &[16])?);
    let graph = stream.capture(|stream| {
        x.fill(stream, 1)?;
        stream.record(&fork)?;
        second.wait(&fork)?;
        y.copy_from(&second, &x)?;
        second.record(&join)?;
        stream.wait(&join)?;
        x.fill(stream, 2)
    })?;
    assert_eq!((graph.nodes(), x.to_vec()?, y.to_vec()?), (3, vec![0; 16], vec![0; 16]));
    // SAFETY: the tensors are alive.
    unsafe { graph.launch(&stream)? };
    assert_eq!((x.to_vec_on(&stream)?, y.to_vec_on(&stream)?), (vec![2; 16], vec![1; 16]));

    // The second stream runs its work again, and one that did nothing need not be waited for.
    y.fill(&second, 9)?;
    assert_eq!(y.to_vec_on(&second)?, [9; 16]);
    let idle = stream.capture(|stream| {
        stream.record(&fork)?;
        second.wait(&fork)?;
        x.fill(stream, 3)
    })?;
    assert_eq!(idle.nodes(), 1);

    // Work that the captured stream does not wait for, be it all or behind the event.
    for joined in [false, true] {
        let unjoined = stream.capture(|stream| {
            stream.record(&fork)?;
            second.wait(&fork)?;
            if joined {
                y.fill(&second, 1)?;
                second.record(&join)?;
                stream.wait(&join)?;
            }
            y.fill(&second, 2)
        });
        says(unjoined.map(drop), "CUDA_ERROR_STREAM_CAPTURE_UNJOINED")?;
        y.fill(&second, 9)?;
        assert_eq!(y.to_vec_on(&second)?, [9; 16]);
    }
    Ok(())
}

/// The error names the driver's, which the emulator's does too.
fn says(result: tilewright::Result<()>, name: &str) -> Outcome {
    match result {
        Err(error) if error.to_string().contains(name) => Ok(()),
        other => Err(format!("not {name}: {other:?}").into()),
    }
}

/// Events do not cross a capture's boundary. A refused call is the end of the capture.
pub fn isolation(device: &Device) -> Outcome {
    let (stream, second) = (Stream::new(device)?, Stream::new(device)?);
    let [outside, inside, never] = [Event::new(device)?, Event::new(device)?, Event::new(device)?];
    let mut x = Tensor::<u32>::zeros(device, &[16])?;
    second.record(&outside)?;
    // Errors are ignored inside: the graph fails all the same.
    let broken = |call: &mut dyn FnMut(&Stream) -> tilewright::Result<()>, name: &str| {
        let mut result = Ok(());
        let graph = stream.capture(|stream| {
            result = call(stream);
            Ok(())
        });
        says(result, name)?;
        says(graph.map(drop), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    };
    broken(&mut |stream| stream.wait(&outside), "CUDA_ERROR_STREAM_CAPTURE_ISOLATION")?;
    let first = device.default_stream();
    let mut implicit = |stream: &Stream| stream.record(&inside).and_then(|()| first.wait(&inside));
    broken(&mut implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT")?;
    let mut after = |stream: &Stream| {
        let _ = stream.wait(&outside);
        x.fill(stream, 1)
    };
    broken(&mut after, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")?;
    let mut merged = Ok(());
    let mut inner = Ok(());
    let outer = stream.capture(|stream| {
        stream.record(&inside)?;
        let graph = second.capture(|second| {
            merged = second.wait(&inside);
            Ok(())
        });
        inner = graph.map(drop);
        Ok(())
    });
    says(merged, "CUDA_ERROR_STREAM_CAPTURE_MERGE")?;
    says(inner, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")?;
    says(outer.map(drop), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")?;

    // The event of a capture that has ended means nothing until it is recorded again.
    says(inside.synchronize(), "CUDA_ERROR_INVALID_VALUE")?;
    says(second.wait(&inside), "CUDA_ERROR_INVALID_VALUE")?;
    second.record(&inside)?;
    inside.synchronize()?;
    stream.wait(&inside)?;
    let graph = stream.capture(|stream| {
        stream.wait(&never)?;
        assert!(stream.capture(|_| Ok(())).is_err(), "captured already");
        x.fill(stream, 1)
    })?;
    assert_eq!(graph.nodes(), 1);
    Ok(())
}
