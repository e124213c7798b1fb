//! Kernels ready to be launched.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tilewright_device::kernel::Listed;
use tilewright_device::signature::{SafeKernel, Signature};

use super::argument::{Arguments, Takes, block};
use super::{KernelEntry, KernelSet, Wanted, ptx, text};
use crate::backend::{KernelSource, LaunchConfig, Loaded};
use crate::{Arch, Device, Error, Instance, Result, Stream};

/// The address of a kernel's set, since names are unique in their own set only, its name, and what it is compiled for.
type Key = (usize, &'static str, Arch);

/// The kernels loaded on a device.
#[derive(Default)]
pub(crate) struct FunctionCache {
    /// A lock each, so that several kernels can be compiled at a time, each of them once.
    slots: RwLock<HashMap<Key, Arc<Slot>>>,
}

type Slot = Mutex<Option<(Loaded, &'static KernelEntry)>>;

impl FunctionCache {
    fn slot(&self, key: Key) -> Arc<Slot> {
        if let Some(slot) = self.slots.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(slot);
        }
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key).or_default())
    }

    /// The kernel that is asked for, loaded if it is not yet.
    fn get(
        &self,
        device: &Device,
        set: &'static KernelSet,
        wanted: &Wanted,
    ) -> Result<(Loaded, &'static KernelEntry)> {
        let slot = self.slot(key(set, wanted.name, wanted.arch));
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((loaded, entry)) = *loaded {
            wanted.check(entry)?;
            return Ok((loaded, entry));
        }
        let entry = wanted.find(set)?;
        let new = (load(device, entry)?, entry);
        *loaded = Some(new);
        Ok(new)
    }

    /// Loads a kernel of the set, if it is not yet.
    pub(crate) fn warm(
        &self,
        device: &Device,
        set: &'static KernelSet,
        entry: &'static KernelEntry,
    ) -> Result<()> {
        let slot = self.slot(key(set, entry.name, entry.arch));
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_none() {
            *loaded = Some((load(device, entry)?, entry));
        }
        Ok(())
    }
}

fn key(set: &'static KernelSet, name: &'static str, arch: Arch) -> Key {
    (std::ptr::from_ref(set).addr(), name, arch)
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
        ptx: &text(entry)?,
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
    /// Programmatic dependent launch: the kernel may start while the preceding grid of the stream still runs, and itself waits for that
    /// one's results (`griddepcontrol.wait`). Grids before that one may still run too, where it launches its dependents before its own
    /// wait. The emulator refuses accesses that need the wait and come before it.
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

/// A kernel loaded on a device, its type forgotten. Clones are cheap.
#[derive(Clone)]
pub struct AnyFunction {
    device: Device,
    loaded: Loaded,
    entry: &'static KernelEntry,
    kernel: Wanted,
}

impl AnyFunction {
    fn new(device: &Device, set: &'static KernelSet, kernel: Wanted) -> Result<Self> {
        let (loaded, entry) = device.functions().get(device, set, &kernel)?;
        Ok(Self { device: device.clone(), loaded, entry, kernel })
    }

    pub(crate) fn listed<D>(device: &Device, set: &'static KernelSet, row: &Listed<D>) -> Result<Self> {
        Self::new(device, set, Wanted::listed(row))
    }

    /// As [`Function::launch_with`], for a kernel that was chosen from a table: `S` stands for all kernels of its function that have the
    /// same parameters.
    ///
    /// # Safety
    /// As there. The kernel's parameters are those of `S`, and so is how it copies tiles.
    pub unsafe fn launch_as<S: Signature>(
        &self,
        stream: &Stream,
        launch: &Launch,
        arguments: impl Arguments<S>,
    ) -> Result<()> {
        let args = block::<S>(&self.device, self.name(), &arguments)?;
        // SAFETY: the arguments are of the kernel's type; the caller vouches for the rest.
        unsafe { self.launch_block(stream, launch, &args) }
    }

    /// Queues the kernel on a stream, with a block of arguments that was made elsewhere.
    ///
    /// Nothing is allocated, waited for or recorded besides, so launches can be captured in a graph. Arguments of another size
    /// than the kernel's are an error.
    ///
    /// # Safety
    /// As for [`Function::launch_with`]; `args` are the kernel's [`Args`](crate::Kernel::Args), but for types in them that are only
    /// names of elements.
    pub unsafe fn launch_block<A: Copy>(&self, stream: &Stream, launch: &Launch, args: &A) -> Result<()> {
        stream.check(&self.device, "kernel")?;
        let Wanted { cluster, threads, args_bytes, .. } = self.kernel;
        if launch.grid.iter().zip(cluster).any(|(&ctas, cluster)| ctas == 0 || !ctas.is_multiple_of(cluster))
        {
            let allowed = format!("of at least one CTA, in multiples of the cluster {cluster:?}");
            return Err(Error::argument("grid", format!("{:?}", launch.grid), allowed));
        }
        if size_of::<A>() != args_bytes {
            let allowed = format!("the {args_bytes} bytes that kernel `{}` takes", self.kernel.name);
            return Err(Error::argument("args", format!("{} bytes", size_of::<A>()), allowed));
        }
        let config = LaunchConfig {
            function: self.loaded.function,
            stream: stream.id(),
            grid: launch.grid,
            threads,
            cluster,
            shared_bytes: self.loaded.shared_bytes,
            overlap_previous: launch.pdl,
        };
        // SAFETY: the caller vouches for the arguments, of the kernel's size, and for the rest.
        unsafe { self.device.backend().launch(&config, std::ptr::from_ref(args).cast(), args_bytes) }
    }

    /// The kernel's entry point.
    pub fn name(&self) -> &'static str {
        self.kernel.name
    }
    /// What the builder wrote about the kernel: printed, its threads, shared memory, registers and spills.
    pub fn entry(&self) -> &'static KernelEntry {
        self.entry
    }
    /// The kernel's PTX: [`ptx`](crate::ptx()) of its entry.
    ///
    /// # Errors
    /// As there.
    pub fn ptx(&self) -> Result<String> {
        ptx(self.entry)
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
        self.kernel.cluster.iter().fold(self.loaded.clusters, |n, &c| n.saturating_mul(c))
    }
}

