//! The layouts as what they are: mappings that lose nothing, agree with the PTX ISA and suit the memory banks.

mod banks;
mod figures;
mod fragments;
mod packed;
mod shared;
mod swizzle;
mod table;
