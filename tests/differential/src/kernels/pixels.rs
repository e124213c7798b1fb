//! Pixels of images: `cp.async.bulk.tensor` in im2col mode.

use tilewright_emulator::{DataType, Fill, Im2col, Swizzle, TensorMap};

use super::Kernel;
use super::tensors::{load, tensor};
use crate::random::Random;

pub(super) fn kernels() -> Vec<Kernel> {
    let mut random = Random::new(17);
    all().iter().map(|copy| load(copy.map, &copy.at, &copy.offsets, &mut random)).collect()
}

/// A load of pixels.
struct Copy {
    map: TensorMap,
    at: Vec<i32>,
    offsets: Vec<u16>,
}

/// Corners that a filter of three taps has with a zero at both sides, without zeros, with more of them than it reaches, and with none before but
/// some behind.
const CORNERS: [[i16; 2]; 4] = [[-1, -1], [0, -2], [-3, 1], [0, 2]];

fn all() -> Vec<Copy> {
    let mut copies = Vec::new();
    let (none, f16) = (Swizzle::None, DataType::F16);
    for rank in 3..=5 {
        for [lower, upper] in CORNERS {
            for steps in [[1; 3], [2, 1, 1], [3, 2, 2]] {
                let walk = Walk { corners: [[lower; 3], [upper; 3]], steps, pixels: 40 };
                walk.loads(tensor(f16, rank, Swizzle::B128, false), &mut copies);
            }
        }
        // Of each dimension others, in all layouts.
        let walk = Walk { corners: [[-2, 0, -1], [0, -1, 1]], steps: [1, 2, 1], pixels: 25 };
        for swizzle in [none, Swizzle::B32, Swizzle::B64] {
            walk.loads(tensor(f16, rank, swizzle, false), &mut copies);
        }
        let nan = TensorMap { fill: Fill::Nan, ..tensor(DataType::Bf16, rank, Swizzle::B64, false) };
        walk.loads(nan, &mut copies);
    }
    let walk = Walk { corners: [[-1; 3], [-1; 3]], steps: [1; 3], pixels: 200 };
    for data in [DataType::U8, DataType::F32] {
        walk.loads(tensor(data, 4, Swizzle::B128, false), &mut copies);
    }
    copies
}

/// How copies go over a tensor's dimensions of pixels.
struct Walk {
    corners: [[i16; 3]; 2],
    steps: [u32; 3],
    pixels: u32,
}

impl Walk {
    /// Loads at the first pixel and some others, with offsets of a filter's taps: into the image and out of it.
    fn loads(&self, tensor: TensorMap, copies: &mut Vec<Copy>) {
        let (spatial, [width, height, depth]) = (tensor.rank - 2, self.steps);
        let mut used = self.corners;
        used.iter_mut().for_each(|corner| corner[spatial..].fill(0));
        let [lower, upper] = used;
        let im2col = Im2col { lower, upper };
        let mut map = TensorMap { steps: [1, width, height, depth, 1], im2col: Some(im2col), ..tensor };
        map.steps[tensor.rank - 1..].fill(1);
        map.tile[1..].fill(1);
        map.tile[1] = self.pixels;
        let piece = 16 / map.data.bytes() as i32;
        let last_channels = (map.shape[0] as i32 - 1) / piece * piece;
        let images = map.shape[map.rank - 1] as i32;
        // Fractions of the way from the first pixel to the last, in every dimension; channel; image; a tap.
        for (part, channel, image, tap) in [
            (0, 0, 0, 0),
            (1, piece, 0, 1),
            (2, last_channels, images - 1, 2),
            (2, 0, 0, 5),
            (1, 0, images, 1),
        ] {
            let mut at = vec![channel];
            at.extend((0..spatial).map(|i| {
                let steps = counted(&map, i) as i32 - 1;
                i32::from(lower[i]) + steps * part / 2 * map.steps[i + 1] as i32
            }));
            at.push(image);
            // Not the same in all dimensions.
            let offsets = (0..spatial).map(|i| (tap + i as u16) % 6 * u16::from(tap > 0)).collect();
            copies.push(Copy { map, at, offsets });
        }
    }
}

