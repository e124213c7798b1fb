//! The seam between the library and what runs its kernels.
//!
//! [`Backend`] is all that the rest of the crate asks of a device. [`cuda`] is a GPU through NVIDIA's driver,
//! `emulator` the CPU.

use std::ffi::c_void;
use std::fmt;

use tilewright_device::abi::TensorMap;
#[cfg(feature = "emulator")]
use tilewright_emulator::Progress;

#[cfg(feature = "emulator")]
use crate::profile::KernelProfile;
use crate::{Arch, DType, Error, Result};

pub(crate) mod cuda;
#[cfg(feature = "emulator")]
pub(crate) mod emulator;
#[cfg(test)]
pub(crate) mod fake;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) struct $name(pub(crate) usize);
    )* };
}
handles! {
    /// A stream; 0 is the default one.
    StreamId
    /// An event.
    EventId
    /// An executable graph.
    GraphId
    /// A loaded kernel.
    FunctionId
}

/// GB/s of an H200's memory.
pub(crate) const H200_MEMORY_RATE: u32 = 4917;

/// What a device is.
#[derive(Clone, Debug)]
pub(crate) struct Properties {
    pub(crate) name: String,
    /// The kind of device and its number, as messages name it.
    pub(crate) label: String,
    /// Its number, if it is a CUDA device.
    #[cfg_attr(not(feature = "dlpack"), allow(dead_code, reason = "what other libraries call it"))]
    pub(crate) ordinal: Option<i32>,
    pub(crate) capability: (u32, u32),
    pub(crate) sm_count: u32,
    pub(crate) l2_bytes: usize,
    /// What its memory delivers at most, in GB/s.
    pub(crate) memory_rate: u32,
    pub(crate) total_memory: usize,
    /// Shared memory that one CTA may ask for.
    pub(crate) shared_bytes: u32,
    /// (0, 0) without a driver.
    pub(crate) driver_version: (u32, u32),
    /// Whether it is the CPU.
    pub(crate) emulated: bool,
}

/// A kernel to be loaded, with what the launch configuration of all its launches is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelSource<'a> {
    pub(crate) name: &'static str,
    /// A PTX module that has the kernel as an entry.
    pub(crate) ptx: &'a [u8],
    pub(crate) threads: u32,
    pub(crate) cluster: [u32; 3],
    pub(crate) shared_bytes: u32,
}

/// A loaded kernel, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    pub(crate) function: FunctionId,
    pub(crate) shared_bytes: u32,
    pub(crate) registers: u32,
    pub(crate) local_bytes: u32,
    /// CTAs that one SM holds at a time.
    pub(crate) ctas_per_sm: u32,
    /// Clusters that the device holds at a time; CTAs, if the kernel has no clusters.
    pub(crate) clusters: u32,
}

/// One launch, as a device needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) function: FunctionId,
    pub(crate) stream: StreamId,
    pub(crate) grid: [u32; 3],
    pub(crate) threads: u32,
    pub(crate) cluster: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Whether the kernel may begin before the preceding one ends.
    pub(crate) overlap_previous: bool,
}

/// A tensor as the TMA unit sees it; index 0 is the contiguous dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorMapShape {
    pub(crate) dtype: DType,
    pub(crate) address: u64,
    pub(crate) rank: usize,
    pub(crate) shape: [u64; crate::MAX_RANK],
    /// In bytes, of the dimensions after the contiguous one.
    pub(crate) strides: [u64; crate::MAX_RANK - 1],
    /// In im2col mode the second is pixels, and what follows has no meaning.
    pub(crate) tile: [u32; crate::MAX_RANK],
    pub(crate) fetch: L2Fetch,
    /// How copies in im2col mode go over the pixels of images, which have 4 dimensions: channels, width, height, images; or of volumes:
    /// channels, width, height, planes, volumes.
    pub(crate) walk: Option<Walk>,
}

/// The pixels that copies in im2col mode go over, by width, height and depth: every `steps`-th from the `lower` corner to the image's last
/// but `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) lower: [i32; 3],
    pub(crate) upper: [i32; 3],
    pub(crate) steps: [u32; 3],
    /// Images that are planes of a volume; none of images by themselves, which have no depth.
    pub(crate) planes: Option<usize>,
}

impl Walk {
    /// Whether maps have room for it: corners of 8 bits, of volumes 5, and steps up to 8.
    pub(crate) fn fits(&self) -> bool {
        let most = if self.planes.is_some() { 1 << 4 } else { 1 << 7 };
        let corners = self.lower.into_iter().chain(self.upper).all(|corner| (-most..most).contains(&corner));
        corners && self.steps.iter().all(|step| (1..=8).contains(step))
    }
    /// The largest offset that copies take.
    pub(crate) fn most_offset(&self) -> u32 {
        if self.planes.is_some() { 31 } else { 255 }
    }
}

/// What the L2 cache fetches where a box misses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum L2Fetch {
    /// Pieces of 256 bytes: what follows a line of the box is wanted too.
    #[default]
    Wide,
    /// The box's lines of 128 bytes alone: for tensors that are read once, at the memory's speed.
    Lines,
}

impl TensorMapShape {
    /// Whether every dimension steps over all that lies inside it, as in a matrix or a batch of them.
    pub(crate) fn is_nested(&self) -> bool {
        let mut inside = self.dtype.bytes() as u64;
        self.shape.iter().take(self.rank).enumerate().all(|(at, &size)| {
            let stride = at.checked_sub(1).and_then(|outer| self.strides.get(outer)).copied();
            let stride = stride.unwrap_or(inside);
            let clear = size == 1 || stride >= inside;
            inside = stride.saturating_mul(size);
            clear
        })
    }
}

