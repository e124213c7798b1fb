//! A device in the host's memory, for tests: it copies and fills, and writes down what is launched.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tilewright_device::abi::TensorMap;

use super::{
    Backend, EventId, FunctionId, GraphId, H200_MEMORY_RATE, KernelSource, LaunchConfig, Loaded, Properties,
    Residence, StreamId, TensorMapShape,
};
use crate::{Device, Error, Result};

/// What a fake device was asked to do.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) launches: Mutex<Vec<(LaunchConfig, Vec<MaybeUninit<u8>>)>>,
    pub(crate) loads: Mutex<Vec<(&'static str, String)>>,
    pub(crate) maps: Mutex<Vec<TensorMapShape>>,
    pub(crate) memory: Mutex<HashMap<u64, Block>>,
    /// Streams, events and graphs that are alive.
    pub(crate) handles: AtomicUsize,
    pub(crate) captures: AtomicUsize,
    /// Set it, and tensor maps with a stride of 0 are refused.
    pub(crate) refuses_repeats: AtomicBool,
}

/// Memory with its size in bytes.
type Block = (Box<[u128]>, usize);

#[derive(Debug)]
struct Fake {
    properties: Properties,
    journal: Arc<Journal>,
}

/// Every address from here on passes for memory of any fake device: nothing may read it.
pub(crate) const VAST: u64 = 1 << 62;

/// A fake device of the given compute capability, with 1 MiB of memory, and its journal.
pub(crate) fn device(capability: (u32, u32)) -> (Device, Arc<Journal>) {
    make(Properties {
        name: "fake".into(),
        label: "fake:0".into(),
        ordinal: Some(0),
        capability,
        sm_count: 4,
        l2_bytes: 1 << 16,
        memory_rate: H200_MEMORY_RATE,
        total_memory: 1 << 20,
        shared_bytes: 1 << 16,
        driver_version: (12, 0),
        emulated: false,
    })
}

/// A fake device with the SMs and the shared memory of an H200.
pub(crate) fn h200() -> (Device, Arc<Journal>) {
    hopper(H200_MEMORY_RATE)
}

/// The same with memory that delivers this much, in GB/s.
pub(crate) fn hopper(memory_rate: u32) -> (Device, Arc<Journal>) {
    make(Properties {
        name: "fake H200".into(),
        label: "fake:1".into(),
        ordinal: Some(1),
        capability: (9, 0),
        sm_count: 132,
        l2_bytes: 1 << 16,
        memory_rate,
        total_memory: 1 << 26,
        shared_bytes: 227 << 10,
        driver_version: (12, 0),
        emulated: false,
    })
}

fn make(properties: Properties) -> (Device, Arc<Journal>) {
    let journal = Arc::new(Journal::default());
    (Device::new(Box::new(Fake { properties, journal: Arc::clone(&journal) })), journal)
}

