//! What the emulator finds wrong with a kernel comes back as an error of the call that ran it.

use tilewright::{Device, Error, Launch, Stream, Tensor};
use tilewright_support::suite::Outcome;

use crate::kernels::{Mark, Output, set};

/// The report says what happened and where.
fn expect_report(outcome: tilewright::Result<()>) -> Outcome {
    let report = match outcome {
        Err(Error::Emulator { call: "launch", report }) => report,
        other => return Err(format!("{other:?}").into()),
    };
    for part in
        ["out of bounds", "kernel mark, CTA (1, 0, 0), thread 36", "line 20", "st.global.u32 [%rd3], %r5"]
    {
        assert!(report.contains(part), "no `{part}` in: {report}");
    }
    Ok(())
}

/// Of a launch and of a graph's; the device works on.
pub fn are_reported() -> Outcome {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let kernel = device.kernel::<Mark>(set())?;
    let out = Tensor::<u32>::zeros(&device, &[100])?;
    // SAFETY: two CTAs of 64 threads write more than the memory has, which the emulator does not let them.
    let launch = |stream: &Stream| unsafe {
        kernel.launch_block(stream, &Launch::grid([2, 1, 1]), &Output { address: out.address(), value: 1 })
    };
    expect_report(launch(&stream))?;
    let graph = stream.capture(launch)?;
    // SAFETY: as above.
    expect_report(unsafe { graph.launch(&stream) })?;

    // SAFETY: one CTA of 64 threads writes as many elements.
    unsafe {
        kernel.launch_block(
            &stream,
            &Launch::grid([1, 1, 1]),
            &Output { address: out.address(), value: 7 },
        )?
    };
    assert_eq!(out.to_vec_on(&stream)?[..64], (7..71).collect::<Vec<_>>());
    Ok(())
}
