//! Which kernel computes it: the one that reads the cache by the largest copies.

use std::fmt;

use tilewright_mla::MlaKernel;

use super::problem::Problem;
use super::table::{Compiled, kernels};
use crate::ops::frame::{Candidate, Choice, Copies, Estimate, Rated, Rejection};
use crate::{Device, KernelSet};

/// How a kernel would read the cache.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// Rows of the cache that one copy reads.
    rows: u32,
}

impl Estimate for Reads {
    const REASON: &'static str = "the largest copies";

    fn cycles(&self) -> Option<u64> {
        None
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of the cache a copy", self.rows)
    }
}

impl Rated for MlaKernel {
    type Estimate = Reads;
    const KERNELS: &'static KernelSet = &tilewright_mla::KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.box_of[0], self.tiles, 0]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [d, dv] = self.columns;
        let of = if self.codes { " in records of 8 bits" } else { "" };
        write!(f, "keys of {d} columns, values of {dv}{of}")
    }
}

impl Candidate<Compiled> {
    /// Columns of queries and keys, and of values and output.
    pub fn columns(&self) -> [u32; 2] {
        self.kernel.columns
    }
    /// Rows of the cache that one copy reads.
    pub fn box_rows(&self) -> u32 {
        self.kernel.box_of[0]
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels((self.element, self.cache.codes, self.columns))
    }
    fn what(&self) -> String {
        let Problem { element, columns: [d, dv], cache, .. } = self;
        let of = if cache.codes { ", a cache of u8" } else { "" };
        format!("{element}{of}, keys of {d} columns and values of {dv}")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Reads, Rejection> {
        let (cache, rows) = (&self.cache, kernel.box_of[0]);
        if !cache.is_dense() && !cache.rows.is_multiple_of(rows as usize) {
            return Err(Rejection::Multiples { what: "rows of a page", of: rows });
        }
        if !self.tiles().is_multiple_of(kernel.tiles) {
            return Err(Rejection::Multiples { what: "tiles of 64 rows", of: kernel.tiles });
        }
        // Records are copied one by one, without a map.
        let mapped = if kernel.codes { &self.operands[..1] } else { &self.operands[..] };
        mapped.iter().try_for_each(|operand| operand.check(Copies::of(kernel.arch)))?;
        Ok(Reads { rows })
    }
}
