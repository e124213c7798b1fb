//! Where narrow weights lie on a device.

use std::any::Any;
use std::fmt;

use crate::quant::{Order, PackedHeader, Scheme, Zeros, order_name};
use crate::{Device, Error, Result, Tensor};

/// To what kernels' accesses are aligned.
const ALIGNED: u64 = 16;

/// A device's memory for narrow weights: their codes, scales and zeros, as [`PackedHeader`] says how many.
///
/// It is its own, or somebody else's, who is kept alive with it.
pub struct WeightMemory {
    pub(super) device: Device,
    pub(super) codes: u64,
    pub(super) scales: u64,
    /// 0 without zeros.
    pub(super) zeros: u64,
    /// What it has room for.
    header: PackedHeader,
    /// What the memory belongs to.
    _owner: Box<dyn Any + Send + Sync>,
}

impl WeightMemory {
    /// New memory, whatever values it has, given back when it is dropped. An error while this thread captures a stream.
    ///
    /// Fails when the header is none that weights can have, and when there is too little memory.
    pub fn allocate(device: &Device, header: &PackedHeader) -> Result<Self> {
        header.check("")?;
        let [codes, scales, zeros] = bytes(header);
        // Parts that begin at multiples of 16 bytes: blocks and 64 rows are.
        let all = Tensor::<u8>::uninit(device, &[codes + scales + zeros])?;
        let scales_at = all.address() + codes as u64;
        let zeros = if zeros == 0 { 0 } else { scales_at + scales as u64 };
        let (device, codes) = (device.clone(), all.address());
        Ok(WeightMemory { device, codes, scales: scales_at, zeros, header: *header, _owner: Box::new(all) })
    }

    /// Memory of somebody else's: the addresses of [`code_bytes`](PackedHeader::code_bytes) bytes of codes, and of twice as many bytes of
    /// scales, and of zeros unless the mode is [`Zeros::None`], as there are [`groups`](PackedHeader::groups) times
    /// [`padded_n`](PackedHeader::padded_n). `owner` is dropped with the weights: a framework's tensor, an `Arc` of its storage, or nothing.
    ///
    /// Fails when the header is none that weights can have, an address is not a multiple of 16, or zeros are there and should not be, or the
    /// other way round.
    ///
    /// # Safety
    /// The addresses are of so much memory of `device` as long as the weights live and the work queued with them is not done: the owner gives it back
    /// after that work, as frameworks' pools do on its stream. Nothing writes there meanwhile but work that streams or events put in order with that.
    pub unsafe fn from_raw_parts(
        device: &Device,
        header: &PackedHeader,
        codes: u64,
        scales: u64,
        zeros: Option<u64>,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        header.check("")?;
        for (name, address) in [("codes", Some(codes)), ("scales", Some(scales)), ("zeros", zeros)] {
            if let Some(address) = address.filter(|address| *address == 0 || !address.is_multiple_of(ALIGNED))
            {
                let was = format!("at {address:#x}");
                return Err(Error::argument(name, was, format!("at a multiple of {ALIGNED} bytes, not 0")));
            }
        }
        if zeros.is_some() != (header.scheme.zeros != Zeros::None) {
            let was = if zeros.is_some() { "there" } else { "missing" };
            return Err(Error::argument(
                "zeros",
                was,
                format!("as the mode `{}` has them", header.scheme.zeros),
            ));
        }
        let (device, zeros) = (device.clone(), zeros.unwrap_or(0));
        Ok(WeightMemory { device, codes, scales, zeros, header: *header, _owner: Box::new(owner) })
    }

    /// Refuses weights of another header than the memory is for, and of another device.
    pub(super) fn expect(&self, device: &Device, header: &PackedHeader, name: &str) -> Result<()> {
        device.expect_same(&self.device, "memory")?;
        if self.header == *header {
            return Ok(());
        }
        let of = |header: &PackedHeader| {
            format!("for {}", described([header.n, header.k], header.scheme, header.order))
        };
        Err(header.scheme.error(name, "memory", of(&self.header), of(header)))
    }
}

impl fmt::Debug for WeightMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WeightMemory { device, codes, scales, zeros, .. } = self;
        write!(f, "WeightMemory({codes:#x}, {scales:#x}, {zeros:#x} on {})", device.label())
    }
}

/// What packed weights are, in an error.
pub(super) fn described([n, k]: [usize; 2], scheme: Scheme, order: Order) -> String {
    let Scheme { format, group, zeros, scales } = scheme;
    let (scales, order) = (scales.dtype(), order_name(order));
    format!("[{n}, {k}] of {format}, {group}, zeros {zeros}, scales {scales}, order {order}")
}

/// Bytes of codes, scales and zeros.
pub(super) fn bytes(header: &PackedHeader) -> [usize; 3] {
    let halves = header.groups() * header.padded_n() * 2;
    [header.code_bytes(), halves, if header.scheme.zeros == Zeros::None { 0 } else { halves }]
}
