//! Every compiled kernel, forced by its name, on both architectures.

use std::collections::BTreeSet;

use tilewright::ops::kernels;
use tilewright::{Device, bf16, f16};
use tilewright_support::convolution::{Case, Depth};
use tilewright_support::suite::Outcome;
use tilewright_support::watched;

use crate::case::{Input, Runs};

/// The convolution kernels that the device runs, and the tests are to.
fn runnable(device: &Device) -> BTreeSet<&'static str> {
    let fits = |bytes| bytes <= device.shared_memory_per_cta();
    let entries = kernels().filter(|e| device.runs(e.arch) && fits(e.shared_bytes));
    entries.map(|e| e.name).filter(|name| name.starts_with("conv_") && watched::runs(name)).collect()
}

/// Several tiles in each direction, the last of them partial; depths of several blocks, the last of them partial.
fn tiles(device: &Device) -> Case {
    let (pixels, outputs) = if device.is_emulator() { ([10, 9], 136) } else { ([60, 57], 520) };
    let case = Case { images: 2, pixels, channels: 72, outputs, filter: [3, 2], ..Case::default() };
    Case { before: [1, 1], after: [2, 0], ..case }
}

fn run<T: Input>(device: &Device, seen: &mut BTreeSet<&'static str>) -> Outcome {
    let case = tiles(device);
    case.outputs::<T>(device, seen)?;
    case.images::<T>(device, seen)?;
    case.filters::<T>(device, seen)
}

/// Every kernel on what it can compute of convolutions, and all of them on one.
pub fn each(device: &Device) -> Outcome {
    let mut seen = BTreeSet::new();
    run::<f16>(device, &mut seen)?;
    run::<bf16>(device, &mut seen)?;
    let case =
        Case { images: 3, pixels: [9, 8], channels: 136, outputs: 136, groups: 136, ..Case::default() };
    for (filter, stride) in [([3, 3], 1), ([3, 3], 2), ([2, 5], 1), ([2, 5], 2), ([2, 7], 1)] {
        let case = Case { filter, stride: [stride; 2], ..case }.padded([1, filter[1] / 2]);
        case.outputs::<f16>(device, &mut seen)?;
        case.outputs::<bf16>(device, &mut seen)?;
    }
    Case { filter: [3, 3], ..case }.padded([1, 1]).outputs::<f32>(device, &mut seen)?;
    // First layers, of images whose rows are whole pieces of 16 bytes and of others.
    for (filter, stride, width) in [(7, 2, 270), (7, 2, 272), (3, 1, 141), (5, 1, 136), (3, 2, 264)] {
        let case = Case { images: 2, pixels: [6, width], channels: 3, outputs: 72, ..Case::default() };
        let case = Case { filter: [filter; 2], stride: [stride; 2], ..case }.padded([filter / 2; 2]);
        case.outputs::<f16>(device, &mut seen)?;
        case.outputs::<bf16>(device, &mut seen)?;
    }
    assert_eq!(seen, runnable(device), "every kernel computes one of these");
    println!("{} kernels", seen.len());
    Ok(())
}

/// Orders of warps in which a race would show.
pub fn random_orders() -> Outcome {
    let case =
        Case { images: 1, pixels: [7, 6], channels: 72, outputs: 72, filter: [2, 3], ..Case::default() };
    for seed in [1, 2] {
        let device = Device::emulator_with_seed(seed);
        case.outputs::<f16>(&device, &mut BTreeSet::new())?;
        Case { stride: [1, 2], ..case }.images::<f16>(&device, &mut BTreeSet::new())?;
        case.filters::<f16>(&device, &mut BTreeSet::new())?;
        let depth = Depth { filter: 2, stride: 2, before: 1, ..Depth::of(3) };
        let volumes = Case { depth: Some(depth), ..case };
        volumes.outputs::<f16>(&device, &mut BTreeSet::new())?;
        volumes.images::<f16>(&device, &mut BTreeSet::new())?;
        let each = Case { channels: 24, outputs: 24, groups: 24, filter: [3, 3], ..case };
        each.outputs::<f16>(&device, &mut BTreeSet::new())?;
        let first = Case { channels: 3, pixels: [9, 141], filter: [3, 3], ..case };
        first.outputs::<f16>(&device, &mut BTreeSet::new())?;
        Case { stride: [2, 2], ..first }.outputs::<f16>(&device, &mut BTreeSet::new())?;
    }
    Ok(())
}
