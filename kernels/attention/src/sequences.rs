//! Where the queries and keys of a sequence lie.

use core::iter::{self, Empty};

use crate::keys::{Blocks, Keys};
use crate::listed::Listed;
use crate::order::{QueryTile, TileOrder};
use crate::queue::{PackedTiles, SequenceList};
use crate::walk::Walk;
use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::tile::{
    Element, Global, HandsOut, InPlace, PageTable, PagedTile, RowMajor, TileQueue, TileSlots,
};

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
    /// Whether keys may lie in a cache.
    const CACHED: bool = false;
    /// Whether CTAs take tiles from a [queue](Self::Queue): where it is not known beforehand how long a tile takes.
    const QUEUED: bool = Self::PACKED;
    /// Whether lists say which blocks of keys queries see.
    const LISTED: bool = false;

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

    /// A walk over blocks of `BN` keys.
    type Walk<const BN: usize>: Walk;

    /// That of a tile of `BM` queries, which see such keys.
    fn walk<const BM: usize, const BN: usize>(&self, tile: QueryTile, seen: Blocks) -> Self::Walk<BN>;
}

/// Sequences, however they lie.
#[derive(Clone, Copy, Debug)]
pub enum AnySequences {
    /// See [`Equal`].
    Equal(Keys),
    /// See [`Packed`].
    Packed(Packed),
    /// See [`Listed`].
    Listed(Listed),
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
            _ => None,
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

    type Walk<const BN: usize> = Blocks;

    #[inline(always)]
    fn walk<const BM: usize, const BN: usize>(&self, _: QueryTile, seen: Blocks) -> Blocks {
        seen
    }
}

/// Sequences one after the other in the rows of one matrix: queries and keys, or queries over a cache of keys.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    /// Address of where each sequence's queries begin and the last one's end, `i32` in the low bytes of each.
    pub query_offsets: u64,
    /// Address of the same for keys; in a cache of each sequence's number of keys.
    pub keys: u64,
    /// What numbers of queries and of keys are cut off at: all there are, in a cache those of a sequence that there is room for.
    pub all: [u32; 2],
    /// Keys that a query sees before its own; `i32::MAX` is no limit.
    pub left: i32,
    /// Keys that a query sees behind its own; `i32::MAX` is no limit.
    pub right: i32,
    /// The logarithm to base 2 of the bytes from one of the numbers to the next: of queries, and of keys.
    pub log2_bytes: [u32; 2],
    /// 1 where keys have offsets, 0 where they lie in a cache, whose pages [`CachedKeys`] has.
    pub offset_keys: u32,
    /// What numbers of keys are raised to: 0, or as many as there is room for where all sequences have so many.
    pub fewest_keys: u32,
}

impl Packed {
    /// No sequences.
    pub const NONE: Self = Packed {
        query_offsets: 0,
        keys: 0,
        all: [0; 2],
        left: 0,
        right: 0,
        log2_bytes: [0; 2],
        offset_keys: 0,
        fewest_keys: 0,
    };

    /// Number `i` of those at `at`, from `fewest` to `most`.
    ///
    /// # Safety
    /// There are so many.
    #[inline(always)]
    unsafe fn number(at: u64, log2_bytes: u32, i: u32, [fewest, most]: [u32; 2]) -> u32 {
        let at = at + ((i as u64) << log2_bytes);
        // SAFETY: the caller's.
        let number = unsafe { global::ld_global_u32(at as *const u32) }.cast_signed();
        number.max(fewest.cast_signed()).cast_unsigned().min(most)
    }

    /// Sequence `i`, given the logarithm of the bytes between numbers of keys, whether these are offsets, and what they are raised to.
    ///
    /// Without a branch: kernels read it again wherever they need it.
    #[inline(always)]
    fn sequence(&self, i: u32, [of_keys, offset_keys, fewest_keys]: [u32; 3]) -> Sequence {
        let (of_queries, [queries, keys]) = (self.log2_bytes[0], self.all.map(|all| [0, all]));
        let at_least = [fewest_keys, self.all[1]];
        // SAFETY: the host passes an offset more than there are sequences, or as many lengths as sequences.
        let [first_query, end_of_queries, first_key, end_of_keys] = unsafe {
            [
                Self::number(self.query_offsets, of_queries, i, queries),
                Self::number(self.query_offsets, of_queries, i + 1, queries),
                Self::number(self.keys, of_keys, i, keys) * offset_keys,
                Self::number(self.keys, of_keys, i + offset_keys, at_least),
            ]
        };
        let queries = end_of_queries.saturating_sub(first_query);
        let keys = end_of_keys.saturating_sub(first_key);
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

impl Sequences for Packed {
    const PACKED: bool = true;

    fn of(sequences: AnySequences) -> Option<Self> {
        match sequences {
            AnySequences::Packed(packed) => Some(packed),
            _ => None,
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
        self.sequence(i, [self.log2_bytes[0], 1, 0])
    }

    type Walk<const BN: usize> = Blocks;

    #[inline(always)]
    fn walk<const BM: usize, const BN: usize>(&self, _: QueryTile, seen: Blocks) -> Blocks {
        seen
    }
}

/// Sequences one after the other, whose keys may lie in a cache.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct InCache(pub Packed);

impl Sequences for InCache {
    const PACKED: bool = true;
    const CACHED: bool = true;

    fn of(sequences: AnySequences) -> Option<Self> {
        Packed::of(sequences).map(InCache)
    }

    type Queue<P: HandsOut> = TileQueue<P, PackedTiles>;

    #[inline(always)]
    fn queue<P: HandsOut>(
        slots: TileSlots<P>,
        order: InPlace<TileOrder>,
        list: InPlace<SequenceList>,
    ) -> TileQueue<P, PackedTiles> {
        Packed::queue(slots, order, list)
    }

    #[inline(always)]
    fn get(&self, i: u32) -> Sequence {
        let Packed { log2_bytes, offset_keys, fewest_keys, .. } = self.0;
        self.0.sequence(i, [log2_bytes[1], offset_keys, fewest_keys])
    }

    type Walk<const BN: usize> = Blocks;

    #[inline(always)]
    fn walk<const BM: usize, const BN: usize>(&self, _: QueryTile, seen: Blocks) -> Blocks {
        seen
    }
}

/// The cache that packed sequences may have their keys and values in. Loads read it where it lies: there are no registers for it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CachedKeys {
    /// Which pages are whose.
    pub pages: PageTable,
    /// 1 where there is a cache, else 0.
    pub given: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl CachedKeys {
    /// No cache.
    pub const NONE: Self = CachedKeys { pages: PageTable::NONE, given: 0, padding: 0 };

    /// Tile `index` of a sequence's keys or values, of which there are `count`, and of their columns tile `column`: in the cache, or in the rows of matrix 0
    /// from `first` on.
    #[inline(always)]
    pub fn tile<T: Element, const BOX: usize>(
        &self,
        of: Global<T, 4, RowMajor, BOX>,
        [sequence, head, index, column]: [u32; 4],
        [first, count]: [u32; 2],
    ) -> PagedTile<T, BOX> {
        of.paged(self.pages, [sequence * self.given, head, index], count).of_columns(column).or_rows(first)
    }
}

impl PassedAsIs for CachedKeys {}

impl PassedAsIs for Equal {}
impl PassedAsIs for Packed {}
impl PassedAsIs for InCache {}
