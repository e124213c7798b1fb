//! Narrow weights on a device.

use tilewright_device::tile::WeightsAbi;

use crate::quant::{Format, Halves, Order, PackedWeights, Scheme};
use crate::{Device, Error, Result, Tensor};

/// Narrow weights W \[N, K\] in a device's memory, in the packed form that kernels read.
///
/// docs/quantized-weights.md specifies the form; [`PackedWeights`] has it on the host.
pub struct DeviceWeights {
    device: Device,
    name: String,
    scheme: Scheme,
    shape: [usize; 2],
    codes: Tensor<u8>,
    /// The bytes of scales, and of zeros where there are any.
    scales: Tensor<u8>,
    zeros: Option<Tensor<u8>>,
}

impl DeviceWeights {
    /// Copies packed weights to a device.
    ///
    /// Fails when they are packed for int8 activations, larger than kernels can address, or hold fp8's infinities or NaNs.
    pub fn upload(device: &Device, packed: &PackedWeights) -> Result<Self> {
        let header = packed.header();
        let wrong = |argument, was: String, allowed: &'static str| Error::Weights {
            tensor: packed.name().to_owned(),
            format: Some(header.scheme.format),
            group: Some(header.scheme.group),
            argument,
            was,
            allowed: allowed.into(),
        };
        if header.order != Order::B16 {
            return Err(wrong("order", "b8".to_owned(), "b16, for activations of f16 and bf16"));
        }
        if header.n.max(header.k) > MOST {
            let was = format!("[{}, {}]", header.n, header.k);
            return Err(wrong("shape", was, "of less than 2^31 rows and columns"));
        }
        // Kernels decode them to numbers.
        let no_number = |code: &u8| match header.scheme.format {
            Format::E4M3 => code & 0x7f == 0x7f,
            Format::E5M2 => code & 0x7c == 0x7c,
            _ => false,
        };
        if let Some(code) = packed.codes().iter().find(|code| no_number(code)) {
            return Err(wrong("codes", format!("{code:#04x} among others"), "numbers, no infinity or NaN"));
        }
        let upload = |halves: &Halves| Tensor::from_slice(device, &halves.to_bytes(), &[2 * halves.len()]);
        Ok(DeviceWeights {
            device: device.clone(),
            name: packed.name().to_owned(),
            scheme: header.scheme,
            shape: [header.n, header.k],
            codes: Tensor::from_slice(device, packed.codes(), &[packed.codes().len()])?,
            scales: upload(packed.scales())?,
            zeros: packed.zeros().map(upload).transpose()?,
        })
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How the weights are represented.
    pub fn scheme(&self) -> Scheme {
        self.scheme
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
        self.codes.len() + self.scales.len() + self.zeros.as_ref().map_or(0, Tensor::len)
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

    /// As kernels take them.
    pub(super) fn abi(&self) -> WeightsAbi {
        let [n, k] = self.shape;
        let zeros = self.zeros.as_ref().map_or(0, Tensor::address);
        // Sizes are below 2^31.
        let group = self.scheme.group.len(k) as u32;
        WeightsAbi::new([self.codes.address(), self.scales.address(), zeros], [n as u32, k as u32], group)
    }
}

/// The most rows and columns.
const MOST: usize = i32::MAX as usize - 1024;
