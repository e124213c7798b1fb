//! How many compilations of kernels run at a time. Several crates may be built side by side, each for several
//! architectures, and each compilation takes much memory: cargo, which starts their build scripts, knows of neither.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::BuildError;
use crate::environment::Environment;
use crate::files::{make_folder, while_doing};

/// Memory that rustc takes for a crate with many kernels.
const MEMORY_OF_ONE: u64 = 2 << 30;
/// How often a build looks whether a slot is free.
const PATIENCE: Duration = Duration::from_millis(100);

/// Leave to compile, until it is dropped: a file that no other process has locked.
pub(crate) struct Slot {
    _file: File,
}

impl Slot {
    /// Waits until fewer than `count` compilations run in the builds of this target folder.
    pub fn take(shared: &Path, count: usize) -> Result<Self, BuildError> {
        let folder = shared.join("slots");
        make_folder(&folder)?;
        loop {
            for number in 0..count.max(1) {
                let path = folder.join(number.to_string());
                let file = File::create(&path).map_err(while_doing("writing", &path))?;
                match file.try_lock() {
                    Err(TryLockError::WouldBlock) => {}
                    // Where files cannot be locked nobody waits.
                    Ok(()) | Err(TryLockError::Error(_)) => return Ok(Self { _file: file }),
                }
            }
            thread::sleep(PATIENCE);
        }
    }
}

/// How many compilations the machine bears.
pub(crate) fn count(environment: &dyn Environment) -> usize {
    let memory = environment.memory().map_or(u64::MAX, |bytes| bytes / MEMORY_OF_ONE);
    jobs(environment).min(usize::try_from(memory).unwrap_or(usize::MAX)).max(1)
}

/// How many things cargo was asked to do at a time, or else how many cores there are.
pub(crate) fn jobs(environment: &dyn Environment) -> usize {
    let asked = environment.variable("NUM_JOBS").and_then(|jobs| jobs.to_str()?.parse().ok());
    asked.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_run_than_there_are_slots() {
        let shared = std::env::temp_dir().join(format!("tilewright-builder-slots-{}", std::process::id()));
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let _slot = Slot::take(&shared, 2).unwrap();
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
        let _ = std::fs::remove_dir_all(&shared);
    }
}
