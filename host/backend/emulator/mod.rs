//! The device of a machine without a GPU: runs the same PTX on the CPU.
//!
//! Work is done when it is put on a stream, unless the stream is being captured.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use tilewright_device::abi::TensorMap;
use tilewright_emulator::{Arch, Emulator, Kernel, Limits, Module, Preceding, Progress, Schedule};

use super::{
    Backend, EventId, FunctionId, GraphId, H200_MEMORY_RATE, KernelSource, LaunchConfig, Loaded, Properties,
    Residence, StreamId, TensorMapShape,
};
use crate::profile::{KernelProfile, Profiles};
use crate::{Device, EmulatorOptions, Error, Result};

mod capture;
mod queue;
mod tensor_map;

use queue::{Command, Queue};

/// What it is: all kernels of this crate run there.
const ARCH: Arch = Arch::Sm90a;

/// Memory of the device: what an allocation may fail by, no more.
const TOTAL_MEMORY: usize = 4 << 30;

/// A CPU that runs kernels.
#[derive(Debug)]
struct Emulated {
    properties: Properties,
    emulator: Emulator,
    kernels: Mutex<Vec<Kernel>>,
    queue: Mutex<Queue>,
    grids: Mutex<HashMap<StreamId, Grids>>,
    profiles: Mutex<Profiles>,
    handles: AtomicUsize,
}

/// Grids of a stream that may still run when the next one begins.
#[derive(Debug)]
struct Grids {
    /// Who launched the last one.
    by: ThreadId,
    preceding: Preceding,
}

