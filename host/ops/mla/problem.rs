//! What is asked to be computed, checked.

use std::sync::Arc;

use tilewright_mla::{Item, LATENT, ROTARY};

use super::cache::{Cache, Known, Table};
use super::planned::named;
use super::positions::Positions;
use super::table::ROWS;
use crate::ops::frame::{Operand, PIECE, Places, check, of_address, of_shape};
use crate::ops::scores::scale;
use crate::ops::{HalfElement, Indices, LatentElement};
use crate::tensor::Untyped;
use crate::{DType, Device, Element, Error, Result, TensorView, TensorViewMut};

/// Pairs of columns of queries and keys, and of values and output, for which there are kernels.
const COLUMNS: [[usize; 2]; 2] = [[576, 512], [320, 256]];
/// The most rows of all sequences: their tiles are numbers that an item has room for.
const MAX_ROWS: usize = (Item::TILE as usize + 1) * ROWS as usize;
/// The most parts into which keys are divided.
const MAX_SPLITS: usize = 1024;
/// Sequences and tiles of a grid.
const MAX_GRID: usize = 65535;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// 1 / sqrt(columns of a query) if it is not given.
    pub(super) scale: Option<f32>,
    pub(super) causal: bool,
    pub(super) splits: Option<usize>,
}

/// The tensors, as kernels take them.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    /// \[batch, rows, columns\]: the rows are the heads of one position after the other.
    pub(super) q: Untyped,
    /// Q and the cache as kernels read them.
    pub(super) operands: [Operand; 2],
    pub(super) o: Untyped,
    /// \[batch, rows, 1\]; without rows if it is not wanted.
    pub(super) lse: Untyped,
    pub(super) cache: Cache,
    pub(super) batch: usize,
    pub(super) heads: u32,
    /// How they are taken.
    pub(super) positions: Positions,
    /// Heads times positions.
    pub(super) rows: u32,
    /// Of queries and keys, and of values and output.
    pub(super) columns: [u32; 2],
    pub(super) splits: Option<u32>,
    pub(super) scale: f32,
    pub(super) element: &'static str,
}

/// The views at a plan's places, and what the caller says of the cache.
pub(super) struct Arguments<'a, 'b, T, C> {
    pub(super) q: &'b TensorView<'a, T>,
    pub(super) cache: &'b TensorView<'a, C>,
    pub(super) o: &'b TensorViewMut<'a, T>,
    pub(super) lse: Option<&'b TensorViewMut<'a, f32>>,
    pub(super) table: &'b Table<Indices<'a>>,
    pub(super) lengths: Option<&'b Arc<[u32]>>,
    pub(super) known: Option<&'b Known>,
}

