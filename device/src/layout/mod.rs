//! Which thread and register, or which byte of shared memory, holds an element of a tile.
//!
//! Types and pure functions only. A tile's layout is a type parameter that a kernel's author leaves as
//! `_`: the operations of [`tile`](crate::tile) equate it with what the shapes, the element type and the warp policy ask
//! for, and rustc's type inference carries it through the kernel.

pub mod core_matrices;
pub mod element;
pub mod fragment;
pub mod packed;
pub mod registers;
pub mod shared;
pub mod spread;
pub mod striped;
pub mod threads;
pub mod warpgroup;

pub use core_matrices::CoreMatrices;
pub use element::{Element, F8E4M3, Sum};
pub use fragment::{FragmentLayout, FullCol, FullRow, Warpgroups, Warps, warp};
pub use packed::Packed;
pub use registers::Registers;
pub use shared::{ColMajor, Linear, Major, Padded, RowMajor, SharedLayout, Swizzle};
pub use spread::Spread;
pub use striped::Striped;
pub use threads::Threads;
pub use warpgroup::{OneWarpgroup, PerWarpgroup, Warpgroup};
