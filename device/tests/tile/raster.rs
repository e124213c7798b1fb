//! An order takes every tile once, panel by panel, also where numbers are as large as they get.

use proptest::prelude::*;
use tilewright_device::tile::{RasterOrder, TileIndex};

/// The sizes that an order is made of.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: u32,
    m: u32,
    n: u32,
    panel: u32,
}

impl Shape {
    fn order(self) -> Option<RasterOrder> {
        RasterOrder::new(self.batch, self.m, self.n, self.panel)
    }

    /// When the tile is taken, by plain arithmetic: the inverse of `RasterOrder::tile`.
    fn turn(self, at: TileIndex) -> u64 {
        let [m, n, panel] = [self.m, self.n, self.panel.clamp(1, self.m)].map(u64::from);
        let [batch, row, column] = [at.batch, at.m, at.n].map(u64::from);
        let first = row / panel * panel;
        let rows = panel.min(m - first);
        batch * m * n + first * n + column * rows + (row - first)
    }

    /// Turn `t` takes a tile of the output, and no other turn takes it.
    fn assert_taken_at(self, order: &RasterOrder, t: u32) {
        let at = order.tile(t);
        assert!(at.batch < self.batch && at.m < self.m && at.n < self.n, "{self:?}: turn {t} takes {at:?}");
        assert_eq!(self.turn(at), u64::from(t), "{self:?}: turn {t} takes {at:?}");
    }
}

fn assert_visits_all(shape: Shape) {
    let order = shape.order().expect("few tiles");
    let total = shape.batch * shape.m * shape.n;
    assert_eq!(order.total(), total, "{shape:?}");
    (0..total).for_each(|t| shape.assert_taken_at(&order, t));
}

#[test]
fn panels_are_columns_of_their_rows() {
    let order = RasterOrder::new(1, 3, 2, 2).unwrap();
    let taken: Vec<_> = (0..6).map(|t| order.tile(t)).map(|at| (at.m, at.n)).collect();
    assert_eq!(taken, [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]);
}

#[test]
fn small_orders_take_every_tile_once() {
    for batch in 1..=2 {
        for m in 1..=9 {
            for n in 1..=9 {
                for panel in 0..=10 {
                    assert_visits_all(Shape { batch, m, n, panel });
                }
            }
        }
    }
}

#[test]
fn nothing_is_taken_of_nothing() {
    for (batch, m, n) in
        [(0, 5, 5), (5, 0, 5), (5, 5, 0), (0, 0, 0), (u32::MAX, 0, u32::MAX), (0, u32::MAX, 1)]
    {
        assert_eq!(RasterOrder::new(batch, m, n, 4).map(|order| order.total()), Some(0));
    }
}

#[test]
fn more_tiles_than_can_be_counted_are_refused() {
    assert!(RasterOrder::new(1, 1 << 16, 1 << 15, 8).is_some());
    assert!(RasterOrder::new(1, 1 << 16, (1 << 15) + 1, 8).is_none());
    assert!(RasterOrder::new(2, 1 << 16, 1 << 15, 8).is_none());
    assert!(RasterOrder::new(1, 1 << 16, 1 << 16, 8).is_none());
    assert!(RasterOrder::new(1 << 31, 2, 1, 8).is_none());
    assert!(RasterOrder::new(u32::MAX, u32::MAX, u32::MAX, u32::MAX).is_none());
}

/// Orders of up to 2^31 tiles, with a bias to the largest.
fn large() -> impl Strategy<Value = Shape> {
    let size = || prop_oneof![1u32..64, 1u32..70_000, Just(1u32), (0u32..32).prop_map(|bit| 1 << bit)];
    (size(), size(), size(), any::<u32>()).prop_filter_map("too many", |(m, n, batch, panel)| {
        let most = u64::from(RasterOrder::MAX_TILES) / (u64::from(m) * u64::from(n)).max(1);
        // As many matrices as fit, if the number drawn does not.
        let batch = batch.min(u32::try_from(most).ok()?);
        (batch > 0).then_some(Shape { batch, m, n, panel: panel >> (panel % 32) })
    })
}

proptest! {
    #[test]
    fn orders_take_every_tile_once(batch in 1u32..4, m in 1u32..70, n in 1u32..70, panel in 0u32..80) {
        assert_visits_all(Shape { batch, m, n, panel });
    }

    #[test]
    fn large_orders_take_tiles_once(shape in large(), samples in prop::collection::vec(any::<u32>(), 64)) {
        let order = shape.order().expect("at most 2^31 tiles");
        prop_assert_eq!(u64::from(order.total()), u64::from(shape.batch) * u64::from(shape.m) * u64::from(shape.n));
        for t in samples {
            shape.assert_taken_at(&order, t % order.total());
        }
        // Divisions go wrong first at the ends, and beside multiples of the divisors.
        let matrix = shape.m * shape.n;
        for t in [0, matrix - 1, matrix, order.total() - matrix, order.total() - 1] {
            if t < order.total() {
                shape.assert_taken_at(&order, t);
            }
        }
    }
}
