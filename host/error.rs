//! What can go wrong, said so that it can be mended.

use std::borrow::Cow;

use thiserror::Error as ThisError;
use tilewright_device::kernel::Arch;

use crate::quant::{Format, Group};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// An argument is not what the call can work with.
    #[error("`{argument}` was {was}; it must be {allowed}")]
    Argument {
        /// The argument's name.
        argument: Cow<'static, str>,
        /// What it was.
        was: String,
        /// What the call accepts.
        allowed: Cow<'static, str>,
    },

    /// Narrow weights, or what they are to be made from, are not what the call can work with.
    #[error("`{argument}` of {} was {was}; it must be {allowed}", weights(tensor, *format, *group))]
    Weights {
        /// The name of the weights' tensor.
        tensor: String,
        /// The weights' number format, if it is known.
        format: Option<Format>,
        /// Which of them share a scale, if it is known.
        group: Option<Group>,
        /// What is wrong with them.
        argument: &'static str,
        /// What it was.
        was: String,
        /// What the call accepts.
        allowed: Cow<'static, str>,
    },

    /// An argument lies on, or belongs to, another device than the call is for.
    #[error("`{argument}` was on {was}; it must be on {expected}, the device of this call")]
    WrongDevice {
        /// The argument's name.
        argument: Cow<'static, str>,
        /// The device or context that it belongs to.
        was: String,
        /// The device that the call is for.
        expected: String,
    },

    /// An argument that is written shares memory with another one.
    #[error("`{written}` overlaps `{other}`; what a call writes must lie apart from all else that it uses")]
    Overlap {
        /// The name of the argument that is written.
        written: &'static str,
        /// The other argument's name.
        other: &'static str,
    },

    /// A kernel's copies cannot read a tensor as it lies in memory. [`or_where_unreadable`](crate::OrWhereUnreadable) launches
    /// another kernel then, such as one for any strides.
    #[error("kernel `{kernel}` cannot read `{argument}`: {reason}")]
    Unreadable {
        /// The kernel's entry point.
        kernel: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// What the kernel needs of it.
        reason: &'static str,
    },

    /// There is no CUDA driver on this machine.
    #[error("no CUDA driver: {reason}")]
    NoDriver {
        /// What was tried.
        reason: String,
    },

    /// There is a CUDA driver, and it does not work or is too old.
    #[error("the CUDA driver cannot be used: {reason}")]
    UnusableDriver {
        /// What the driver said, or what it lacks.
        reason: String,
    },

    /// The driver is there, but not the device asked for.
    #[error("no CUDA device {ordinal}: {reason}")]
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// How many devices there are, or what the driver said.
        reason: String,
    },

    /// The GPU lacks what the call needs.
    #[error("{device} (compute capability {}.{}) cannot be used: {needs}", capability.0, capability.1)]
    UnsupportedGpu {
        /// The GPU's name.
        device: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// What is needed.
        needs: String,
    },

    /// The device's memory does not suffice.
    #[error("out of device memory: {requested} bytes asked for, {free} of {total} bytes free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// Bytes that were free.
        free: usize,
        /// Bytes that the device has.
        total: usize,
    },

    /// The kernel set has no such kernel.
    #[error("no kernel `{kernel}` for {}: {reason}", arch.target())]
    KernelMissing {
        /// The kernel's entry point.
        kernel: &'static str,
        /// The architecture that was looked for.
        arch: Arch,
        /// What the set has instead.
        reason: String,
    },

    /// The kernel's PTX could not be loaded.
    #[error("kernel `{kernel}` could not be loaded: {reason}")]
    KernelLoad {
        /// The kernel's entry point.
        kernel: &'static str,
        /// What the driver's compiler said.
        reason: String,
    },

    /// The call waits or allocates, which cannot be recorded in a graph, and a stream is being captured. Nothing was done, and
    /// the capture goes on.
    #[error("{call} cannot be captured in a graph")]
    Captured {
        /// What was called.
        call: &'static str,
    },

    /// The driver refused a call, or reports that earlier work on the device failed.
    #[error("{call} failed: {name} ({code}), {message}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its result's number.
        code: u32,
        /// Its result's name.
        name: String,
        /// The driver's description of it.
        message: String,
    },

    /// There is no NCCL, which several GPUs need.
    #[error("no NCCL: {reason}")]
    NoNccl {
        /// What was tried.
        reason: String,
    },

    /// NCCL refused a call.
    #[error("{call} failed: {reason}")]
    Nccl {
        /// NCCL's function.
        call: &'static str,
        /// What it said.
        reason: String,
    },

    /// The emulator refused a call, or found a kernel doing something wrong.
    #[error("the emulator stopped in {call}: {report}")]
    Emulator {
        /// What was called.
        call: &'static str,
        /// What it found, and where.
        report: String,
    },
}

impl Error {
    /// An argument that a call does not take: its name, what it was, and what is allowed, as "it must be …".
    pub fn argument(
        argument: impl Into<Cow<'static, str>>,
        was: impl Into<String>,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        Error::Argument { argument: argument.into(), was: was.into(), allowed: allowed.into() }
    }
}

fn weights(tensor: &str, format: Option<Format>, group: Option<Group>) -> String {
    let format = format.map(|format| format!("{format} "));
    let group = group.map(|group| format!(", {group},"));
    format!("the {}weights `{tensor}`{}", format.unwrap_or_default(), group.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_argument_what_it_was_and_what_is_allowed() {
        let error = Error::argument("b", "of shape [3, 4]", "of shape [K, N] with K = 8");
        assert_eq!(error.to_string(), "`b` was of shape [3, 4]; it must be of shape [K, N] with K = 8");

        let error = Error::OutOfMemory { requested: 10, free: 4, total: 8 };
        assert_eq!(error.to_string(), "out of device memory: 10 bytes asked for, 4 of 8 bytes free");

        let error =
            Error::KernelMissing { kernel: "k", arch: Arch::Sm90a, reason: "the set is empty".into() };
        assert_eq!(error.to_string(), "no kernel `k` for sm_90a: the set is empty");
    }

    #[test]
    fn messages_about_weights_name_tensor_format_and_group() {
        let error = |format, group| {
            let (tensor, was) = ("q_proj".to_owned(), "3".to_owned());
            Error::Weights { tensor, format, group, argument: "n", was, allowed: "4".into() }.to_string()
        };
        assert_eq!(
            error(Some(Format::U4), Some(Group::K128)),
            "`n` of the u4 weights `q_proj`, groups of 128, was 3; it must be 4"
        );
        assert_eq!(error(None, None), "`n` of the weights `q_proj` was 3; it must be 4");
    }

    #[test]
    fn results_stay_small() {
        assert!(size_of::<Error>() <= 96, "{}", size_of::<Error>());
    }
}
