//! Launches that do not end are ended: by the emulator's limits, or by another thread.

use std::time::Duration;

use tilewright::{Device, EmulatorOptions, Error, Launch, Limits, Result, Stream};
use tilewright_support::suite::Outcome;

use crate::kernels::{Output, Spin, set};

/// Counts down from a number; 0 is as good as for ever.
fn spin(device: &Device, from: u32) -> Result<()> {
    let (stream, kernel) = (Stream::new(device)?, device.kernel::<Spin>(set())?);
    let args = Output { address: 0, value: from };
    // SAFETY: the kernel accesses no memory.
    unsafe { kernel.launch_block(&stream, &Launch::grid([1, 1, 1]), &args) }
}

/// What is said of a launch that was ended.
fn report(outcome: Result<()>) -> String {
    match outcome {
        Err(Error::Emulator { call: "launch", report }) => report,
        other => panic!("{other:?}"),
    }
}

pub fn end_launches() -> Outcome {
    let default = Limits::default();
    for (limits, words) in [
        (
            Limits { instructions: 100_000, ..default },
            "executed more than 100000 instructions (`Limits::instructions`)",
        ),
        (Limits { time: Duration::from_millis(50), ..default }, "run for more than 50ms (`Limits::time`)"),
    ] {
        let device = Device::emulator_with(EmulatorOptions { limits, ..EmulatorOptions::default() });
        let report = report(spin(&device, 0));
        assert!(report.contains(words) && report.contains("kernel spin, CTA (0, 0, 0)"), "{report}");
        // What is honest ends, before and behind it.
        spin(&device, 10)?;
    }
    let limits = Limits { memory: 1 << 20, ..default };
    let device = Device::emulator_with(EmulatorOptions { limits, seed: Some(3) });
    let much = tilewright::Tensor::<u8>::zeros(&device, &[2 << 20]).map(|_| ());
    let free = 1 << 20;
    assert_eq!(much, Err(Error::OutOfMemory { requested: 2 << 20, free, total: 1 << 20 }));
    Ok(())
}

pub fn are_cancelled() -> Outcome {
    let device = Device::emulator_with(EmulatorOptions { seed: Some(0xca11), ..EmulatorOptions::default() });
    assert_eq!(device.running(), Some(Vec::new()));
    let report = std::thread::scope(|scope| {
        let spins = scope.spawn(|| spin(&device, 0));
        let seen = loop {
            let running = device.running().unwrap_or_default();
            if let Some(progress) = running.into_iter().find(|progress| progress.line.is_some()) {
                break progress;
            }
            assert!(!spins.is_finished(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!((seen.kernel.as_str(), seen.ended, seen.ctas), ("spin", 0, 1));
        device.cancel().expect("it is the emulator");
        report(spins.join().expect("no panic"))
    });
    assert!(report.contains("the launch was cancelled: 0 of 1 CTAs have ended: kernel spin"), "{report}");
    spin(&device, 10)?;
    Ok(())
}