/// The emulator of these options, always the same one.
pub(crate) fn device(options: EmulatorOptions) -> Device {
    static DEVICES: Mutex<Vec<(EmulatorOptions, Device)>> = Mutex::new(Vec::new());
    let mut devices = lock(&DEVICES);
    if let Some((_, device)) = devices.iter().find(|(of, _)| *of == options) {
        return device.clone();
    }
    let device = Device::new(Box::new(Emulated::new(options)));
    devices.push((options, device.clone()));
    device
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Emulated {
    fn new(EmulatorOptions { seed, limits }: EmulatorOptions) -> Self {
        let (mut label, order, schedule) = match seed {
            None => ("emulator".into(), String::new(), Schedule::Fixed),
            Some(seed) => {
                let order = format!(", warps in the random order of seed {seed}");
                (format!("emulator:{seed}"), order, Schedule::Random(seed))
            }
        };
        if limits != Limits::default() {
            label += &format!(" ({limits})");
        }
        let properties = Properties {
            name: format!("{ARCH} on the CPU{order}"),
            label,
            ordinal: None,
            capability: ARCH.capability(),
            sm_count: tilewright_emulator::SMS,
            l2_bytes: 50 << 20,
            memory_rate: H200_MEMORY_RATE,
            total_memory: usize::try_from(limits.memory).unwrap_or(usize::MAX).min(TOTAL_MEMORY),
            shared_bytes: ARCH.shared_bytes(),
            driver_version: (0, 0),
            emulated: true,
        };
        Self {
            properties,
            emulator: Emulator::new(ARCH).with_schedule(schedule).with_limits(limits),
            kernels: Mutex::default(),
            queue: Mutex::default(),
            grids: Mutex::default(),
            profiles: Mutex::default(),
            handles: AtomicUsize::new(1),
        }
    }

    /// Does the command, or records it if the stream is being captured.
    ///
    /// # Safety
    /// What the command uses is valid, now or when the graph is launched.
    unsafe fn submit(&self, stream: StreamId, command: Command) -> Result<()> {
        let Some(command) = lock(&self.queue).record(stream, command)? else { return Ok(()) };
        let grids = lock(&self.grids).remove(&stream);
        let mut preceding = grids.map(|grids| grids.preceding).unwrap_or_default();
        // SAFETY: the caller's.
        let done = unsafe { self.execute(&command, &mut preceding) };
        lock(&self.grids).insert(stream, Grids { by: thread::current().id(), preceding });
        done
    }

    /// Does the command behind grids of its stream.
    ///
    /// # Safety
    /// What the command uses is valid.
    unsafe fn execute(&self, command: &Command, preceding: &mut Preceding) -> Result<()> {
        if !matches!(command, Command::Launch { config, .. } if config.overlap_previous) {
            *preceding = Preceding::default();
        }
        match command {
            Command::Copy { to, from, bytes } => {
                let mut buffer = vec![0; PIECE.min(*bytes)];
                pieces(*bytes).try_for_each(|(at, bytes)| {
                    let buffer = &mut buffer[..bytes];
                    let copied = self.emulator.read(from + at, buffer);
                    copied
                        .and_then(|()| self.emulator.write(to + at, buffer))
                        .map_err(|error| emulated("copy", &error))
                })
            }
            Command::Fill { to, value, width, count } => {
                let values = value.to_le_bytes()[..*width].repeat((PIECE / width).min(*count));
                pieces(width * count).try_for_each(|(at, bytes)| {
                    self.emulator.write(to + at, &values[..bytes]).map_err(|error| emulated("fill", &error))
                })
            }
            Command::Launch { config, arguments } => {
                let kernel = lock(&self.kernels)[config.function.0].clone();
                let launch = tilewright_emulator::Launch {
                    grid: config.grid,
                    threads: [config.threads, 1, 1],
                    cluster: config.cluster,
                    dynamic_shared: config.shared_bytes,
                };
                match self.emulator.launch_behind(&kernel, &launch, arguments, preceding) {
                    Ok(counters) => {
                        lock(&self.profiles).add(kernel.name(), counters);
                        Ok(())
                    }
                    Err(fault) => Err(emulated("launch", &fault)),
                }
            }
        }
    }

    /// All work of a stream, or of all streams, has ended.
    fn ended(&self, stream: Option<StreamId>) {
        let mut grids = lock(&self.grids);
        match stream {
            Some(stream) => drop(grids.remove(&stream)),
            None => grids.clear(),
        }
    }

    fn handle(&self) -> usize {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }
}

/// Bytes that are moved at a time: the host need not have room for what the device has.
const PIECE: usize = 1 << 20;

/// Where each piece of so many bytes begins, and its size.
fn pieces(bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    (0..bytes).step_by(PIECE).map(move |at| (at as u64, PIECE.min(bytes - at)))
}

fn emulated(call: &'static str, what: &dyn std::fmt::Display) -> Error {
    Error::Emulator { call, report: what.to_string() }
}

impl Backend for Emulated {
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn synchronize(&self) -> Result<()> {
        self.ended(None);
        Ok(())
    }

    fn free_memory(&self) -> Result<usize> {
        Ok(self.properties.total_memory.saturating_sub(self.emulator.used() as usize))
    }
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let free = self.free_memory()?;
        if bytes > free {
            return Err(Error::OutOfMemory { requested: bytes, free, total: self.properties.total_memory });
        }
        self.emulator.allocate(bytes as u64).map_err(|error| emulated("allocate", &error))
    }
    fn free(&self, address: u64) {
        // It waits for all work. A thread that did not free knows nothing of that.
        let own = thread::current().id();
        lock(&self.grids).retain(|_, grids| grids.by != own);
        // What is freed was allocated here: see `Backend`.
        let _ = self.emulator.free(address);
    }
    fn residence(&self, address: u64) -> Result<Residence> {
        Ok(match self.emulator.end_of_allocation(address) {
            Some(end) => Residence::Here { end },
            None => Residence::Unknown,
        })
    }

    unsafe fn upload(&self, stream: StreamId, to: u64, from: *const c_void, bytes: usize) -> Result<()> {
        lock(&self.queue).refuse_capture(stream, "upload")?;
        self.ended(Some(stream));
        // SAFETY: the caller vouches for the range.
        let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
        self.emulator.write(to, from).map_err(|error| emulated("upload", &error))
    }
    unsafe fn download(&self, stream: StreamId, from: u64, to: *mut c_void, bytes: usize) -> Result<()> {
        lock(&self.queue).refuse_capture(stream, "download")?;
        self.ended(Some(stream));
        // SAFETY: the caller vouches for the range; what it holds is overwritten as bytes.
        let to = unsafe {
            to.cast::<u8>().write_bytes(0, bytes);
            std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes)
        };
        self.emulator.read(from, to).map_err(|error| emulated("download", &error))
    }
    unsafe fn copy(&self, stream: StreamId, to: u64, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's.
        unsafe { self.submit(stream, Command::Copy { to, from, bytes }) }
    }
    unsafe fn fill(&self, stream: StreamId, to: u64, value: u64, width: usize, count: usize) -> Result<()> {
        // SAFETY: the caller's.
        unsafe { self.submit(stream, Command::Fill { to, value, width, count }) }
    }

    fn create_stream(&self, _: bool) -> Result<StreamId> {
        Ok(StreamId(self.handle()))
    }
    fn destroy_stream(&self, stream: StreamId) {
        self.ended(Some(stream));
    }
    fn check_stream(&self, stream: StreamId) -> Result<()> {
        let made = self.handles.load(Ordering::Relaxed);
        if stream.0 < made {
            return Ok(());
        }
        Err(Error::argument("handle", format!("{:#x}", stream.0), "a stream of the emulator"))
    }
    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        lock(&self.queue).refuse_capture(stream, "synchronize")?;
        self.ended(Some(stream));
        Ok(())
    }

    fn create_event(&self) -> Result<EventId> {
        Ok(EventId(self.handle()))
    }
    fn destroy_event(&self, event: EventId) {
        lock(&self.queue).forget(event);
    }
    fn record(&self, event: EventId, stream: StreamId) -> Result<()> {
        lock(&self.queue).stamp(event, stream);
        Ok(())
    }
    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        lock(&self.queue).wait(stream, event)?;
        // A grid behind an event waits for all preceding ones.
        self.ended(Some(stream));
        Ok(())
    }
    fn synchronize_event(&self, event: EventId) -> Result<()> {
        lock(&self.queue).synchronize_event(event)?;
        self.ended(None);
        Ok(())
    }
    fn elapsed_ms(&self, from: EventId, to: EventId) -> Result<f32> {
        lock(&self.queue).elapsed_ms(from, to)
    }

    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        lock(&self.queue).begin_capture(stream)
    }
    fn is_captured(&self, stream: StreamId) -> Result<bool> {
        Ok(lock(&self.queue).is_captured(stream))
    }
    fn end_capture(&self, stream: StreamId) -> Result<(GraphId, usize)> {
        let graph = GraphId(self.handle());
        let nodes = lock(&self.queue).end_capture(stream, graph)?;
        Ok((graph, nodes))
    }
    fn destroy_graph(&self, graph: GraphId) {
        lock(&self.queue).destroy(graph);
    }
    unsafe fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()> {
        let commands = {
            let mut queue = lock(&self.queue);
            queue.refuse_capture(stream, "launch_graph")?;
            queue.commands(graph)
        };
        self.ended(Some(stream));
        let mut streams: HashMap<StreamId, Preceding> = HashMap::new();
        commands.iter().try_for_each(|command| {
            let preceding = match command {
                Command::Launch { config, .. } => streams.entry(config.stream).or_default(),
                // Of which stream it is, is not kept.
                Command::Copy { .. } | Command::Fill { .. } => {
                    streams.clear();
                    &mut Preceding::default()
                }
            };
            // SAFETY: the caller's.
            unsafe { self.execute(command, preceding) }
        })
    }

    fn load(&self, kernel: KernelSource<'_>) -> Result<Loaded> {
        let failed = |reason: String| Error::KernelLoad { kernel: kernel.name, reason };
        let text = std::str::from_utf8(kernel.ptx).map_err(|error| failed(error.to_string()))?;
        let module = Module::load(text).map_err(|error| failed(error.to_string()))?;
        let missing = || failed("the PTX has no entry of this name".into());
        let loaded = module.kernel(kernel.name).ok_or_else(missing)?;
        let local_bytes = loaded.local_bytes();
        let mut kernels = lock(&self.kernels);
        kernels.push(loaded);
        let ctas_per_sm = (2048 / kernel.threads.max(1))
            .min(ARCH.shared_bytes() / (kernel.shared_bytes + 1024))
            .clamp(1, 32);
        let size: u32 = kernel.cluster.iter().product();
        Ok(Loaded {
            function: FunctionId(kernels.len() - 1),
            shared_bytes: kernel.shared_bytes,
            registers: 0,
            local_bytes,
            ctas_per_sm,
            clusters: (self.properties.sm_count * ctas_per_sm / size.max(1)).max(1),
        })
    }
    fn profile(&self) -> Option<Vec<KernelProfile>> {
        Some(lock(&self.profiles).list())
    }
    fn printed(&self) -> Option<String> {
        Some(self.emulator.printed())
    }
    fn running(&self) -> Option<Vec<Progress>> {
        Some(self.emulator.running())
    }
    fn cancel(&self) -> Result<()> {
        self.emulator.cancel();
        Ok(())
    }
    fn reset_profile(&self) {
        lock(&self.profiles).clear();
    }
    fn encode(&self, shape: &TensorMapShape) -> Result<Option<TensorMap>> {
        tensor_map::encode(shape)
    }
    unsafe fn launch(&self, config: &LaunchConfig, arguments: *const c_void, bytes: usize) -> Result<()> {
        let mut block = vec![0; bytes];
        // SAFETY: the caller passes a block of this size; its padding may be uninitialised, so it is copied as bytes
        // that nobody looks at before they are in memory of ours.
        unsafe { std::ptr::copy_nonoverlapping(arguments.cast::<u8>(), block.as_mut_ptr(), bytes) };
        // SAFETY: the caller's.
        unsafe { self.submit(config.stream, Command::Launch { config: *config, arguments: block }) }
    }
}
