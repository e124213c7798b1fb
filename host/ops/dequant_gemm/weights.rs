//! Narrow weights on a device.

use tilewright_device::tile::{PLAIN_SCALES, WeightsAbi};

use super::memory::{WeightMemory, bytes, described};
use crate::quant::{Format, Halves, Order, PackedHeader, PackedWeights, Scheme, Zeros};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Error, Result, Stream, TensorView};

/// Narrow weights W \[N, K\] in a device's memory, in the packed form that kernels read.
///
/// docs/quantized-weights.md specifies the form; [`PackedWeights`] has it on the host. They are copied there ([`upload`](Self::upload)), made there of
/// wide ones ([`quantize`](Self::quantize)), or lie in [memory](WeightMemory) of somebody else's already.
#[derive(Debug)]
pub struct DeviceWeights {
    device: Device,
    name: String,
    scheme: Scheme,
    order: Order,
    shape: [usize; 2],
    facts: WeightFacts,
    memory: WeightMemory,
    /// Bytes of codes, scales and zeros.
    bytes: usize,
}

/// What is known of all scales and zeros of weights together. Where it is not known it is false, and kernels are slower, or refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightFacts {
    /// Whether weights are integers times scales: zeros, if there are any, are integers in the format's range, and not
    /// [rescaled](Zeros::Rescaled).
    pub integer_zeros: bool,
    /// Whether all scales are less than 64 in magnitude.
    pub low_scales: bool,
}

impl DeviceWeights {
    /// Copies packed weights to a device, and waits for all work queued on it so far and for the copy.
    ///
    /// Fails when they are larger than kernels can address, or hold fp8's infinities or NaNs.
    pub fn upload(device: &Device, packed: &PackedWeights) -> Result<Self> {
        device.synchronize()?;
        Self::upload_on(&device.default_stream(), packed, None)
    }

    /// Copies packed weights to the stream's device, into `memory` or memory of its own, after the work queued on the stream so far. Waits for the
    /// copy, which is an error while the stream is captured.
    ///
    /// Fails as [`upload`](Self::upload) does, and when the memory lies on another device or is for other weights.
    pub fn upload_on(stream: &Stream, packed: &PackedWeights, memory: Option<WeightMemory>) -> Result<Self> {
        // SAFETY: the copies are done when the stream is.
        let weights = unsafe { Self::queue_upload(stream, packed, memory) };
        let done = stream.synchronize();
        weights.and_then(|weights| done.map(|()| weights))
    }

    /// [`upload_on`](Self::upload_on) without waiting: products queued on the same stream follow the copy.
    ///
    /// # Safety
    /// `packed` stays as it is until the copy is done.
    pub unsafe fn queue_upload(
        stream: &Stream,
        packed: &PackedWeights,
        memory: Option<WeightMemory>,
    ) -> Result<Self> {
        let (device, header) = (stream.device(), packed.header());
        stream.refuse_capture("uploading weights")?;
        expect_addressable(header, packed.name())?;
        // Kernels decode them to numbers.
        let no_number = |code: &u8| match header.scheme.format {
            Format::E4M3 => code & 0x7f == 0x7f,
            Format::E5M2 => code & 0x7c == 0x7c,
            _ => false,
        };
        if let Some(code) = packed.codes().iter().find(|code| no_number(code)) {
            let was = format!("{code:#04x} among others");
            return Err(header.scheme.error(packed.name(), "codes", was, "numbers, no infinity or NaN"));
        }
        let memory = match memory {
            Some(memory) => memory,
            None => WeightMemory::allocate(device, header)?,
        };
        memory.expect(device, header, packed.name())?;
        let copy = |to: u64, from: *const u8, bytes: usize| {
            // SAFETY: both have so many bytes; the caller keeps the weights.
            unsafe { device.backend().upload(stream.id(), to, from.cast(), bytes) }
        };
        copy(memory.codes, packed.codes().as_ptr(), packed.codes().len())?;
        for (to, halves) in [(memory.scales, Some(packed.scales())), (memory.zeros, packed.zeros())] {
            match halves {
                Some(Halves::F16(x)) => copy(to, x.as_ptr().cast(), size_of_val(&x[..]))?,
                Some(Halves::BF16(x)) => copy(to, x.as_ptr().cast(), size_of_val(&x[..]))?,
                None => {}
            }
        }
        // SAFETY: the copies fill it before what is queued next on the stream.
        unsafe { Self::from_memory(packed.name(), header, memory, WeightFacts::of(packed)) }
    }

    /// Weights that lie in memory packed already, or will before work is queued with them.
    ///
    /// Fails when the header is none that weights can have or not the memory's, or they are larger than kernels can address.
    ///
    /// # Safety
    /// The memory has packed weights of this header, of which the facts are true: all scales, zeros and weights are finite numbers.
    pub unsafe fn from_memory(
        name: impl Into<String>,
        header: &PackedHeader,
        memory: WeightMemory,
        facts: WeightFacts,
    ) -> Result<Self> {
        let name = name.into();
        header.check(&name)?;
        expect_addressable(header, &name)?;
        memory.expect(&memory.device, header, &name)?;
        Ok(DeviceWeights {
            device: memory.device.clone(),
            name,
            scheme: header.scheme,
            order: header.order,
            shape: [header.n, header.k],
            facts: WeightFacts {
                integer_zeros: facts.integer_zeros && header.scheme.zeros != Zeros::Rescaled,
                ..facts
            },
            memory,
            bytes: bytes(header).into_iter().sum(),
        })
    }