impl Problem {
    /// Checks that the views fit together.
    pub(super) fn new<T: HalfElement, C: LatentElement<T>>(
        options: &Options,
        of: &Arguments<'_, '_, T, C>,
    ) -> Result<Self> {
        let Arguments { q, o, lse, .. } = *of;
        let &[batch, positions, heads, d] = q.shape() else {
            let allowed = "of 4 dimensions: batch, positions, heads, columns";
            return wrong("q", of_shape(q.shape()), allowed);
        };
        let Some(&[_, dv]) = COLUMNS.iter().find(|columns| columns[0] == d) else {
            return wrong("q", of_shape(q.shape()), "of 576 or 320 columns");
        };
        let codes = C::DTYPE != T::DTYPE;
        if codes && d != LATENT + ROTARY {
            let allowed = format!("of {} columns, with a cache of u8", LATENT + ROTARY);
            return wrong("q", of_shape(q.shape()), allowed);
        }
        let rows =
            [batch, positions, heads].into_iter().try_fold(1usize, |all, size| all.checked_mul(size.max(1)));
        if rows.is_none_or(|rows| rows > MAX_ROWS) || batch > MAX_GRID || heads > MAX_GRID {
            let allowed =
                format!("of at most {MAX_GRID} sequences and heads, and of at most {MAX_ROWS} rows");
            return wrong("q", of_shape(q.shape()), allowed);
        }
        if o.shape() != [batch, positions, heads, dv] {
            let allowed =
                format!("of shape {:?}: that of `q` with {dv} columns", [batch, positions, heads, dv]);
            return wrong("o", of_shape(o.shape()), allowed);
        }
        if let Some(lse) = lse
            && lse.shape() != [batch, positions, heads]
        {
            let allowed = format!("of shape {:?}: that of `q` without columns", [batch, positions, heads]);
            return wrong("lse", of_shape(lse.shape()), allowed);
        }
        of.check()?;
        let scale = scale(options.scale, d)?;
        if let Some(splits) = options.splits.filter(|splits| !(1..=MAX_SPLITS).contains(splits)) {
            return wrong("splits", splits.to_string(), format!("from 1 to {MAX_SPLITS}"));
        }
        let positions_of = Positions::new(positions, heads, options.causal);
        let merged = batch.saturating_mul(positions_of.times());
        if let Some(splits) = options.splits.filter(|&splits| splits > 1 && merged > MAX_GRID) {
            let allowed =
                format!("1 for more than {MAX_GRID} sequences or tiles of positions, here {merged}");
            return wrong("splits", splits.to_string(), allowed);
        }
        let rows = heads * positions;
        let o_rows = by_row("o", o.untyped(), &[batch, rows, dv])?;
        let lse = match lse {
            None => {
                let layout = o_rows.layout.narrow(1, 0, 0)?.0.narrow(2, 0, 1)?.0;
                Untyped { address: o.address(), dtype: DType::F32, layout }
            }
            Some(lse) => {
                let lse = by_row("lse", lse.untyped(), &[batch, rows])?;
                Untyped { layout: lse.layout.insert(2)?, ..lse }
            }
        };
        let (device, q) = (o.device(), by_row("q", q.untyped(), &[batch, rows, d])?);
        let table = of.table.map(Indices::untyped);
        let cache = Cache::new(of.cache, (batch, d, codes), &table, of.lengths, of.known)?;
        Ok(Problem {
            device: device.clone(),
            operands: [operand(device, "q", &q)?, operand(device, "cache", &cache.pool)?],
            q,
            o: o_rows,
            lse,
            cache,
            batch,
            heads: heads as u32,
            positions: positions_of,
            rows: rows as u32,
            columns: [d as u32, dv as u32],
            splits: options.splits.map(|splits| splits as u32),
            scale,
            element: T::DTYPE.name(),
        })
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let mut placed = self.clone();
        for tensor in [&mut placed.q, &mut placed.o, &mut placed.lse, &mut placed.cache.pool] {
            *tensor = places.of(tensor);
        }
        placed.cache.table = self.cache.table.map(|table| places.of(table));
        placed
    }

    /// Rows that are taken together, and their tiles.
    pub(super) fn together(&self) -> u32 {
        self.heads * self.positions.each
    }
    pub(super) fn tiles(&self) -> u32 {
        self.together().div_ceil(ROWS)
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        self.batch == 0 || self.rows == 0
    }
}

impl<T: Element, C: Element> Arguments<'_, '_, T, C> {
    /// Checks that all tensors lie on one device, and what is written apart from the others.
    fn check(&self) -> Result<()> {
        let Arguments { q, cache, o, lse, table, .. } = *self;
        check(o.device(), named(q, cache, o, lse, table.device()).into_iter().flatten())
    }
}

/// With the heads of all positions as rows of one matrix.
fn by_row(name: &'static str, tensor: Untyped, shape: &[usize]) -> Result<Untyped> {
    match tensor.layout.reshape(shape) {
        Ok(layout) => Ok(Untyped { layout, ..tensor }),
        Err(_) => {
            let was = format!("of strides {:?}", tensor.layout.strides());
            wrong(name, was, "such that the heads of one position after the other are evenly spaced")
        }
    }
}

/// A tensor as kernels read it: all of them want its lines aligned, if it has any.
pub(super) fn operand(device: &Device, name: &'static str, tensor: &Untyped) -> Result<Operand> {
    let reading = tensor.reading(device.backend(), true)?;
    if reading.align < PIECE && tensor.layout.len() > 0 {
        let at = of_address(tensor.address);
        let was = format!("at {at}, of strides {:?} by rows", tensor.layout.strides());
        return wrong(name, was, "of contiguous columns, in lines aligned to 16 bytes");
    }
    let line = tensor.layout.shape().last().copied().unwrap_or(0);
    Ok(Operand { name, reading, row_major: true, line })
}

/// An error about an argument.
pub(super) fn wrong<T>(name: &'static str, was: impl Into<String>, allowed: impl Into<String>) -> Result<T> {
    Err(Error::argument(name, was.into(), allowed.into()))
}
