//! Where the queries and keys of a sequence lie.

use core::iter::{self, Empty};

use super::Keys;
use crate::order::{QueryTile, TileOrder};
use crate::queue::{PackedTiles, SequenceList};
use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::tile::{HandsOut, InPlace, TileQueue, TileSlots};

/// A sequence's rows of Q and O, and of K and V.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Which of the tensors' matrices they are in.
    pub batch: u32,
    /// The first row of Q and O.
    pub first_query: u32,
    /// Rows of Q and O, `u32::MAX` where they end with the matrix.
    pub queries: u32,
    /// The first row of K and V.
    pub first_key: u32,
    /// Which keys its queries see.
    pub keys: Keys,
}

/// How sequences lie in tensors.
pub trait Sequences: PassedAsIs {
    /// Whether other rows follow a sequence's last.
    const PACKED: bool;

    /// `sequences`, if they are of this kind.
    fn of(sequences: AnySequences) -> Option<Self>;

    /// Sequence `i`.
    fn get(&self, i: u32) -> Sequence;

    /// A queue of their tiles.
    type Queue<P: HandsOut>: Iterator<Item = QueryTile>;

    /// That of this CTA, of the list if there is one, or else of the order.
    fn queue<P: HandsOut>(
        slots: TileSlots<P>,
        order: InPlace<TileOrder>,
        list: InPlace<SequenceList>,
    ) -> Self::Queue<P>;
}

/// Sequences, however they lie.
#[derive(Clone, Copy, Debug)]
pub enum AnySequences {
    /// See [`Equal`].
    Equal(Keys),
    /// See [`Packed`].
    Packed(Packed),
}

/// Sequences of one length, each a matrix of its own.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Equal(pub Keys);

impl Sequences for Equal {
    const PACKED: bool = false;

    fn of(sequences: AnySequences) -> Option<Self> {
        match sequences {
            AnySequences::Equal(keys) => Some(Equal(keys)),
            AnySequences::Packed(_) => None,
        }
    }

    /// None: every tile takes as long, or its time is known beforehand.
    type Queue<P: HandsOut> = Empty<QueryTile>;

    #[inline(always)]
    fn queue<P: HandsOut>(
        _: TileSlots<P>,
        _: InPlace<TileOrder>,
        _: InPlace<SequenceList>,
    ) -> Empty<QueryTile> {
        iter::empty()
    }

    #[inline(always)]
    fn get(&self, i: u32) -> Sequence {
        Sequence { batch: i, first_query: 0, queries: u32::MAX, first_key: 0, keys: self.0 }
    }
}

/// Sequences one after the other in the rows of one matrix.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    /// Address of where each sequence's queries begin and the last one's end, `i32` in the low bytes of each.
    pub query_offsets: u64,
    /// The same for keys.
    pub key_offsets: u64,
    /// All queries and keys: what offsets are cut off at.
    pub all: [u32; 2],
    /// Keys that a query sees before its own; `i32::MAX` is no limit.
    pub left: i32,
    /// Keys that a query sees behind its own; `i32::MAX` is no limit.
    pub right: i32,
    /// The logarithm to base 2 of the bytes from one offset to the next.
    pub log2_bytes: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl Packed {
    /// Where a sequence begins, and its length.
    #[inline(always)]
    fn range(&self, offsets: u64, i: u32, all: u32) -> (u32, u32) {
        let at = |i: u32| {
            let at = offsets + ((i as u64) << self.log2_bytes);
            // SAFETY: the host passes an offset more than there are sequences.
            (unsafe { global::ld_global_u32(at as *const u32) } as i32).max(0).cast_unsigned().min(all)
        };
        let first = at(i);
        (first, at(i + 1).saturating_sub(first))
    }
}

impl Sequences for Packed {
    const PACKED: bool = true;

    fn of(sequences: AnySequences) -> Option<Self> {
        match sequences {
            AnySequences::Equal(_) => None,
            AnySequences::Packed(packed) => Some(packed),
        }
    }

    type Queue<P: HandsOut> = TileQueue<P, PackedTiles>;

    #[inline(always)]
    fn queue<P: HandsOut>(
        slots: TileSlots<P>,
        order: InPlace<TileOrder>,
        list: InPlace<SequenceList>,
    ) -> TileQueue<P, PackedTiles> {
        slots.queue(list.get().numbers(), PackedTiles::new(order, list))
    }

    #[inline(always)]
    fn get(&self, i: u32) -> Sequence {
        let (first_query, queries) = self.range(self.query_offsets, i, self.all[0]);
        let (first_key, keys) = self.range(self.key_offsets, i, self.all[1]);
        let own = keys as i32 - queries as i32;
        let keys = Keys {
            count: keys as i32,
            low: own.saturating_sub(self.left),
            high: own.saturating_add(self.right),
            own,
        };
        Sequence { batch: 0, first_query, queries, first_key, keys }
    }
}

impl PassedAsIs for Equal {}
impl PassedAsIs for Packed {}
