//! What can go wrong: tilewright's errors, with the tensors of the call.

use candle_core::{Device, DeviceLocation, Tensor};

/// An error of tilewright, and the tensors that the call was given.
///
/// candle's functions return [`candle_core::Error`]; [`Error::of`] finds this one in it.
#[derive(Debug, thiserror::Error)]
#[error("{op}: {source}{tensors}")]
pub struct Error {
    op: &'static str,
    /// Each of them after a semicolon.
    tensors: String,
    source: tilewright::Error,
}

impl Error {
    /// The error of this crate that candle's holds, if it holds one.
    pub fn of(error: &candle_core::Error) -> Option<&Self> {
        match error {
            candle_core::Error::Cuda(inner) => inner.downcast_ref(),
            candle_core::Error::WithBacktrace { inner, .. }
            | candle_core::Error::Context { inner, .. }
            | candle_core::Error::WithPath { inner, .. } => Self::of(inner),
            _ => None,
        }
    }

    /// The function that failed.
    pub fn op(&self) -> &'static str {
        self.op
    }
    /// What tilewright says.
    pub fn cause(&self) -> &tilewright::Error {
        &self.source
    }

    pub(crate) fn new(
        op: &'static str,
        tensors: &[(&'static str, &Tensor)],
        source: tilewright::Error,
    ) -> Self {
        Error { op, tensors: tensors.iter().map(|&(name, tensor)| describe(name, tensor)).collect(), source }
    }
}

impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        candle_core::Error::Cuda(Box::new(error)).bt()
    }
}

/// What messages call a device.
pub(crate) fn label(device: &Device) -> String {
    match device.location() {
        DeviceLocation::Cpu => "the CPU".to_owned(),
        DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
    }
}

/// A tensor as candle has it: "; `q` is bf16 [2, 1024, 32, 128] on cuda:0", with strides and offset where they are not plain.
fn describe(name: &str, tensor: &Tensor) -> String {
    let place = label(tensor.device());
    let layout = tensor.layout();
    let lies = match (layout.is_contiguous(), layout.start_offset()) {
        (true, 0) => String::new(),
        (_, offset) => format!(", strides {:?}, offset {offset},", layout.stride()),
    };
    format!("; `{name}` is {} {:?}{lies} on {place}", tensor.dtype().as_str(), tensor.dims())
}
