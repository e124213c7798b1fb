//! The architectures that kernels can be compiled for.

use serde::{Deserialize, Serialize};

/// A GPU architecture to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Arch {
    /// Ampere and everything later: `cp.async`, `ldmatrix`, `mma.sync`.
    #[serde(rename = "sm_80")]
    Sm80,
    /// Hopper's own instructions: TMA, `wgmma`, `setmaxnreg`, clusters.
    #[serde(rename = "sm_90a")]
    Sm90a,
}

impl Arch {
    /// The target's name in PTX.
    pub const fn target(self) -> &'static str {
        match self {
            Arch::Sm80 => "sm_80",
            Arch::Sm90a => "sm_90a",
        }
    }

    /// The variant's name in Rust.
    pub(crate) const fn variant(self) -> &'static str {
        match self {
            Arch::Sm80 => "Sm80",
            Arch::Sm90a => "Sm90a",
        }
    }

    /// The value of `cfg(tilewright_sm = "…")` in the device crate.
    pub(crate) const fn cfg(self) -> &'static str {
        match self {
            Arch::Sm80 => "80",
            Arch::Sm90a => "90",
        }
    }

    /// The lowest PTX version that has every instruction the device crate may use on this target:
    /// `cvta.param` came with 7.7, `elect.sync` with 8.0, `st.async` with 8.1.
    pub(crate) const fn ptx_version(self) -> (u32, u32) {
        match self {
            Arch::Sm80 => (8, 0),
            Arch::Sm90a => (8, 1),
        }
    }

    /// Dynamic and static shared memory that a CTA can have, in bytes.
    pub(crate) const fn shared_limit(self) -> u32 {
        match self {
            Arch::Sm80 => 163 * 1024,
            Arch::Sm90a => 227 * 1024,
        }
    }

    /// Whether CTAs can form clusters.
    pub(crate) const fn has_clusters(self) -> bool {
        matches!(self, Arch::Sm90a)
    }
}
