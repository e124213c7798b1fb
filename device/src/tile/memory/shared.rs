//! Tiles in shared memory, in rings of stages.

use core::marker::PhantomData;

use crate::arch::declare::refuse;
use crate::arch::special::trap;
use crate::layout::{Element, Major, RowMajor, SharedLayout, Swizzle};
use crate::tile::cta::collective::Collective;
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::memory::loader::Loader;
use crate::tile::memory::part::Part;

/// The type of an `R` x `C` tile in shared memory, laid out by `L`, with the dimension that `O` names contiguous.
///
/// Leave `L` and `O` as `_`: `O` follows from the tensor that is copied in, `L` from the gemm that reads it.
pub struct Shared<T, const R: usize, const C: usize, L, O = RowMajor>(PhantomData<(T, L, O)>);

/// A tile type's extent in memory.
pub trait SharedTile {
    /// Bytes that one tile takes.
    fn bytes() -> u32;
}

impl<T: Element, const R: usize, const C: usize, L: SharedLayout, O: Major> Shared<T, R, C, L, O> {
    /// Lines along the contiguous dimension.
    pub const LINES: u32 = if O::ROW_MAJOR { R as u32 } else { C as u32 };
    /// Bytes of a line.
    pub const LINE: u32 = (if O::ROW_MAJOR { C } else { R } * T::BYTES) as u32;
    const WHOLE: () = assert!(
        L::SWIZZLE == 0 || Self::LINE % L::SWIZZLE == 0,
        "a tile's contiguous dimension must fill its swizzle: a multiple of 64 elements (of 32 or 16 where the gemm's K is)"
    );
}

impl<T: Element, const R: usize, const C: usize, L: SharedLayout> Shared<T, R, C, L> {
    /// How far from the tile's beginning its `W` columns from `FROM` on lie, which are whole swizzles: a tile by themselves.
    #[inline(always)]
    pub fn columns_at<const FROM: usize, const W: usize>() -> u32 {
        const {
            assert!(FROM + W <= C, "the columns lie in the tile");
            assert!(
                L::SWIZZLE > 0
                    && (FROM * T::BYTES).is_multiple_of(L::SWIZZLE as usize)
                    && (W * T::BYTES).is_multiple_of(L::SWIZZLE as usize),
                "parts of a tile are whole swizzles: multiples of 64 columns"
            );
        }
        L::offset(R as u32, (C * T::BYTES) as u32, 0, (FROM * T::BYTES) as u32)
    }
}

impl<T: Element, const R: usize, const C: usize, L: SharedLayout, O: Major> SharedTile
    for Shared<T, R, C, L, O>
{
    #[inline(always)]
    fn bytes() -> u32 {
        const { Self::WHOLE };
        L::size(Self::LINES, Self::LINE)
    }
}

/// `N` tiles of type `S` in shared memory, one a stage of the pipeline that its [`Stages`] became.
pub struct Ring<S, const N: usize> {
    pub(in crate::tile) base: u32,
    pub(in crate::tile) pipeline: u32,
    /// It has no memory, and no tile of it may be taken.
    pub(in crate::tile) absent: bool,
    tile: PhantomData<S>,
}

/// `N` stages of a pipeline that is to be: tiles are allocated for them, then [`Cta::pipeline`] opens it.
///
/// ```
/// # use tilewright_device::tile::*;
/// # fn kernel<P: Schedule>(mut cta: Cta<P>) {
/// let stages = cta.stages::<4>();
/// let a_s = stages.alloc::<Shared<f16, 128, 64, Swizzle<128>, RowMajor>>(&mut cta);
/// let mut pipe = cta.pipeline(stages);
/// # }
/// ```
#[must_use = "open a pipeline of these stages"]
pub struct Stages<const N: usize> {
    pub(in crate::tile) pipeline: u32,
}

impl<const N: usize> Stages<N> {
    /// A tile of type `S` in each of the stages.
    #[inline(always)]
    pub fn alloc<S: SharedTile>(&self, cta: &mut Cta<impl Collective>) -> Ring<S, N> {
        self.alloc_if(true, cta)
    }

    /// The same, if it is `wanted`: a constant, by which kernels differ. If not, it takes no memory, and the builder refuses a kernel that takes
    /// a tile of it.
    #[inline(always)]
    pub fn alloc_if<S: SharedTile>(&self, wanted: bool, cta: &mut Cta<impl Collective>) -> Ring<S, N> {
        let bytes = if wanted { S::bytes() * N as u32 } else { 0 };
        let base = cta.reserve(bytes, TILE_ALIGN);
        Ring { base, pipeline: self.pipeline, absent: !wanted, tile: PhantomData }
    }
}

/// A stage of `N` that is being filled: its tiles are write-only, and complete on its barrier.
pub struct Fill<'s, P: Loader, const N: usize> {
    pub(in crate::tile) stage: u32,
    pub(in crate::tile) pipeline: Option<u32>,
    pub(in crate::tile) ticket: P::Ticket,
    pub(in crate::tile) turn: PhantomData<&'s ()>,
}

