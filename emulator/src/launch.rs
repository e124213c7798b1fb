//! How a kernel is launched.

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// CTAs in each dimension.
    pub grid: [u32; 3],
    /// Threads of a CTA in each dimension.
    pub threads: [u32; 3],
    /// CTAs of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
}

impl Default for Launch {
    /// One CTA of one warp.
    fn default() -> Self {
        Self { grid: [1; 3], threads: [32, 1, 1], cluster: [1; 3], dynamic_shared: 0 }
    }
}
