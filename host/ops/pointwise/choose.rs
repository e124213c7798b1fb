//! Which kernel takes a pointwise call: one of vectors where tensors lie so, and one of single elements for all others.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_pointwise::{Operator, POINTWISE, PointwiseKernel};

use super::pieces::Lies;
use crate::kernel::AnyFunction;
use crate::ops::frame::{Candidate, Choice, Cycles, Plan, Rated, Rejection, Table};
use crate::{Arch, Device, KernelSet, Launch, Result};

/// One compiled kernel.
pub(in crate::ops) type Compiled = Listed<PointwiseKernel>;

/// A kernel that could compute a pointwise operator, or why it could not.
pub type PointwiseCandidate = Candidate<Listed<PointwiseKernel>>;
/// The kernel that computes a pointwise operator, and why it was chosen.
pub type PointwisePlan = Plan<Listed<PointwiseKernel>>;

static TABLE: LazyLock<Table<Operator, Compiled>> =
    LazyLock::new(|| Table::new(POINTWISE.iter().map(|k| (k.operator, *k))));

/// The kernels of an operator.
pub(in crate::ops) fn kernels(operator: Operator) -> &'static [Compiled] {
    TABLE.kernels(&operator)
}

/// What a kernel takes that moves so many bytes, in this many times what memory would.
///
/// Of an H200: 36 bytes a cycle come to an SM or leave it.
pub(in crate::ops) fn estimate(device: &Device, kernel: &Compiled, bytes: usize, slowness: f64) -> Cycles {
    let memory = bytes as u64 / (36 * u64::from(device.sm_count()).max(1));
    Cycles(((memory as f64 * slowness) as u64).saturating_add(Cycles::of_launch(kernel.arch)))
}

/// How many times what memory would take vectors do of rows of so many pieces that begin anywhere: their ends go by single elements, for which a whole warp waits.
pub(in crate::ops) fn skewed(pieces: usize) -> f64 {
    1.2 + (24.0 / pieces.max(1) as f64).min(2.8)
}

/// The same of single elements.
pub(in crate::ops) const SINGLE: f64 = 3.0;

/// Bytes of an access.
const VECTOR: usize = 16;

impl Rated for PointwiseKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &tilewright_pointwise::KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.bytes, self.each, 1]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tile, self.bytes) {
            ([0, _], 0) => write!(f, "an element at a time, {} a thread", self.each),
            ([0, _], bytes) => write!(f, "{bytes} bytes at a time, {} a thread", self.each),
            ([rows, cols], _) => write!(f, "tiles of {rows} x {cols}"),
        }
    }
}

/// What all of these operators are told beside their tensors.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Options<'a> {
    pub(in crate::ops) kernel: Option<&'a str>,
    pub(in crate::ops) overlap: bool,
}

impl Options<'_> {
    pub(in crate::ops) const DEFAULT: Self = Options { kernel: None, overlap: true };
}

/// A call, as far as it decides between kernels.
pub(in crate::ops) struct Call<'a> {
    pub(in crate::ops) device: &'a Device,
    pub(in crate::ops) operator: Operator,
    /// The element type that the call is about.
    pub(in crate::ops) element: &'static str,
    /// Whether kernels that copy elements serve any type of their size.
    pub(in crate::ops) copies: bool,
    /// Bytes of an element that moves.
    pub(in crate::ops) width: usize,
    /// Tensors that are read and written in pieces.
    pub(in crate::ops) tensors: &'a [Lies],
    /// Numbers of neighbouring columns that pieces must divide.
    pub(in crate::ops) runs: Vec<usize>,
    /// Columns of a row, where kernels ask how many are between its ends.
    pub(in crate::ops) columns: usize,
    /// Elements that move.
    pub(in crate::ops) elements: usize,
}

impl Choice for Call<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.operator)
    }
    fn what(&self) -> String {
        self.element.to_owned()
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let (bytes, width) = (kernel.bytes as usize, self.width);
        let vectors = bytes >= VECTOR;
        if self.copies {
            if !vectors && bytes != width {
                return Err(Rejection::Because("it copies elements of another size"));
            }
        } else if kernel.element != self.element {
            return Err(Rejection::Because("it computes with elements of another type"));
        }
        let lies = |tensor: &Lies| if kernel.anywhere { tensor.in_rows } else { tensor.in_vectors };
        if let Some(tensor) = self.tensors.iter().find(|tensor| vectors && !lies(tensor)) {
            return Err(Rejection::Unaligned { operand: tensor.name, row_major: true });
        }
        if vectors && self.runs.iter().any(|columns| !(columns * width).is_multiple_of(bytes)) {
            return Err(Rejection::Multiples { what: "bytes of columns", of: kernel.bytes });
        }
        let slowness = match vectors {
            true if kernel.anywhere => skewed(self.columns / kernel.piece.max(1) as usize),
            true => 1.0,
            false => SINGLE,
        };
        Ok(estimate(self.device, kernel, self.elements.saturating_mul(width), slowness))
    }
}

/// The function of a kernel, and its launch for `work` threads or pieces, of which a thread takes `each`.
pub(in crate::ops) fn launch(
    device: &Device,
    kernel: &'static Compiled,
    (work, each): (u32, u32),
    overlap: bool,
) -> Result<(AnyFunction, Launch)> {
    launch_ctas(device, kernel, work.div_ceil(kernel.threads * each).max(1), overlap)
}

/// The function of a kernel, and its launch for so many CTAs.
pub(in crate::ops) fn launch_ctas(
    device: &Device,
    kernel: &'static Compiled,
    ctas: u32,
    overlap: bool,
) -> Result<(AnyFunction, Launch)> {
    let function = device.listed(&tilewright_pointwise::KERNELS, kernel)?;
    Ok((function, Launch::grid([ctas, 1, 1]).pdl(overlap && kernel.arch == Arch::Sm90a)))
}