impl<P: Loader, const N: usize> Fill<'_, P, N> {
    /// A stage to be filled.
    ///
    /// # Safety
    /// It is one of `N`, of rings that have as many, and while `'s` lasts it is this thread's or role's alone to fill; what is copied
    /// into it completes on the ticket.
    #[inline(always)]
    pub unsafe fn new(stage: u32, ticket: P::Ticket) -> Self {
        Fill { stage, pipeline: None, ticket, turn: PhantomData }
    }
}

impl<P: Loader, const N: usize> Clone for Fill<'_, P, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Loader, const N: usize> Copy for Fill<'_, P, N> {}

/// A stage of `N` that is full: its tiles are read-only, until its turn `'s` ends.
#[derive(Clone, Copy)]
pub struct Full<'s, const N: usize> {
    pub(in crate::tile) stage: u32,
    pub(in crate::tile) pipeline: Option<u32>,
    pub(in crate::tile) turn: PhantomData<&'s ()>,
}

impl<const N: usize> Full<'_, N> {
    /// A stage to be read.
    ///
    /// # Safety
    /// It is one of `N`, of rings that have as many; while `'s` lasts it is full and nobody writes to it.
    #[inline(always)]
    pub unsafe fn new(stage: u32) -> Self {
        Full { stage, pipeline: None, turn: PhantomData }
    }

    /// Whether the stage's number is odd: that of every other step through rings of an even number of stages.
    #[inline(always)]
    pub fn is_odd(&self) -> bool {
        self.stage % 2 == 1
    }
}

/// A tile of a stage that is being filled: the destination of a copy.
pub struct Dst<'s, S, P: Loader> {
    pub(in crate::tile) address: u32,
    pub(in crate::tile) ticket: P::Ticket,
    pub(in crate::tile) tile: PhantomData<(&'s (), S)>,
}

impl<S, P: Loader> Dst<'_, S, P> {
    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> u32 {
        self.address
    }
    /// What a copy to it completes on.
    #[inline(always)]
    pub fn ticket(&self) -> P::Ticket {
        self.ticket
    }
}

impl<'s, T: Element, L: SharedLayout, P: Loader, const R: usize, const C: usize>
    Dst<'s, Shared<T, R, C, L>, P>
{
    /// The `index`-th `H` rows of a tile whose lines are as long as its swizzle spans, as a tile: what is copied there is a part of
    /// the stage's. Traps where there are none.
    #[inline(always)]
    pub fn rows<const H: usize>(self, index: u32) -> Dst<'s, Shared<T, H, C, L>, P> {
        const {
            assert!(C * T::BYTES == L::SWIZZLE as usize, "rows are a tile where a line is one swizzle long");
            assert!(H.is_multiple_of(8) && R.is_multiple_of(H), "they hold whole patterns of the swizzle");
        }
        if index >= (R / H) as u32 {
            trap();
        }
        let address = self.address + index * (H * C * T::BYTES) as u32;
        Dst { address, ticket: self.ticket, tile: PhantomData }
    }
}

/// A tile of a stage that is full: an operand.
pub struct Src<'s, S> {
    pub(in crate::tile) address: u32,
    pub(in crate::tile) tile: PhantomData<(&'s (), S)>,
}

impl<S> Clone for Src<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Src<'_, S> {}

/// The same memory read as its transpose.
pub struct Transposed<'s, S>(pub(in crate::tile) Src<'s, S>);

impl<'s, S> Src<'s, S> {
    /// The tile at an address of shared memory.
    ///
    /// # Safety
    /// It is a tile of type `S`, aligned to [`TILE_ALIGN`] or a part of one that is; nobody writes to it while `'s` lasts.
    #[inline(always)]
    pub unsafe fn from_address(address: u32) -> Self {
        Src { address, tile: PhantomData }
    }
    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> u32 {
        self.address
    }
    /// The tile read as its transpose: no data moves.
    #[inline(always)]
    pub fn t(self) -> Transposed<'s, S> {
        Transposed(self)
    }
}

impl<'s, T: Element, L: SharedLayout, const R: usize, const C: usize> Src<'s, Shared<T, R, C, L>> {
    /// The `W` columns from `FROM` on, as a tile: another view of the same memory.
    #[inline(always)]
    pub fn columns<const FROM: usize, const W: usize>(&self) -> Src<'s, Shared<T, R, W, L>> {
        Src { address: self.address + Shared::<T, R, C, L>::columns_at::<FROM, W>(), tile: PhantomData }
    }

    /// The same tile, for gemms whose descriptors cost time.
    ///
    /// Tiles begin at multiples of 1024 below 2^18. Said again, because descriptors of a gemm's steps then differ from each other in bits that are
    /// zero here.
    #[inline(always)]
    pub fn aligned(self) -> Self {
        const { assert!(R.is_multiple_of(8) && L::SWIZZLE == 128, "a tile holds whole patterns of the swizzle") };
        Src { address: self.address & 0x3fc00, ..self }
    }

    /// The `index`-th `W` columns, as a tile. Traps where there are none.
    #[inline(always)]
    pub fn part<const W: usize>(&self, index: u32) -> Src<'s, Shared<T, R, W, L>> {
        if index >= (C / W) as u32 {
            trap();
        }
        let first = Shared::<T, R, C, L>::columns_at::<0, W>();
        // Columns of whole swizzles are as far apart as they are large.
        Src { address: self.address + first + index * (R * W * T::BYTES) as u32, tile: PhantomData }
    }
}

