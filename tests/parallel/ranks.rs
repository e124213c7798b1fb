//! Groups of devices.

use tilewright::parallel::{Communicator, CommunicatorOptions};
use tilewright::{Device, Result};

/// Groups for a test on `device`: of all GPUs, of two and of one if there are GPUs and NCCL; of emulators otherwise.
pub fn groups(device: &Device) -> Result<Vec<Vec<Device>>> {
    if device.is_emulator() || !cfg!(feature = "nccl") {
        let emulators = |count| vec![Device::emulator(); count];
        return Ok([1, 2, 3, 4].map(emulators).into());
    }
    let gpus: Vec<_> = (0..8).map_while(|i| Device::cuda(i).ok()).collect();
    println!("{} GPUs", gpus.len());
    let counts = [1, 2, gpus.len()].into_iter().filter(|&count| count <= gpus.len());
    let mut groups: Vec<_> = counts.map(|count| gpus[..count].to_vec()).collect();
    groups.dedup();
    Ok(groups)
}

/// A group of two: GPUs if there are two and NCCL.
pub fn pair(device: &Device) -> Result<Vec<Device>> {
    let pair = groups(device)?.into_iter().find(|group| group.len() == 2);
    Ok(pair.unwrap_or_else(|| vec![Device::emulator(); 2]))
}

/// What `compute` gives on each rank of a group, each in a thread of its own.
pub fn on_ranks<R: Send>(
    devices: &[Device],
    compute: impl Fn(&mut Communicator) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let ranks = Communicator::all(devices, CommunicatorOptions::default())?;
    let compute = &compute;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            ranks.into_iter().map(|mut rank| scope.spawn(move || compute(&mut rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
