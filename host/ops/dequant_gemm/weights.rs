//! Narrow weights on a device.

use tilewright_device::tile::{PLAIN_SCALES, WeightsAbi};

use crate::quant::{Format, Halves, Order, PackedWeights, Scheme, Zeros};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Error, Result, Tensor};

/// Narrow weights W \[N, K\] in a device's memory, in the packed form that kernels read.
///
/// docs/quantized-weights.md specifies the form; [`PackedWeights`] has it on the host.
pub struct DeviceWeights {
    device: Device,
    name: String,
    scheme: Scheme,
    order: Order,
    shape: [usize; 2],
    /// Whether all zeros, if there are any, are integers in the format's range.
    integer_zeros: bool,
    /// Whether all scales are less than [`PLAIN_SCALES`].
    low_scales: bool,
    codes: Tensor<u8>,
    /// The bytes of scales, and of zeros where there are any.
    scales: Tensor<u8>,
    zeros: Option<Tensor<u8>>,
}

impl DeviceWeights {
    /// Copies packed weights to a device.
    ///
    /// Fails when they are larger than kernels can address, or hold fp8's infinities or NaNs.
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
        let (least, most) = header.scheme.format.range();
        let integer = |zeros: &Halves| {
            (0..zeros.len()).all(|i| {
                let zero = zeros.get(i);
                zero.fract() == 0.0 && (least..=most).contains(&zero)
            })
        };
        let upload = |halves: &Halves| Tensor::from_slice(device, &halves.to_bytes(), &[2 * halves.len()]);
        Ok(DeviceWeights {
            device: device.clone(),
            name: packed.name().to_owned(),
            scheme: header.scheme,
            order: header.order,
            integer_zeros: header.scheme.zeros != Zeros::Rescaled && packed.zeros().is_none_or(integer),
            low_scales: (0..packed.scales().len()).all(|i| packed.scales().get(i).abs() < PLAIN_SCALES),
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

    /// Whether weights are integers times scales: zeros, if there are any, are integers in the format's range.
    pub(super) fn integer_zeros(&self) -> bool {
        self.integer_zeros
    }

    /// The scales \[N, 1\] of the first group of each row.
    pub(super) fn row_scales(&self) -> Result<Untyped> {
        let layout = Layout::strided(&[self.shape[0], 1], &[1, 1])?;
        Ok(Untyped { address: self.scales.address(), dtype: self.scheme.scales.dtype(), layout })
    }

    /// As kernels take them.
    pub(super) fn abi(&self) -> WeightsAbi {
        let [n, k] = self.shape;
        let zeros = self.zeros.as_ref().map_or(0, Tensor::address);
        // Sizes are below 2^31.
        let group = self.scheme.group.len(k) as u32;
        let addresses = [self.codes.address(), self.scales.address(), zeros];
        WeightsAbi::new(addresses, [n as u32, k as u32], group, self.low_scales)
    }
}

/// The most rows and columns.
const MOST: usize = i32::MAX as usize - 1024;
