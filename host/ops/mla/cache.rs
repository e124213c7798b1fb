//! The latent cache: where the keys of each sequence lie, and how many they are.

use std::sync::Arc;

use tilewright_device::tile::PageTable;
use tilewright_mla::RECORD;

use super::problem::wrong;
use crate::ops::frame::of_shape;
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{Element, Result, TensorView};

/// The fewest rows of a page of 16-bit elements.
const PAGE_ROWS: usize = 16;
/// Columns of a plane: those of a TMA box.
const PLANE: usize = 64;

/// The pages of sequences, as the caller names them.
#[derive(Clone, Debug, Default)]
pub(super) enum Table<V> {
    /// Each sequence is a page of its own.
    #[default]
    None,
    /// Numbers of pages on the device, \[batch, pages of a sequence\].
    Device(V),
    /// The same on the host, row-major.
    Host(Arc<[i32]>),
}

impl<V> Table<V> {
    /// With what `of` makes of the table on the device.
    pub(super) fn map<W>(&self, of: impl FnOnce(&V) -> W) -> Table<W> {
        match self {
            Table::None => Table::None,
            Table::Device(table) => Table::Device(of(table)),
            Table::Host(table) => Table::Host(table.clone()),
        }
    }
    /// The table on the device, if that is where it is.
    pub(super) fn device(&self) -> Option<&V> {
        match self {
            Table::Device(table) => Some(table),
            _ => None,
        }
    }
}

/// A cache that fits its sequences.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// \[pages, columns / 64, rows of a page, 64\]; of records \[pages, 1, rows of a page, 656\].
    pub(super) pool: Untyped,
    /// Whether it is of records of 8 bits.
    pub(super) codes: bool,
    pub(super) rows: usize,
    pub(super) table: Table<Untyped>,
    /// Numbers of pages of each sequence.
    pub(super) entries: u32,
    /// Keys of each sequence.
    pub(super) lengths: Arc<[u32]>,
    /// The table of the host's, if there is one.
    pub(super) known: Option<Known>,
}

/// A table of the host's whose pages exist, as far as the lengths reach: it is looked through once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    table: Arc<[i32]>,
    lengths: Arc<[u32]>,
    pages: usize,
    rows: usize,
}

impl Cache {
    /// Checks a cache \[pages or batch, rows of a page or keys, 1, columns\], of `codes` with bytes of records in place of columns, for `batch`
    /// sequences, of which each has as many keys as there is room for unless `lengths` says so. Pages that are `known` to exist are not looked
    /// at again.
    pub(super) fn new<T: Element>(
        cache: &TensorView<'_, T>,
        (batch, columns, codes): (usize, usize, bool),
        table: &Table<Untyped>,
        lengths: Option<&Arc<[u32]>>,
        known: Option<&Known>,
    ) -> Result<Self> {
        let (columns, fewest) = if codes { (RECORD, 1) } else { (columns, PAGE_ROWS) };
        let &[pages, rows, one, of] = cache.shape() else {
            let allowed = format!("of 4 dimensions: pages or batch, rows of a page or keys, 1, {columns}");
            return wrong("cache", of_shape(cache.shape()), allowed);
        };
        if one != 1 || of != columns || pages == 0 && batch > 0 || rows == 0 {
            let allowed =
                format!("of shape [pages or batch, rows of a page or keys, 1, {columns}], not empty");
            return wrong("cache", of_shape(cache.shape()), allowed);
        }
        let entries = match table {
            Table::None if pages == batch => 1,
            Table::None => {
                let allowed =
                    format!("of shape [{batch}, keys, 1, {columns}]: the batch of `q`, without a table");
                return wrong("cache", of_shape(cache.shape()), allowed);
            }
            Table::Device(table) => on_device(table, batch)?,
            Table::Host(table) if table.len().is_multiple_of(batch.max(1)) => table.len() / batch.max(1),
            Table::Host(table) => {
                let allowed = format!("as many for each of the {batch} sequences of `q`");
                return wrong("block_table", format!("{} numbers of pages", table.len()), allowed);
            }
        };
        if !matches!(table, Table::None) && (rows < fewest || !rows.is_power_of_two()) {
            let allowed = format!("of pages with a power of two of rows, from {fewest} on");
            return wrong("cache", of_shape(cache.shape()), allowed);
        }
        let room = entries.saturating_mul(rows);
        let lengths = checked(lengths, batch, room)?;
        let host = match table {
            Table::Host(table) => {
                let host = Known { table: table.clone(), lengths: lengths.clone(), pages, rows };
                if known != Some(&host) {
                    host.exists(entries)?;
                }
                Some(host)
            }
            _ => None,
        };
        let untyped = cache.untyped();
        let uneven = || wrong("cache", format!("of strides {:?}", cache.strides()), "of contiguous columns");
        let plane = if codes { RECORD } else { PLANE };
        let split = untyped.layout.select(2, 0)?.0.reshape(&[pages, rows, columns / plane, plane]);
        let Ok(layout) = split.and_then(|layout| layout.transpose(1, 2)) else { return uneven() };
        Ok(Cache {
            pool: Untyped { layout, ..untyped },
            codes,
            rows,
            table: table.clone(),
            entries: entries as u32,
            lengths,
            known: host,
        })
    }

