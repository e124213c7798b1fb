//! The architectures that are emulated, and what a module asks for.
//!
//! CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "PTX Module Directives: .target".

use std::fmt;

/// An architecture of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// Ampere's: no clusters, TMA or `wgmma`.
    Sm80,
    /// Hopper's, with what is its own.
    Sm90a,
}

impl Arch {
    /// The compute capability, major and minor.
    pub fn capability(self) -> (u32, u32) {
        match self {
            Arch::Sm80 => (8, 0),
            Arch::Sm90a => (9, 0),
        }
    }

    /// Bytes of shared memory that a CTA may have.
    pub const fn shared_bytes(self) -> u32 {
        match self {
            Arch::Sm80 => 163 * 1024,
            Arch::Sm90a => 227 * 1024,
        }
    }

    pub(crate) fn has_clusters(self) -> bool {
        self == Arch::Sm90a
    }

    /// Whether it runs modules for this target: older ones, but of the features that are one architecture's own only its own.
    pub(crate) fn runs(self, target: Target) -> bool {
        let (major, minor) = self.capability();
        let own = 10 * major + minor;
        match target.feature {
            None => target.number <= own,
            Some(_) => target.number == own,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::Sm80 => "sm_80",
            Arch::Sm90a => "sm_90a",
        })
    }
}

/// What `.target` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// 90 of `sm_90a`.
    pub(crate) number: u32,
    /// `a`: also the features that no other architecture has; `f`: that no other family has.
    pub(crate) feature: Option<char>,
}

impl Target {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("sm_")?;
        let feature = rest.chars().last().filter(|last| matches!(last, 'a' | 'f'));
        let number = rest.trim_end_matches(['a', 'f']).parse().ok()?;
        Some(Self { number, feature })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.number)?;
        self.feature.map_or(Ok(()), |feature| write!(f, "{feature}"))
    }
}
