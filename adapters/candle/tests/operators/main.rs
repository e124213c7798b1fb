//! The functions of the crate on the emulator, against candle's own operators on the CPU, in f32.

mod attention;
mod buffers;
mod errors;
mod gpus;
mod linear;
mod quantized;
mod rows;
mod support;
