//! A chunk's tiles of 64 columns.

use tilewright_device::tile::{Element, Fragment, FragmentLayout, Striped, copy};

use crate::policy::CHUNK;
use crate::preparation::{Read, Tile, Written};
use crate::work::Part;

/// A tile of 64 columns through which threads exchange what they have.
pub type Columns<T> = Tile<T, CHUNK>;
/// What a gemm of such tiles leaves.
pub type Products<Z> = Fragment<f32, CHUNK, CHUNK, Z>;
/// A tile as it is loaded.
type Loaded<T> = Fragment<T, CHUNK, CHUNK, Striped<8>>;

/// A chunk: a part of one.
#[derive(Clone, Copy)]
pub struct Chunk {
    pub part: Part,
}

impl Chunk {
    /// Where its tiles of tensors \[batch, heads, rows, columns\] are.
    #[inline(always)]
    pub fn place(&self, block: u32) -> [u32; 4] {
        [self.part.matrix, self.part.head, 0, block]
    }

    /// Its rows of a block of a tensor's columns.
    #[inline(always)]
    pub fn load<T: Element>(&self, of: &Read<T, 4>, block: u32) -> Loaded<T>
    where
        Striped<8>: FragmentLayout<CHUNK, CHUNK>,
    {
        // Two elements a register until they are stored.
        Loaded::<T>::load(of.get().tile(self.place(block)).of_rows(self.part.first, self.part.rows)).anew()
    }

    /// A block of its state, transposed: of V's columns, and of K's.
    #[inline(always)]
    pub fn state<T: Element>(&self, of: &Read<T, 4>, columns: u32, block: u32) -> Loaded<T>
    where
        Striped<8>: FragmentLayout<CHUNK, CHUNK>,
    {
        Loaded::<T>::load(of.get().tile([self.part.slot, 0, columns, block])).anew()
    }

    /// Stores its rows of a block of columns.
    #[inline(always)]
    pub fn store<T: Element, Z>(&self, x: Products<Z>, to: &Written<T, 4>, block: u32)
    where
        Z: FragmentLayout<CHUNK, CHUNK>,
    {
        copy(x.cast::<T>(), to.get().tile(self.place(block)).of_rows(self.part.first, self.part.rows))
    }

    /// Blocks of a tensor's columns.
    #[inline(always)]
    pub fn blocks<T: Element>(of: &Read<T, 4>) -> u32 {
        of.get().cols().div_ceil(CHUNK as u32)
    }
}

/// A tile as a gemm's results lie.
#[inline(always)]
pub fn in_registers<Z: FragmentLayout<CHUNK, CHUNK>, T: Element>(tile: &Columns<T>) -> Products<Z> {
    Fragment::<T, CHUNK, CHUNK, Z>::load(tile.full()).to_f32()
}