impl Fake {
    fn create(&self) -> usize {
        1 + self.journal.handles.fetch_add(1, Ordering::Relaxed)
    }
    fn destroy(&self) {
        self.journal.handles.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backend for Fake {
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn free_memory(&self) -> Result<usize> {
        let used: usize = self.journal.memory.lock().unwrap().values().map(|(_, bytes)| bytes).sum();
        Ok(self.properties.total_memory - used)
    }
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let free = self.free_memory()?;
        if bytes > free {
            return Err(Error::OutOfMemory { requested: bytes, free, total: self.properties.total_memory });
        }
        let block = vec![0xcdu128; bytes.div_ceil(16)].into_boxed_slice();
        let address = block.as_ptr().expose_provenance() as u64;
        self.journal.memory.lock().unwrap().insert(address, (block, bytes));
        Ok(address)
    }
    fn free(&self, address: u64) {
        self.journal.memory.lock().unwrap().remove(&address).expect("freed once");
    }
    fn residence(&self, address: u64) -> Result<Residence> {
        let memory = self.journal.memory.lock().unwrap();
        let mut blocks = memory.iter().map(|(&start, &(_, bytes))| (start, start + bytes as u64));
        let found = blocks.find(|&(start, end)| (start..end).contains(&address));
        Ok(match found {
            Some((_, end)) => Residence::Here { end },
            None if address >= VAST => Residence::Here { end: u64::MAX },
            None if address >> 32 == 0xdead => Residence::Elsewhere("fake:1".into()),
            None => Residence::Unknown,
        })
    }

    unsafe fn upload(&self, _: StreamId, to: u64, from: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: the caller vouches for both ranges; addresses are host addresses here.
        unsafe { std::ptr::with_exposed_provenance_mut::<c_void>(to as usize).copy_from(from, bytes) };
        Ok(())
    }
    unsafe fn download(&self, _: StreamId, from: u64, to: *mut c_void, bytes: usize) -> Result<()> {
        // SAFETY: as above.
        unsafe { std::ptr::with_exposed_provenance::<c_void>(from as usize).copy_to(to, bytes) };
        Ok(())
    }
    unsafe fn copy(&self, _: StreamId, to: u64, from: u64, bytes: usize) -> Result<()> {
        let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
        // SAFETY: as above.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(to as usize).copy_from(from, bytes) };
        Ok(())
    }
    unsafe fn fill(&self, _: StreamId, to: u64, value: u64, width: usize, count: usize) -> Result<()> {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
        for i in 0..count {
            let value = value.to_le_bytes();
            // SAFETY: as above.
            unsafe { to.add(i * width).copy_from(value.as_ptr(), width) };
        }
        Ok(())
    }

    fn create_stream(&self, _: bool) -> Result<StreamId> {
        Ok(StreamId(self.create()))
    }
    fn destroy_stream(&self, _: StreamId) {
        self.destroy();
    }
    fn check_stream(&self, _: StreamId) -> Result<()> {
        Ok(())
    }
    fn synchronize_stream(&self, _: StreamId) -> Result<()> {
        Ok(())
    }

    fn create_event(&self) -> Result<EventId> {
        Ok(EventId(self.create()))
    }
    fn destroy_event(&self, _: EventId) {
        self.destroy();
    }
    fn record(&self, _: EventId, _: StreamId) -> Result<()> {
        Ok(())
    }
    fn wait(&self, _: StreamId, _: EventId) -> Result<()> {
        Ok(())
    }
    fn synchronize_event(&self, _: EventId) -> Result<()> {
        Ok(())
    }
    fn elapsed_ms(&self, _: EventId, _: EventId) -> Result<f32> {
        Ok(1.0)
    }

    fn begin_capture(&self, _: StreamId) -> Result<()> {
        self.journal.captures.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn is_captured(&self, stream: StreamId) -> Result<bool> {
        Ok(stream != StreamId(0) && self.journal.captures.load(Ordering::Relaxed) > 0)
    }
    fn end_capture(&self, _: StreamId) -> Result<(GraphId, usize)> {
        self.journal.captures.fetch_sub(1, Ordering::Relaxed);
        Ok((GraphId(self.create()), self.journal.launches.lock().unwrap().len()))
    }
    fn destroy_graph(&self, _: GraphId) {
        self.destroy();
    }
    unsafe fn launch_graph(&self, _: GraphId, _: StreamId) -> Result<()> {
        Ok(())
    }

    fn load(&self, kernel: KernelSource<'_>) -> Result<Loaded> {
        let text = String::from_utf8(kernel.ptx.to_vec()).expect("PTX is text");
        let mut loads = self.journal.loads.lock().unwrap();
        loads.push((kernel.name, text));
        Ok(Loaded {
            function: FunctionId(loads.len()),
            shared_bytes: kernel.shared_bytes,
            registers: 32,
            local_bytes: 0,
            ctas_per_sm: 2,
            clusters: 6,
        })
    }
    fn encode(&self, shape: &TensorMapShape) -> Result<Option<TensorMap>> {
        if self.properties.capability < (9, 0) {
            return Ok(None);
        }
        let repeats = shape.strides.iter().take(shape.rank - 1).any(|&stride| stride == 0);
        if repeats && self.journal.refuses_repeats.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.journal.maps.lock().unwrap().push(*shape);
        Ok(Some(TensorMap([7; 16])))
    }
    unsafe fn launch(&self, config: &LaunchConfig, arguments: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: the caller passes a block of this size.
        let arguments = unsafe { std::slice::from_raw_parts(arguments.cast::<MaybeUninit<u8>>(), bytes) };
        self.journal.launches.lock().unwrap().push((*config, arguments.to_vec()));
        Ok(())
    }
}
