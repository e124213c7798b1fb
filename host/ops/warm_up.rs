//! Loading operators' kernels ahead of their first use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::SETS;
use crate::{Device, KernelEntry, KernelSet, Result};

/// Loads those of the operators' kernels that are `wanted` and that the device runs, several at a time, and waits until they are.
///
/// A kernel is loaded at its first use otherwise, and NVIDIA's driver, which compiles it then, takes some hundred milliseconds for that
/// unless it has the code in its cache on disk. The cache (`~/.nv/ComputeCache`, or what `CUDA_CACHE_PATH` names) keeps code for a GPU, a
/// driver and a PTX; by default it holds 1 GiB, `CUDA_CACHE_MAXSIZE` bytes (CUDA C++ Programming Guide, "CUDA Environment Variables").
///
/// Which kernel a call takes, its operator's `plan` says: `plan.kernel().name()`. `progress` is told, by any of the threads, how many
/// kernels are loaded, of how many.
///
/// ```
/// use tilewright::{Device, ops};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let reductions = |kernel: &tilewright::KernelEntry| kernel.name.starts_with("reduce");
/// ops::warm_up(&device, reductions, |done, of| eprintln!("{done} of {of} kernels"))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A kernel cannot be loaded: those that were not begun yet are left then.
pub fn warm_up(
    device: &Device,
    wanted: impl Fn(&KernelEntry) -> bool,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<()> {
    let all = SETS.iter().flat_map(|&set| set.entries().iter().map(move |entry| (set, entry)));
    let fits =
        |entry: &KernelEntry| device.runs(entry.arch) && entry.shared_bytes <= device.shared_memory_per_cta();
    let chosen: Vec<_> = all.filter(|(_, entry)| fits(entry) && wanted(entry)).collect();
    load(device, &chosen, &progress)
}

fn load(
    device: &Device,
    kernels: &[(&'static KernelSet, &'static KernelEntry)],
    progress: &(impl Fn(usize, usize) + Sync),
) -> Result<()> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failure = Mutex::new(None);
    let work = || {
        while let Some((set, entry)) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = device.functions().warm(device, set, entry) {
                next.store(kernels.len(), Ordering::Relaxed);
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, kernels.len());
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(kernels.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;
    use crate::backend::fake;

    fn entry(name: &'static str, shared_bytes: u32) -> KernelEntry {
        let ptx = miniz_oxide::deflate::compress_to_vec(b".entry", 6).leak();
        let (threads, cluster) = (128, [1, 1, 1]);
        KernelEntry {
            name,
            arch: Arch::Sm80,
            threads,
            min_ctas: 1,
            cluster,
            shared_bytes,
            registers: None,
            spilled: None,
            summary: "",
            ptx_bytes: 6,
            ptx,
        }
    }

    fn set(entries: Vec<KernelEntry>) -> Vec<(&'static KernelSet, &'static KernelEntry)> {
        // SAFETY: fake devices run nothing.
        let set: &KernelSet = Box::leak(Box::new(unsafe { KernelSet::new(entries.leak()) }));
        set.entries().iter().map(|entry| (set, entry)).collect()
    }

    #[test]
    fn each_is_loaded_once_and_counted() {
        let (device, journal) = fake::device((8, 0));
        let kernels = set(["a", "b", "c"].map(|name| entry(name, 0)).into());
        let told = Mutex::new(Vec::new());
        load(&device, &kernels, &|done, of| told.lock().unwrap().push((done, of))).unwrap();
        load(&device, &kernels, &|_, _| ()).unwrap();
        let mut loaded: Vec<_> = journal.loads.lock().unwrap().iter().map(|(name, _)| *name).collect();
        loaded.sort_unstable();
        assert_eq!(loaded, ["a", "b", "c"]);
        let mut told = told.into_inner().unwrap();
        told.sort_unstable();
        assert_eq!(told, [(1, 3), (2, 3), (3, 3)]);
    }

    #[test]
    fn what_cannot_be_loaded_is_an_error_that_names_it() {
        let (device, _) = fake::device((8, 0));
        let error = load(&device, &set(vec![entry("greedy", 1 << 20)]), &|_, _| ()).unwrap_err().to_string();
        assert!(error.contains("kernel `greedy` needs 1048576 bytes"), "{error}");
        assert_eq!(load(&device, &[], &|_, _| ()), Ok(()));
    }

    #[test]
    fn what_the_device_does_not_run_is_left() {
        let (device, journal) = fake::device((8, 0));
        warm_up(&device, |entry| entry.arch == Arch::Sm90a, |_, _| ()).unwrap();
        assert!(journal.loads.lock().unwrap().is_empty());
    }
}
