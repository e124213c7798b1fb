//! Formats and modes of zeros by the names that they have in kernels' names.
#![allow(non_camel_case_types)]

use tilewright_device::tile;

pub type u4 = tile::U4;
pub type i4 = tile::I4;
pub type u2 = tile::U2;
pub type i2 = tile::I2;
pub type u1 = tile::U1;
pub type i1 = tile::I1;
pub type i8_ = tile::I8;
pub type nf4 = tile::NF4;
pub type fp4 = tile::FP4;
pub type e4m3 = tile::E4M3;
pub type e5m2 = tile::E5M2;
pub type none = tile::NoZeros;
pub type original = tile::Original;
pub type rescaled = tile::Rescaled;