impl fmt::Debug for AnyFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({} on {})", self.kernel.name, self.device.label())
    }
}

/// A kernel of a known type, loaded on a device. Clones are cheap.
pub struct Function<K> {
    function: AnyFunction,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Instance> Function<K> {
    pub(crate) fn new(device: &Device, set: &'static KernelSet) -> Result<Self> {
        Ok(Self { function: AnyFunction::new(device, set, Wanted::of::<K>())?, kernel: PhantomData })
    }

    /// Queues the kernel on a stream: `grid` CTAs in each dimension, multiples of its cluster, and a tuple of its arguments, of which
    /// [`Argument`](crate::Argument) says what is passed for which parameter.
    ///
    /// ```ignore
    /// device.kernel::<scale>(&KERNELS)?.launch(&stream, [rows.div_ceil(ROWS), 1, 1], (&x, &mut y, 0.5))?;
    /// ```
    ///
    /// The compiler checks number, kind and element types. Checked here, with errors that name the kernel's parameter: the device; the
    /// number of dimensions; that what is written lies apart from all else; that the kernel's copies can read each tensor as it
    /// lies in memory ([`Error::Unreadable`](crate::Error::Unreadable)); what the kernel expects of shapes (`expects` of `#[kernel]`).
    ///
    /// Nothing is allocated on the device, waited for or recorded besides, so launches can be captured in a graph.
    ///
    /// # What is safe
    /// The kernel is a safe function, its tensors are views, its set is that of its crate: it reads and writes inside of the views
    /// alone. What is outside reads as zero and is not stored. Work on other streams is ordered by events alone, as for all operators.
    ///
    /// One thing is the kernel's author's to see to: that no two CTAs store different values to one place, of which either may stay.
    pub fn launch<A: Arguments<K>>(&self, stream: &Stream, grid: [u32; 3], arguments: A) -> Result<()>
    where
        K: SafeKernel + Takes<A>,
    {
        // SAFETY: the kernel is sound with all arguments of its types, and these are views of valid memory; the preceding
        // grid has ended when it begins.
        unsafe { self.launch_with(stream, &Launch::grid(grid), arguments) }
    }

    /// As [`launch`](Self::launch), of kernels that are not safe too, with programmatic dependent launch if wanted.
    ///
    /// # Safety
    /// The kernel is sound with these arguments and this grid: the memory that it uses is valid until it is done, and
    /// no other work that may run at the same time conflicts with it. With `pdl`, that holds for the preceding grids too,
    /// up to the point where this one waits.
    pub unsafe fn launch_with<A: Arguments<K>>(
        &self,
        stream: &Stream,
        launch: &Launch,
        arguments: A,
    ) -> Result<()>
    where
        K: Takes<A>,
    {
        // SAFETY: the kernel is `K`; the caller vouches for the rest.
        unsafe { self.function.launch_as::<K>(stream, launch, arguments) }
    }
}

impl<K> Deref for Function<K> {
    type Target = AnyFunction;
    fn deref(&self) -> &AnyFunction {
        &self.function
    }
}

impl<K> Clone for Function<K> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), kernel: PhantomData }
    }
}

impl<K> fmt::Debug for Function<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.function.fmt(f)
    }
}
