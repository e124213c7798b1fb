//! Kernels ready to be launched.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::{KernelEntry, KernelSet};
use crate::backend::{KernelSource, LaunchConfig, Loaded};
use crate::{Device, Error, Instance, Result, Stream};

/// The kernels loaded on a device, by the address of their entry: names are unique in their own set only.
#[derive(Default)]
pub(crate) struct FunctionCache {
    /// A lock each, so that several kernels can be compiled at a time, each of them once.
    slots: RwLock<HashMap<usize, Arc<Slot>>>,
}

type Slot = Mutex<Option<Loaded>>;

impl FunctionCache {
    fn slot(&self, entry: &'static KernelEntry) -> Arc<Slot> {
        let key = std::ptr::from_ref(entry).addr();
        if let Some(slot) = self.slots.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(slot);
        }
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key).or_default())
    }

    fn get(&self, device: &Device, entry: &'static KernelEntry) -> Result<Loaded> {
        let slot = self.slot(entry);
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = *loaded {
            return Ok(loaded);
        }
        let new = load(device, entry)?;
        *loaded = Some(new);
        Ok(new)
    }
}

fn load(device: &Device, entry: &'static KernelEntry) -> Result<Loaded> {
    let unsupported = |needs: String| {
        Err(Error::UnsupportedGpu {
            device: device.name().into(),
            capability: device.compute_capability(),
            needs,
        })
    };
    if !device.runs(entry.arch) {
        return unsupported(format!("kernel `{}` is compiled for {}", entry.name, entry.arch.target()));
    }
    if entry.shared_bytes > device.shared_memory_per_cta() {
        let (needed, there) = (entry.shared_bytes, device.shared_memory_per_cta());
        return unsupported(format!(
            "kernel `{}` needs {needed} bytes of shared memory, of {there}",
            entry.name
        ));
    }
    device.backend().load(KernelSource {
        name: entry.name,
        ptx: &entry.text()?,
        threads: entry.threads,
        cluster: entry.cluster,
        shared_bytes: entry.shared_bytes,
    })
}

/// How a kernel is launched, beside what its type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// CTAs in each dimension; multiples of the kernel's cluster.
    pub grid: [u32; 3],
    /// Programmatic dependent launch: the kernel may start while the one in front of it on the stream still runs, and
    /// itself waits for that one's results (`griddepcontrol.wait`).
    pub pdl: bool,
}

impl Launch {
    /// A launch of this many CTAs.
    pub const fn grid(grid: [u32; 3]) -> Self {
        Self { grid, pdl: false }
    }

    /// With programmatic dependent launch on or off.
    pub const fn pdl(self, on: bool) -> Self {
        Self { pdl: on, ..self }
    }
}

/// A kernel loaded on a device. Clones are cheap.
pub struct Function<K> {
    device: Device,
    loaded: Loaded,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Instance> Function<K> {
    pub(crate) fn new(device: &Device, set: &'static KernelSet) -> Result<Self> {
        let loaded = device.functions().get(device, set.find::<K>()?)?;
        Ok(Self { device: device.clone(), loaded, kernel: PhantomData })
    }

    /// Queues the kernel on a stream.
    ///
    /// Nothing is allocated, waited for or recorded besides, so launches can be captured in a graph.
    ///
    /// # Safety
    /// The kernel is sound with these arguments and this grid: the memory that it uses is valid until it is done, and
    /// no other work that may run at the same time conflicts with it. With `pdl`, that holds for the kernel in front too,
    /// up to the point where this one waits.
    pub unsafe fn launch(&self, stream: &Stream, launch: &Launch, args: &K::Args) -> Result<()> {
        stream.check(&self.device, "kernel")?;
        if launch
            .grid
            .iter()
            .zip(K::CLUSTER)
            .any(|(&ctas, cluster)| ctas == 0 || !ctas.is_multiple_of(cluster))
        {
            let allowed = format!("of at least one CTA, in multiples of the cluster {:?}", K::CLUSTER);
            return Err(Error::argument("grid", format!("{:?}", launch.grid), allowed));
        }
        let config = LaunchConfig {
            function: self.loaded.function,
            stream: stream.id(),
            grid: launch.grid,
            threads: K::THREADS,
            cluster: K::CLUSTER,
            shared_bytes: K::SHARED_BYTES,
            overlap_previous: launch.pdl,
        };
        // SAFETY: the arguments are of the kernel's own type; the caller vouches for the rest.
        unsafe {
            self.device.backend().launch(&config, std::ptr::from_ref(args).cast(), size_of::<K::Args>())
        }
    }

    /// The kernel's entry point.
    pub fn name(&self) -> &'static str {
        K::NAME
    }
    /// The device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// Registers of a thread; 0 on the emulator, where PTX has as many as it names.
    pub fn registers(&self) -> u32 {
        self.loaded.registers
    }
    /// Local memory of a thread in bytes: spilled registers and arrays.
    pub fn local_bytes(&self) -> u32 {
        self.loaded.local_bytes
    }
    /// CTAs that one SM holds at a time.
    pub fn ctas_per_sm(&self) -> u32 {
        self.loaded.ctas_per_sm
    }
    /// CTAs that the whole device holds at a time, in whole clusters: the grid of a persistent kernel.
    pub fn resident_ctas(&self) -> u32 {
        K::CLUSTER.iter().fold(self.loaded.clusters, |n, &c| n.saturating_mul(c))
    }
}

impl<K> Clone for Function<K> {
    fn clone(&self) -> Self {
        Self { device: self.device.clone(), loaded: self.loaded, kernel: PhantomData }
    }
}

impl<K: Instance> fmt::Debug for Function<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({} on {})", K::NAME, self.device.label())
    }
}
