//! What a copy between strided tensors is asked to do, checked, and by which kernel.

use std::array::from_fn;
use std::cmp::Reverse;

use tilewright_pointwise::{Exchanged, Operator, PieceOrder, RANK, Strided};

use crate::ops::frame::{Choice, Cycles, Named, Rejection, check, of_shape};
use crate::ops::pointwise::{Compiled, estimate, kernels};
use crate::ops::runs::{Run, launches, offsets, product, runs};
use crate::tensor::{Layout, Untyped};
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// Bytes of a vector, and of a sector: the least that memory gives.
const VECTOR: usize = 16;
const SECTOR: usize = 32;
/// Bytes of the widest elements that kernels know.
const WIDEST: usize = 4;

/// The tensors of a call, x and y.
pub(super) struct Problem {
    pub(super) device: Device,
    addresses: [u64; 2],
    /// Bytes of an element.
    width: usize,
    /// From the outermost of y to that of its neighbours: `RANK` at least.
    runs: Vec<Run<2>>,
}

impl Problem {
    /// Checks that y has the shape of x with its dimensions in this order, or one that x can be stretched to.
    pub(super) fn new<T: Element, U: Element>(
        dims: Option<&[usize]>,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let device = y.device();
        let from = match dims {
            Some(dims) => permuted(x.untyped(), dims)?,
            None => x.untyped(),
        };
        let stretched = match dims {
            Some(_) => Some(from.layout).filter(|layout| layout.shape() == y.shape()),
            None => from.layout.broadcast(y.shape()).ok(),
        };
        let Some(layout) = stretched else {
            let (name, was, allowed) = match dims {
                Some(dims) => {
                    let shape = of_shape(from.layout.shape());
                    ("y", y.shape(), format!("{shape}: that of `x` in the order {dims:?}"))
                }
                None => {
                    ("x", x.shape(), format!("{}, the shape of `y`, or repeat to it", of_shape(y.shape())))
                }
            };
            return Err(Error::argument(name, of_shape(was), allowed));
        };
        check(device, [Named::read("x", x), Named::written("y", y)])?;
        let layouts = [layout, y.untyped().layout];
        let mut order: Vec<_> = (0..layout.rank()).collect();
        order.sort_by_key(|&dim| Reverse(layouts[1].strides()[dim]));
        let (mut runs, mut width) = (runs(&layouts, order), size_of::<T>());
        if width > WIDEST {
            // An element of 8 bytes is two neighbours.
            let words = width / WIDEST;
            for run in &mut runs {
                run.strides = run.strides.map(|stride| stride.saturating_mul(words));
            }
            let pair = Run { size: words, strides: [1; 2] };
            match runs.last().and_then(|last| last.around(&pair)) {
                Some(both) => runs.splice(runs.len() - 1.., [both]).for_each(drop),
                None => runs.push(pair),
            }
            width = WIDEST;
        }
        while runs.len() < RANK {
            runs.insert(0, Run::ONE);
        }
        Ok(Problem { device: device.clone(), addresses: [from.address, y.address()], width, runs })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.elements() == 0
    }

    /// Elements, of the width that kernels take.
    fn elements(&self) -> usize {
        product(&self.runs)
    }

    /// y's neighbours.
    fn last(&self) -> &Run<2> {
        &self.runs[self.runs.len() - 1]
    }

    /// The place of x's neighbours among the runs, if another dimension than y's neighbours has them.
    fn exchange(&self) -> Option<usize> {
        let (last, inner) = (self.runs.len() - 1, self.outer().len());
        let is = |&i: &usize| self.runs[i].strides[0] == 1 && self.runs[i].size > 1;
        let apart = self.last().strides[1] == 1 && self.last().strides[0] != 1;
        (inner..last).find(is).filter(|_| apart)
    }

    /// Whether lines of a tensor, whose neighbours are those of run `along`, begin at multiples of 16 bytes.
    fn aligned(&self, tensor: usize, along: usize) -> bool {
        let others = self.runs.iter().enumerate().filter(|&(i, run)| i != along && run.size > 1);
        let mut steps = others.map(|(_, run)| run.strides[tensor].wrapping_mul(self.width));
        self.addresses[tensor].is_multiple_of(VECTOR as u64) && steps.all(|step| step.is_multiple_of(VECTOR))
    }

    /// Why neighbours cannot be copied in vectors.
    fn refuses_vectors(&self) -> Option<Rejection> {
        let (along, run) = (self.runs.len() - 1, self.last());
        for (tensor, operand) in ["x", "y"].into_iter().enumerate() {
            if run.strides[tensor] != 1 || !self.aligned(tensor, along) {
                return Some(Rejection::Unaligned { operand, row_major: true });
            }
        }
        let ragged = !(run.size * self.width).is_multiple_of(VECTOR);
        ragged.then_some(Rejection::Multiples { what: "bytes of columns", of: VECTOR as u32 })
    }

    fn outer(&self) -> &[Run<2>] {
        &self.runs[..self.runs.len() - RANK]
    }

    /// Launches that it takes: one unless elements lie unevenly in more than five dimensions.
    pub(super) fn launches(&self) -> usize {
        launches(self.outer())
    }

