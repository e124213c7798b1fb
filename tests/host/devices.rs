use tilewright::{Device, Error, Event, Launch, Stream, Tensor};
use tilewright_support::suite::Outcome;

use crate::kernels::{Mark, Output, set};

/// Another device than the tests': the second GPU or, where there is none, an emulator.
fn other(device: &Device) -> Device {
    let seeded = || Device::emulator_with_seed(3);
    let other = if device.is_emulator() { seeded() } else { Device::cuda(1).unwrap_or_else(|_| seeded()) };
    println!("beside {other:?}");
    other
}

/// Devices in one process, from one thread in turns and from two at once: nothing depends on which one the thread used before.
pub fn side_by_side(device: &Device) -> Outcome {
    let devices = [device.clone(), other(device)];
    let streams = [Stream::new(&devices[0])?, Stream::new(&devices[1])?];
    let mut tensors = [Tensor::<u32>::zeros(&devices[0], &[64])?, Tensor::<u32>::zeros(&devices[1], &[64])?];
    for turn in 0..20u32 {
        let at = (turn / 3 % 2) as usize;
        let kernel = devices[at].kernel::<Mark>(set())?;
        let args = Output { address: tensors[at].address(), value: turn };
        // SAFETY: one CTA of 64 threads writes one element each.
        unsafe { kernel.launch_block(&streams[at], &Launch::grid([1, 1, 1]), &args)? };
        // Memory of one is given back while the other was used last.
        let last = std::mem::replace(&mut tensors[at], Tensor::zeros(&devices[at], &[64])?);
        tensors[1 - at].fill(&streams[1 - at], 7)?;
        assert_eq!(last.to_vec_on(&streams[at])?, (turn..turn + 64).collect::<Vec<_>>());
        drop(last);
        assert_eq!(tensors[1 - at].to_vec_on(&streams[1 - at])?, [7; 64]);
    }
    std::thread::scope(|scope| {
        let threads = devices.each_ref().map(|device| {
            scope.spawn(move || -> tilewright::Result<()> {
                let (stream, kernel) = (Stream::new(device)?, device.kernel::<Mark>(set())?);
                for value in 0..50 {
                    let out = Tensor::<u32>::zeros(device, &[64])?;
                    let args = Output { address: out.address(), value };
                    // SAFETY: as above.
                    unsafe { kernel.launch_block(&stream, &Launch::grid([1, 1, 1]), &args)? };
                    assert_eq!(out.to_vec_on(&stream)?, (value..value + 64).collect::<Vec<_>>());
                }
                Ok(())
            })
        });
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

/// What belongs to one is refused by the other, by its argument's name.
pub fn not_mixed(device: &Device) -> Outcome {
    let other = other(device);
    let (ours, theirs) = (Stream::new(device)?, Stream::new(&other)?);
    let (mut x, y) = (Tensor::<u32>::zeros(device, &[8])?, Tensor::<u32>::zeros(&other, &[8])?);
    let refused = |argument: &str, result: tilewright::Result<()>| match result {
        Err(Error::WrongDevice { argument: found, .. }) if found == argument => Ok(()),
        outcome => Err(format!("{argument}: {outcome:?}")),
    };
    refused("stream", x.fill(&theirs, 1))?;
    refused("from", x.copy_from(&ours, &y))?;
    refused("stream", y.to_vec_on(&ours).map(drop))?;
    refused("event", ours.record(&Event::new(&other)?))?;
    let kernel = device.kernel::<Mark>(set())?;
    let args = Output { address: x.address(), value: 1 };
    // SAFETY: one CTA of 64 threads would write one element each; it is refused.
    refused("kernel", unsafe { kernel.launch_block(&theirs, &Launch::grid([1, 1, 1]), &args) })?;
    assert_eq!(x.to_vec()?, [0; 8]);
    Ok(())
}
