//! What a scan is asked to compute, checked.

use super::sequences::{Extent, expect};
use super::table::Compiled;
use super::time::{Time, Told};
use crate::ops::frame::{Operand, Places, of_shape};
use crate::tensor::Untyped;
use crate::{Device, Error, Result};

/// The most columns of B and C: the widest kernel's.
pub(super) const MAX_COLUMNS: usize = 256;
/// Tokens of a block, and columns of a head that a CTA takes.
pub(super) const BLOCK: usize = tilewright_ssd::BLOCK as usize;

/// The sizes of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) matrices: usize,
    pub(super) rows: usize,
    pub(super) heads: usize,
    pub(super) groups: usize,
    /// Columns of x.
    pub(super) p: usize,
    /// Columns of B and C.
    pub(super) n: usize,
}

impl Size {
    /// Of the shapes of x, B and C.
    pub(super) fn new(x: &[usize], b: &[usize], c: &[usize]) -> Result<Self> {
        let &[matrices, rows, heads, p] = x else {
            return Err(Error::argument("x", of_shape(x), "of 4 dimensions: batch, length, heads, columns"));
        };
        let &[_, _, groups, n] = b else {
            return Err(Error::argument("b", of_shape(b), "of 4 dimensions: batch, length, groups, columns"));
        };
        let size = Size { matrices, rows, heads, groups, p, n };
        expect("b", b, &[matrices, rows, groups, n], "the batch and the length of `x`, groups, columns")?;
        size.check_groups(b)?;
        if !(1..=MAX_COLUMNS).contains(&n) {
            return Err(Error::argument("b", of_shape(b), format!("of 1 to {MAX_COLUMNS} columns")));
        }
        expect("c", c, b, "that of `b`")?;
        Ok(size)
    }

    /// Checks that B's groups divide the heads.
    pub(super) fn check_groups(&self, b: &[usize]) -> Result<()> {
        let &Size { heads, groups, .. } = self;
        let divides = if groups == 0 { heads == 0 } else { heads.is_multiple_of(groups) };
        if !divides {
            return Err(Error::argument(
                "b",
                of_shape(b),
                format!("of a number of groups that divides the {heads} heads of `x`"),
            ));
        }
        Ok(())
    }

    /// Tiles of columns that a head has.
    pub(super) fn parts(&self) -> usize {
        self.p.div_ceil(BLOCK)
    }
}

/// A checked scan.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) size: Size,
    pub(super) extent: Extent,
    /// x, B and C, \[batch, heads or groups, length, columns\].
    pub(super) inputs: [Untyped; 3],
    /// The same as kernels read them.
    pub(super) operands: [Operand; 3],
    pub(super) dt: Untyped,
    pub(super) decay: Untyped,
    pub(super) time: Told,
    pub(super) z: Option<Untyped>,
    pub(super) y: Untyped,
    pub(super) initial: Option<Untyped>,
    pub(super) last: Option<Untyped>,
    /// Blocks of a chunk, if that is asked for.
    pub(super) blocks: Option<usize>,
    pub(super) kernels: &'static [Compiled],
}

impl Problem {
    /// The same with the tensors of a run.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let at = |of: &Option<Untyped>| of.as_ref().map(|of| places.of(of));
        Problem {
            device: self.device.clone(),
            extent: self.extent.placed(places),
            inputs: self.inputs.each_ref().map(|input| places.of(input)),
            dt: places.of(&self.dt),
            decay: places.of(&self.decay),
            time: self.time.placed(places),
            z: at(&self.z),
            y: places.of(&self.y),
            initial: at(&self.initial),
            last: at(&self.last),
            ..*self
        }
    }

    /// Nothing to compute.
    pub(super) fn is_empty(&self) -> bool {
        self.extent.count == 0 || self.size.heads == 0 || self.size.p == 0
    }
}

/// Checks the steps of time against x.
pub(super) fn check_time(time: &Time<'_>, dt: &[usize], a: &[usize], x: &[usize]) -> Result<()> {
    let (heads, want) = x.split_last().map_or((0, x), |(_, rest)| (rest.last().copied().unwrap_or(0), rest));
    expect("dt", dt, want, "that of `x` without its columns")?;
    expect("a", a, &[heads], "the heads of `x`")?;
    time.check(heads)
}

/// Blocks of a chunk of so many tokens, where that is asked for.
pub(super) fn blocks_of(chunk: Option<usize>, rows: usize) -> Result<Option<usize>> {
    match chunk {
        Some(tokens) if tokens == 0 || !tokens.is_multiple_of(BLOCK) => {
            Err(Error::argument("chunk", tokens.to_string(), format!("a multiple of {BLOCK}")))
        }
        // No chunk is longer than all there is.
        chunk => Ok(chunk.map(|tokens| (tokens / BLOCK).min(rows.div_ceil(BLOCK).max(1)))),
    }
}

/// Checks a state \[sequences, heads, columns of x, columns of B\].
pub(super) fn check_state(name: &'static str, state: Option<&[usize]>, want: [usize; 4]) -> Result<()> {
    let because = "sequences, heads, the columns of `x` and those of `b`";
    state.map_or(Ok(()), |state| expect(name, state, &want, because))
}