    /// The dimensions of a launch in the kernel's order: of one that transposes, x's neighbours last.
    fn inner(&self, transposes: bool) -> [Run<2>; RANK] {
        let first = self.outer().len();
        let mut inner: [Run<2>; RANK] = from_fn(|i| self.runs[first + i]);
        if let Some(from) = self.exchange().filter(|_| transposes) {
            inner[from - first..].rotate_left(1);
        }
        inner
    }

    /// The two dimensions that change places.
    pub(super) fn exchanged(&self) -> Exchanged {
        let (along, [.., rows, cols]) = (self.runs.len() - 1, self.inner(true));
        let in_vectors = [self.exchange().is_some_and(|i| self.aligned(0, i)), self.aligned(1, along)];
        let sizes = [rows, cols].map(|run| u32::try_from(run.size).unwrap_or(u32::MAX));
        Exchanged { sizes, in_vectors: in_vectors.map(u32::from) }
    }

    /// The order of the kernel's pieces, or of its tiles.
    pub(super) fn order(&self, kernel: &Compiled) -> Result<PieceOrder<RANK>> {
        let [rows, cols] = kernel.tile.map(|size| size as usize);
        let mut sizes = self.inner(rows > 0).map(|run| run.size);
        let [.., row, col] = &mut sizes;
        if rows > 0 {
            (*row, *col) = (row.div_ceil(rows), col.div_ceil(cols));
        } else {
            *col = *col * self.width / kernel.bytes as usize;
        }
        let order = || {
            let mut counts = [0; RANK];
            for (count, size) in counts.iter_mut().zip(sizes) {
                *count = u32::try_from(size).ok()?;
            }
            PieceOrder::new(counts)
        };
        order().ok_or_else(|| {
            let (was, most) = (format!("of {} elements", self.elements()), PieceOrder::<RANK>::MOST);
            Error::argument("y", was, format!("of at most {most} pieces of {} bytes", kernel.bytes))
        })
    }

    /// The tensors of a launch.
    pub(super) fn arguments(&self, kernel: &Compiled, launch: usize) -> [Strided<RANK>; 2] {
        let (at, transposes) = (offsets(self.outer(), launch), kernel.tile[0] > 0);
        let inner = self.inner(transposes);
        let unit = if transposes { self.width } else { kernel.bytes as usize };
        from_fn(|i| {
            let step = |run: &Run<2>| (run.strides[i].wrapping_mul(self.width) / unit) as u64;
            let mut strides = inner.each_ref().map(step);
            // Pieces are neighbours.
            if !transposes && unit > self.width {
                strides[RANK - 1] = 1;
            }
            Strided { address: self.addresses[i] + (at[i] * self.width) as u64, strides }
        })
    }

    /// How many times longer it takes by single elements than memory would.
    fn slowness(&self) -> f64 {
        // What a warp moves at a time; then what it reads of sectors that it does not use.
        let narrow = [6.0, 6.0, 3.0, 2.0, 2.0][self.width.min(WIDEST)];
        let apart = self.last().strides[0].clamp(1, SECTOR / self.width);
        narrow * (1.0 + apart as f64) / 2.0
    }
}

/// A tensor with its dimensions in this order.
fn permuted(x: Untyped, dims: &[usize]) -> Result<Untyped> {
    let rank = x.layout.rank();
    let complete = dims.len() == rank && (0..rank).all(|dim| dims.contains(&dim));
    if !complete {
        let allowed = match rank {
            0 => "empty: `x` has no dimensions".to_owned(),
            rank => format!("the dimensions of `x`, 0 to {}, each once", rank - 1),
        };
        return Err(Error::argument("dims", format!("{dims:?}"), allowed));
    }
    let of = |all: &[usize]| dims.iter().map(|&dim| all[dim]).collect::<Vec<_>>();
    Ok(Untyped { layout: Layout::strided(&of(x.layout.shape()), &of(x.layout.strides()))?, ..x })
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(Operator::Copy)
    }
    fn what(&self) -> String {
        format!("elements of {} bytes", self.width)
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let bytes = self.elements().saturating_mul(2 * self.width);
        if kernel.widths[0] != 0 && kernel.widths[0] as usize != self.width {
            return Err(Rejection::Because("it copies elements of another size"));
        }
        let slowness = if kernel.tile[0] > 0 {
            if self.exchange().is_none() {
                return Err(Rejection::Because("x and y have neighbours in the same dimension, or in none"));
            }
            let Exchanged { sizes, in_vectors } = self.exchanged();
            let padded = |size: u32, tile: u32| {
                f64::from(size.div_ceil(tile)) * f64::from(tile) / f64::from(size.max(1))
            };
            let waste = padded(sizes[0], kernel.tile[0]) * padded(sizes[1], kernel.tile[1]);
            waste * [2.0, 1.1][in_vectors[0].min(1) as usize] * [2.0, 1.0][in_vectors[1].min(1) as usize]
        } else if kernel.bytes as usize == VECTOR {
            match self.refuses_vectors() {
                Some(why) => return Err(why),
                None => 1.0,
            }
        } else {
            self.slowness()
        };
        Ok(estimate(&self.device, kernel, bytes, slowness))
    }
}
