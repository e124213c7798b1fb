//! Tiles in global and shared memory, the arguments that name them, and what loads and exchanges them.

pub mod add_to;
pub mod copy_to;
pub mod division;
pub mod gathered;
pub mod global;
pub mod global_tile;
pub mod in_place;
pub mod list;
pub mod loader;
pub mod paged;
pub mod part;
pub mod patches;
pub mod picked;
pub mod prefetch;
pub mod row_tiles;
pub mod rows_ahead;
pub mod scratch;
pub mod shared;
pub mod strips;
pub mod unmapped;
pub mod window;