/// Where an address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Residence {
    /// On this device, in an allocation that ends at this address.
    Here { end: u64 },
    /// On another device, or in another context.
    Elsewhere(String),
    /// The device does not know the address.
    Unknown,
}

/// A device: memory, streams and events, kernels.
///
/// What takes a stream returns when the work is queued. Identifiers are those that the same backend gave out
/// and has not destroyed yet; callers see to that, which is why most calls need no `unsafe`.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    fn properties(&self) -> &Properties;
    /// Whether kernels compiled for `arch` run on this device.
    fn runs(&self, arch: Arch) -> bool {
        let (major, minor) = self.properties().capability;
        arch.runs_on(major, minor)
    }
    /// Waits until all work queued so far is done.
    fn synchronize(&self) -> Result<()>;

    fn free_memory(&self) -> Result<usize>;
    /// `bytes` is not 0.
    fn allocate(&self, bytes: usize) -> Result<u64>;
    /// Gives back an allocation, after the work that may use it.
    fn free(&self, address: u64);
    /// Where memory that somebody else allocated lies.
    fn residence(&self, address: u64) -> Result<Residence>;

    /// # Safety
    /// Both ranges are valid, and `from` stays so until the copy is done.
    unsafe fn upload(&self, stream: StreamId, to: u64, from: *const c_void, bytes: usize) -> Result<()>;
    /// # Safety
    /// Both ranges are valid, and `to` stays so until the copy is done.
    unsafe fn download(&self, stream: StreamId, from: u64, to: *mut c_void, bytes: usize) -> Result<()>;
    /// # Safety
    /// Both ranges are valid device memory and do not overlap.
    unsafe fn copy(&self, stream: StreamId, to: u64, from: u64, bytes: usize) -> Result<()>;
    /// Writes the low `width` (1, 2, 4 or 8) bytes of `value` `count` times.
    ///
    /// # Safety
    /// The range is valid device memory.
    unsafe fn fill(&self, stream: StreamId, to: u64, value: u64, width: usize, count: usize) -> Result<()>;

    /// Runs with the device's context as the thread's current one, if it has one: for calls of other libraries.
    #[cfg(feature = "nccl")]
    fn within(&self, call: &mut dyn FnMut()) -> Result<()> {
        call();
        Ok(())
    }

    /// `urgent`: its kernels begin before those of other streams that wait too.
    fn create_stream(&self, urgent: bool) -> Result<StreamId>;
    fn destroy_stream(&self, stream: StreamId);
    /// Checks that a stream that somebody else made is this device's.
    fn check_stream(&self, stream: StreamId) -> Result<()>;
    fn synchronize_stream(&self, stream: StreamId) -> Result<()>;

    fn create_event(&self) -> Result<EventId>;
    fn destroy_event(&self, event: EventId);
    fn record(&self, event: EventId, stream: StreamId) -> Result<()>;
    fn wait(&self, stream: StreamId, event: EventId) -> Result<()>;
    fn synchronize_event(&self, event: EventId) -> Result<()>;
    fn elapsed_ms(&self, from: EventId, to: EventId) -> Result<f32>;

    /// From now on, work that this thread puts on the stream, and on streams that wait for its events, is recorded, not run.
    ///
    /// Uploads, downloads, waits of the host and launches of graphs cannot be recorded: callers ask
    /// [`is_captured`](Self::is_captured) first.
    fn begin_capture(&self, stream: StreamId) -> Result<()>;
    /// Whether work on the stream is recorded.
    fn is_captured(&self, stream: StreamId) -> Result<bool>;
    /// Ends the recording; also gives the number of nodes recorded.
    fn end_capture(&self, stream: StreamId) -> Result<(GraphId, usize)>;
    fn destroy_graph(&self, graph: GraphId);
    /// # Safety
    /// All memory that the recorded work uses is valid.
    unsafe fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()>;

    /// Loads a kernel; it stays loaded as long as the backend lives.
    fn load(&self, kernel: KernelSource<'_>) -> Result<Loaded>;
    /// What kernels did, by name, if the device counts it.
    #[cfg(feature = "emulator")]
    fn profile(&self) -> Option<Vec<KernelProfile>> {
        None
    }
    /// What kernels have printed, if the device keeps it.
    fn printed(&self) -> Option<String> {
        None
    }
    /// How far launches are, if the device knows.
    #[cfg(feature = "emulator")]
    fn running(&self) -> Option<Vec<Progress>> {
        None
    }
    /// Ends the launches that run now.
    fn cancel(&self) -> Result<()> {
        let allowed = "the emulator, which alone ends kernels that run";
        Err(Error::argument("device", self.properties().label.clone(), allowed))
    }
    /// Forgets what was counted.
    fn reset_profile(&self) {}

    /// The descriptor by which kernels copy tiles of the tensor; `None` if the device's TMA cannot address it.
    fn encode(&self, shape: &TensorMapShape) -> Result<Option<TensorMap>>;
    /// # Safety
    /// `arguments` is the kernel's parameter block, of `bytes` bytes, and the kernel is sound with it.
    unsafe fn launch(&self, config: &LaunchConfig, arguments: *const c_void, bytes: usize) -> Result<()>;
}