    /// The packed weights, copied to the host after the work queued on `stream` so far. Waits for the copy.
    ///
    /// Fails while the stream is captured, and where a part is not what packed weights are: see [`PackedWeights::new`].
    pub fn download(&self, stream: &Stream) -> Result<PackedWeights> {
        let header = self.header();
        let part = |address: u64, bytes: usize| {
            // SAFETY: the memory has so many bytes.
            let view =
                unsafe { TensorView::<u8>::from_raw_parts_unchecked(&self.device, address, &[bytes], &[1])? };
            view.to_vec_on(stream)
        };
        let [codes, scales, zeros] = bytes(&header);
        let halves = |bytes: Vec<u8>| Halves::from_bytes(self.scheme.scales, &bytes);
        let zeros = match zeros {
            0 => None,
            bytes => Some(halves(part(self.memory.zeros, bytes)?)),
        };
        let (codes, scales) = (part(self.memory.codes, codes)?, halves(part(self.memory.scales, scales)?));
        PackedWeights::new(self.name.clone(), header, codes, scales, zeros)
    }

    fn header(&self) -> PackedHeader {
        let &DeviceWeights { scheme, order, shape: [n, k], .. } = self;
        PackedHeader { version: PackedWeights::VERSION, scheme, order, n, k }
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How the weights are represented.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }
    /// Which activations they are packed for.
    pub fn order(&self) -> Order {
        self.order
    }
    /// N and K.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }
    /// The device that they are on.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// Bytes of codes, scales and zeros: what a product reads at least.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// An error about these weights.
    pub(super) fn error(&self, argument: &'static str, was: String, allowed: String) -> Error {
        Error::Weights {
            tensor: self.name.clone(),
            format: Some(self.scheme.format),
            group: Some(self.scheme.group),
            argument,
            was,
            allowed: allowed.into(),
        }
    }

    /// What a plan depends on.
    pub(super) fn like(&self) -> Like {
        let &DeviceWeights { shape, scheme, order, facts: WeightFacts { integer_zeros, .. }, .. } = self;
        Like { shape, scheme, order, integer_zeros }
    }

    /// Refuses weights that a plan was not made for.
    pub(super) fn expect(&self, planned: &Like) -> Result<()> {
        let is = self.like();
        if is == *planned {
            return Ok(());
        }
        let was = |of: &Like| {
            let integers = if of.integer_zeros { ", zeros integers" } else { "" };
            format!("{}{integers}", described(of.shape, of.scheme, of.order))
        };
        Err(self.error("w", was(&is), format!("{}, for which the plan was made", was(planned))))
    }

    /// Whether weights are integers times scales: zeros, if there are any, are integers in the format's range.
    pub(super) fn integer_zeros(&self) -> bool {
        self.facts.integer_zeros
    }

    /// The scales \[N, 1\] of the first group of each row.
    pub(super) fn row_scales(&self) -> Result<Untyped> {
        let layout = Layout::strided(&[self.shape[0], 1], &[1, 1])?;
        Ok(Untyped { address: self.memory.scales, dtype: self.scheme.scales.dtype(), layout })
    }

    /// As kernels take them.
    pub(super) fn abi(&self) -> WeightsAbi {
        let [n, k] = self.shape;
        // Sizes are below 2^31.
        let group = self.scheme.group.len(k) as u32;
        let addresses = [self.memory.codes, self.memory.scales, self.memory.zeros];
        WeightsAbi::new(addresses, [n as u32, k as u32], group, self.facts.low_scales)
    }
}

/// What plans know of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Like {
    shape: [usize; 2],
    scheme: Scheme,
    order: Order,
    integer_zeros: bool,
}

impl WeightFacts {
    fn of(packed: &PackedWeights) -> Self {
        let scheme = packed.header().scheme;
        let (least, most) = scheme.format.range();
        let integer = |zeros: &Halves| {
            (0..zeros.len()).all(|i| {
                let zero = zeros.get(i);
                zero.fract() == 0.0 && (least..=most).contains(&zero)
            })
        };
        WeightFacts {
            integer_zeros: scheme.zeros != Zeros::Rescaled && packed.zeros().is_none_or(integer),
            low_scales: (0..packed.scales().len()).all(|i| packed.scales().get(i).abs() < PLAIN_SCALES),
        }
    }
}

/// Refuses weights that are larger than kernels can address.
pub(super) fn expect_addressable(header: &PackedHeader, name: &str) -> Result<()> {
    if header.n.max(header.k) <= MOST {
        return Ok(());
    }
    let was = format!("[{}, {}]", header.n, header.k);
    Err(header.scheme.error(name, "shape", was, "of less than 2^31 rows and columns"))
}

/// The most rows and columns.
const MOST: usize = i32::MAX as usize - 1024;
