//! The tiles of products of groups.

use tilewright_device::tile::Groups;
use tilewright_device::tile::division::Division;

use crate::ops::frame::of_shape;
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{AnyFunction, Arch, Error, Launch, Result};

/// Lines of a TMA box.
pub(in crate::ops) const BOX: u32 = 64;
/// The most tiles that are counted.
const MOST: u64 = 1 << 31;

/// What a launch needs to know of groups and tiles.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Tiled {
    /// With numbers that are nowhere yet.
    groups: Groups,
    /// The most tiles that groups can have.
    pub(in crate::ops) tiles: u32,
}

impl Tiled {
    /// Of products whose rows are those of groups: so many `groups`, rows of each of A's matrices and columns, in tiles of `[rows, columns]`.
    pub(in crate::ops) fn by_rows(
        numbers: &Untyped,
        c: &Untyped,
        apart: bool,
        [groups, rows, n]: [usize; 3],
        [high, wide]: [u64; 2],
    ) -> Result<Self> {
        let all = (rows as u64).div_ceil(high);
        // Where groups follow each other, each one's last tile may be a part of one.
        let high = if apart { all.saturating_mul(groups as u64) } else { all + groups.min(rows) as u64 };
        Tiled::new(numbers, c, apart, [groups, rows], [high, (n as u64).div_ceil(wide)])
    }

    /// Of products whose depth is the rows of groups, each of `m` x `n`.
    pub(in crate::ops) fn by_products(
        numbers: &Untyped,
        c: &Untyped,
        apart: bool,
        [groups, rows]: [usize; 2],
        [[m, n], [high, wide]]: [[u64; 2]; 2],
    ) -> Result<Self> {
        let high = m.div_ceil(high).saturating_mul(groups as u64);
        Tiled::new(numbers, c, apart, [groups, rows], [high, n.div_ceil(wide)])
    }

    /// Of so many rows and columns of tiles, if they can be counted.
    fn new(
        numbers: &Untyped,
        c: &Untyped,
        apart: bool,
        [count, rows]: [usize; 2],
        [high, columns]: [u64; 2],
    ) -> Result<Self> {
        let (tiles, panel) = (high.saturating_mul(columns), columns.saturating_mul(Groups::PANEL.into()));
        if tiles > MOST || panel > MOST || count as u64 > u64::from(u32::MAX >> 1) {
            let allowed = format!("of at most {MOST} tiles");
            return Err(Error::argument("c", of_shape(c.layout.shape()), allowed));
        }
        let groups = Groups {
            numbers: 0,
            count: count as u32,
            rows: rows as u32,
            columns: columns as u32,
            by_panel: Division::by(panel as u32),
            log2_bytes: log2_bytes(numbers),
            apart: u32::from(apart),
        };
        Ok(Tiled { groups, tiles: tiles as u32 })
    }

    /// The kernels' argument, with the numbers where they lie.
    pub(in crate::ops) fn groups(&self, numbers: &Untyped) -> Groups {
        Groups { numbers: numbers.address, ..self.groups }
    }
}

/// A kernel with all that its launches need but memory.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Loaded<P> {
    pub(in crate::ops) function: AnyFunction,
    /// At the places of a plan.
    pub(in crate::ops) problem: P,
    pub(in crate::ops) tiled: Tiled,
    /// May start while the preceding grid still runs.
    pub(in crate::ops) overlap: bool,
}

impl<P> Loaded<P> {
    /// The grid of a kernel of this architecture: as many CTAs as run at a time, if there are tiles for them.
    pub(in crate::ops) fn grid(&self, arch: Arch) -> Launch {
        let ctas = self.function.resident_ctas().min(self.tiled.tiles).max(1);
        Launch::grid([ctas, 1, 1]).pdl(self.overlap && arch == Arch::Sm90a)
    }
}