    /// Whether every row of its sequences lies in one page.
    pub(super) fn is_dense(&self) -> bool {
        matches!(self.table, Table::None)
    }

    /// What kernels are told of the table; `uploaded` is the address of one that the host had.
    pub(super) fn pages(&self, uploaded: u64) -> PageTable {
        let (address, stride, log2_bytes) = match &self.table {
            Table::None => return PageTable::NONE,
            Table::Device(table) => (table.address, table.layout.strides()[0] as u64, log2_bytes(table)),
            Table::Host(_) => (uploaded, u64::from(self.entries), size_of::<i32>().ilog2()),
        };
        let (entries, log2_rows) = (self.entries, self.rows.ilog2());
        PageTable { address, stride, entries, log2_rows, log2_bytes, padding: 0 }
    }
}

/// Numbers of pages of each of `batch` sequences.
pub(super) fn on_device(table: &Untyped, batch: usize) -> Result<usize> {
    let allowed = format!("of shape [{batch}, pages of a sequence], of contiguous rows");
    match (table.layout.shape(), table.layout.strides()) {
        (&[of, entries], &[_, stride]) if of == batch && (entries <= 1 || stride == 1) => Ok(entries),
        (shape, strides) => {
            wrong("block_table", format!("{} and strides {strides:?}", of_shape(shape)), allowed)
        }
    }
}

/// The sequences' lengths, of which none exceeds the `room` for it.
fn checked(lengths: Option<&Arc<[u32]>>, batch: usize, room: usize) -> Result<Arc<[u32]>> {
    /// Blocks are counted in 31 bits, and their rows in 32.
    const MOST: usize = (1 << 31) - 64;
    let Some(lengths) = lengths else {
        return match u32::try_from(room) {
            Ok(room) if room as usize <= MOST => Ok(vec![room; batch].into()),
            _ => wrong("cache", format!("of {room} keys a sequence"), format!("of at most {MOST}")),
        };
    };
    if lengths.len() != batch {
        let allowed = format!("{batch}: one for each sequence of `q`");
        return wrong("lengths", format!("{} numbers", lengths.len()), allowed);
    }
    match lengths.iter().position(|&length| length as usize > room.min(MOST)) {
        None => Ok(lengths.clone()),
        Some(i) => {
            let allowed = format!("at most {}, for which there is room", room.min(MOST));
            wrong("lengths", format!("{} for sequence {i}", lengths[i]), allowed)
        }
    }
}

impl Known {
    /// Checks that the pages exist that hold the sequences' keys.
    fn exists(&self, entries: usize) -> Result<()> {
        let Known { table, lengths, pages, rows } = self;
        for (sequence, &length) in lengths.iter().enumerate() {
            let used = &table[sequence * entries..][..(length as usize).div_ceil(*rows)];
            let exists = |&page: &i32| usize::try_from(page).is_ok_and(|page| page < *pages);
            if let Some(at) = used.iter().position(|page| !exists(page)) {
                let was = format!("{} at [{sequence}, {at}]", used[at]);
                return wrong("block_table", was, format!("a number from 0 to {}", pages - 1));
            }
        }
        Ok(())
    }
}
