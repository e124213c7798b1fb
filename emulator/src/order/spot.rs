//! Where accesses go.

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spot {
    /// In this CTA's shared memory.
    Shared(usize, u32),
    Global(u64),
}

impl Spot {
    pub(crate) fn plus(self, bytes: usize) -> Self {
        match self {
            Spot::Shared(cta, at) => Spot::Shared(cta, at.wrapping_add(bytes as u32)),
            Spot::Global(at) => Spot::Global(at.wrapping_add(bytes as u64)),
        }
    }

    /// So many bytes there, in words.
    pub(super) fn name(self, bytes: usize) -> String {
        match self {
            Spot::Shared(_, at) => format!("{bytes} bytes of shared memory at {at:#x}"),
            Spot::Global(at) => format!("{bytes} bytes of global memory at {at:#x}"),
        }
    }
}
