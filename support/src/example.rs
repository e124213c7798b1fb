//! What examples begin and end with.

use std::process::ExitCode;

use tilewright::Device;
use tilewright::ops::kernels;

use crate::Result;

/// The exit status of a program; it says what failed.
pub fn exit(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what is to be known of the device that an example runs on.
pub fn show(device: &Device) {
    println!("device: {device:?}");
    if device.is_emulator() {
        println!("speed: not measured, the emulator's says nothing of a GPU's");
    } else {
        let (major, minor) = device.driver_version();
        println!("  {} SMs, driver for CUDA {major}.{minor}", device.sm_count());
    }
    println!("kernels: {} embedded", kernels().count());
}