impl<'s, T: Element, const R: usize, const C: usize> Src<'s, Shared<T, R, C, Swizzle<128>>> {
    /// The `index`-th `H` rows of a tile whose lines are as long as its swizzle spans, as a tile. Traps where there are none.
    #[inline(always)]
    pub fn rows<const H: usize>(self, index: u32) -> Src<'s, Shared<T, H, C, Swizzle<128>>> {
        const {
            assert!(C * T::BYTES == 128, "rows are a tile where a line is one swizzle long");
            assert!(H.is_multiple_of(8) && R.is_multiple_of(H), "they hold whole patterns of the swizzle");
        }
        if index >= (R / H) as u32 {
            trap();
        }
        Src { address: self.address + index * H as u32 * 128, tile: PhantomData }
    }

    /// That of the tile's parts of `P` columns, as many as its swizzle spans: as [`part`](Self::part), for gemms whose
    /// descriptors cost time.
    #[inline(always)]
    pub fn span<const P: usize>(self, part: Part) -> Src<'s, Shared<T, R, P, Swizzle<128>>> {
        part.expect((C / P) as u32);
        const { assert!(P * T::BYTES == 128 && C.is_multiple_of(P), "a part is a column of the swizzle") };
        // Tiles begin at multiples of 1024 below 2^18, and so do parts of whole patterns of the swizzle. Said again, because
        // descriptors of a gemm's steps then differ from each other in bits that are zero here.
        const { assert!(R.is_multiple_of(8), "a part holds whole patterns of the swizzle") };
        Src { address: (self.address + part.index() * R as u32 * 128) & 0x3fc00, tile: PhantomData }
    }
}

/// A stage of a pipeline of `N`, in one of its states.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stage of a ring of {N}",
    note = "a ring has as many tiles as the pipeline that fills it has stages"
)]
pub trait Stage<const N: usize> {
    /// A tile of the stage, as its state allows.
    type View<S>;
    /// The pipeline whose stage it is, where that is known.
    #[doc(hidden)]
    #[inline(always)]
    fn pipeline(&self) -> Option<u32> {
        None
    }
    /// The tile in this stage of the ring that begins at `base` and whose tiles take so many bytes each.
    fn view<S>(self, base: u32, bytes: u32) -> Self::View<S>;
}

impl<'s, P: Loader, const N: usize> Stage<N> for Fill<'s, P, N> {
    type View<S> = Dst<'s, S, P>;
    #[inline(always)]
    fn pipeline(&self) -> Option<u32> {
        self.pipeline
    }
    #[inline(always)]
    fn view<S>(self, base: u32, bytes: u32) -> Dst<'s, S, P> {
        Dst { address: base + self.stage * bytes, ticket: self.ticket, tile: PhantomData }
    }
}

impl<'s, const N: usize> Stage<N> for Full<'s, N> {
    type View<S> = Src<'s, S>;
    #[inline(always)]
    fn pipeline(&self) -> Option<u32> {
        self.pipeline
    }
    #[inline(always)]
    fn view<S>(self, base: u32, bytes: u32) -> Src<'s, S> {
        Src { address: base + self.stage * bytes, tile: PhantomData }
    }
}

impl<S: SharedTile, const N: usize> Ring<S, N> {
    /// Where the first stage's tile begins.
    #[inline(always)]
    pub fn address(&self) -> u32 {
        self.base
    }
    /// Where the tile of a stage begins.
    #[inline(always)]
    pub(in crate::tile) fn stage(&self, stage: u32) -> u32 {
        self.base + stage * S::bytes()
    }
    /// The ring's tile in `stage`: writable while the stage is being filled, readable when it is full.
    ///
    /// The builder refuses a kernel that asks for a stage of another pipeline.
    #[inline(always)]
    pub fn at<G: Stage<N>>(&self, stage: G) -> G::View<S> {
        if self.absent {
            refuse!(
                "a tile is taken of a ring that was not allocated: `alloc_if` was told that it is not wanted"
            );
        }
        if let Some(pipeline) = stage.pipeline()
            && pipeline != self.pipeline
        {
            refuse!(
                "a ring's tile is asked for in a stage of another pipeline: it is full when its own pipeline's is"
            );
        }
        stage.view(self.base, S::bytes())
    }
}

impl<P: Collective> Cta<P> {
    /// `N` stages, for which tiles are then allocated.
    #[inline(always)]
    pub fn stages<const N: usize>(&mut self) -> Stages<N> {
        self.pipelines += 1;
        Stages { pipeline: self.pipelines - 1 }
    }
}