/// Pixels between the corners in the `i`th of their dimensions, every so manieth.
fn counted(map: &TensorMap, i: usize) -> u32 {
    let corners = map.im2col.map_or((0, 0), |im2col| (im2col.lower[i], im2col.upper[i]));
    let last = map.shape[i + 1] as i32 - 1 + i32::from(corners.1);
    (last - i32::from(corners.0)) as u32 / map.steps[i + 1] + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Argument;
    use crate::emulated;
    use crate::kernels::{PER_MODULE, module};

    /// What the copy writes to shared memory: pixels counted from the first one by numbers, each found by divisions.
    fn model(copy: &Copy, tensor: &[u8]) -> Vec<u8> {
        let Copy { map, at, offsets } = copy;
        let (size, channels, spatial) = (map.data.bytes(), map.tile[0] as usize, map.rank - 2);
        let lower = map.im2col.expect("it copies pixels").lower;
        let first = (0..spatial).rev().fold(at[map.rank - 1] as i64, |number, i| {
            let steps = (at[i + 1] - i32::from(lower[i])) / map.steps[i + 1] as i32;
            number * i64::from(counted(map, i)) + i64::from(steps)
        });
        let outside = match (map.fill, map.data) {
            (Fill::Zero, _) => vec![0; size],
            // That of an H200.
            (_, DataType::Bf16) => 0x7ff7u16.to_le_bytes().to_vec(),
            (_, data) => unreachable!("{data:?} is not filled with NaN here"),
        };
        let mut all = vec![0; map.tile[1] as usize * channels * size];
        for pixel in 0..map.tile[1] as usize {
            let mut number = first + pixel as i64;
            let mut place = vec![0; map.rank];
            for i in 0..spatial {
                let count = i64::from(counted(map, i));
                place[i + 1] = i64::from(lower[i])
                    + number % count * i64::from(map.steps[i + 1])
                    + i64::from(offsets[i]);
                number /= count;
            }
            place[map.rank - 1] = number;
            for channel in 0..channels {
                place[0] = i64::from(at[0]) + channel as i64;
                let inside =
                    place.iter().zip(&map.shape).all(|(&at, &extent)| (0..extent as i64).contains(&at));
                let strides = std::iter::once(size as u64).chain(map.strides);
                let from: i64 = place.iter().zip(strides).map(|(&at, stride)| at * stride as i64).sum();
                let element = if inside { &tensor[from as usize..][..size] } else { &outside };
                let to = (pixel * channels + channel) * size;
                // Pieces of 16 bytes change places by their line of 128.
                let bits = match map.swizzle {
                    Swizzle::None => 0,
                    Swizzle::B32 => to >> 7 & 1,
                    Swizzle::B64 => to >> 7 & 3,
                    Swizzle::B128 => to >> 7 & 7,
                };
                all[to ^ bits << 4..][..size].copy_from_slice(element);
            }
        }
        all
    }

    #[test]
    fn pixels_are_those_of_a_plain_model() {
        let (copies, kernels) = (all(), kernels());
        let mut outside = 0;
        for (copies, kernels) in copies.chunks(PER_MODULE).zip(kernels.chunks(PER_MODULE)) {
            let group = module(kernels);
            for ((copy, case), result) in copies.iter().zip(&group.cases).zip(emulated::run(&group)) {
                let result = result.unwrap_or_else(|error| panic!("{}: {error}", case.name));
                let [_, Argument::Memory(tensor), Argument::Memory(input), _] = case.arguments.as_slice()
                else {
                    panic!("{}: other arguments", case.name);
                };
                let expected = model(copy, tensor);
                let output = &result[tensor.len() + input.len()..];
                assert!(output[..expected.len()] == expected, "{}", case.name);
                assert!(output[expected.len()..].iter().all(|&byte| byte == 0xa5), "{}: more", case.name);
                outside += usize::from(expected.windows(32).any(|bytes| bytes == [0; 32]));
            }
        }
        assert!(copies.len() > 200 && outside > 100, "{} copies, {outside} of them outside", copies.len());
    }
}
