//! Moves what the lanes load or store together, where all of it is in bounds.

use crate::exec::env::Env;
use crate::exec::joint::{Joint, Shape, Where};
use crate::exec::warp::{Warp, lanes};
use crate::memory::SHARED_START;
use crate::memory::bytes::{Offsets, Sink, Source as Bytes};
use crate::program::operand::{Destination, Source};
use crate::program::register::{L32, LANES, R, lanes_of};

/// Loads elements of this size; `false` if they are not all there.
#[inline(always)]
pub(super) fn load(
    warp: &mut Warp,
    env: &mut Env<'_>,
    joint: &Joint,
    to: &[Destination],
    size: u32,
    signed: bool,
) -> bool {
    match joint.space {
        _ if size > 8 => return false,
        Where::Global => match env.global.words(joint.first, joint.bytes.into(), false) {
            Some((start, bytes, words)) if joint.is_inside(start, bytes) => {
                fetch(warp, joint, start, words, to, size, signed);
            }
            _ => return false,
        },
        Where::Shared(cta) => {
            let (start, bytes) = (SHARED_START.into(), env.ctas[cta].shared());
            if !joint.is_inside(start, bytes.len()) {
                return false;
            }
            fetch(warp, joint, start, bytes, to, size, signed);
        }
        Where::Parameters => {
            let bytes = env.launch.parameters;
            if !joint.is_inside(0, bytes.len()) {
                return false;
            }
            fetch(warp, joint, 0, bytes, to, size, signed);
        }
    }
    true
}

/// Stores elements of this size; `false` if they do not all have a place.
#[inline(always)]
pub(super) fn store(warp: &Warp, env: &mut Env<'_>, joint: &Joint, from: &[Source], size: u32) -> bool {
    match joint.space {
        _ if size > 8 => return false,
        Where::Global => match env.global.words(joint.first, joint.bytes.into(), true) {
            Some((start, bytes, mut words)) if joint.is_inside(start, bytes) => {
                put(warp, joint, start, &mut words, from, size);
            }
            _ => return false,
        },
        Where::Shared(cta) => {
            let (start, bytes) = (SHARED_START.into(), env.ctas[cta].shared_mut());
            if !joint.is_inside(start, bytes.len()) {
                return false;
            }
            put(warp, joint, start, bytes, from, size);
        }
        Where::Parameters => return false,
    }
    env.events += u64::from(joint.width());
    true
}

/// Where each lane's access begins behind `start`; of those that do not take part, where the first one's does.
#[inline(always)]
fn offsets(joint: &Joint, start: u64) -> Offsets {
    let first = (joint.first - start) as usize;
    match &joint.shape {
        Shape::Scattered(at) => lanes_of(|lane| (at[lane] - start) as usize),
        Shape::Same => [first; LANES],
        Shape::Row => {
            let lanes = joint.lanes();
            let behind = |lane| if lanes.contains(&lane) { lane - lanes.start } else { 0 };
            lanes_of(|lane| first + behind(lane) * joint.bytes as usize)
        }
    }
}

#[inline(always)]
fn fetch(
    warp: &mut Warp,
    joint: &Joint,
    start: u64,
    bytes: &(impl Bytes + ?Sized),
    to: &[Destination],
    size: u32,
    signed: bool,
) {
    let (mask, first) = (joint.mask, (joint.first - start) as usize);
    if let Shape::Same = joint.shape {
        return same(warp, mask, first, bytes, to, size, signed);
    }
    let row = mask == u32::MAX && matches!(joint.shape, Shape::Row) && to.len() == 1 && size < 8;
    let mut at = if row { [first; LANES] } else { offsets(joint, start) };
    for &to in to {
        if size == 8 {
            let values = bytes.doubles(&at);
            match to {
                Destination::R(register, bits) => {
                    warp.put_r(register, mask, &lanes_of(|lane| values[lane] as u32 & low(bits)));
                }
                Destination::D(register) => warp.put_d(register, mask, &values),
                Destination::Sink => {}
            }
        } else {
            let get = |values: &mut L32| match (row, size) {
                (true, 4) => bytes.words(first, values),
                (true, 2) => bytes.halves(first, values),
                (true, _) => bytes.elements(&lanes_of(|lane| first + lane), size, values),
                _ => bytes.elements(&at, size, values),
            };
            if let Destination::R(R(register), bits) = to
                && mask == u32::MAX
                && bits >= 8 * size
                && (!signed || size == 4)
            {
                // In place.
                get(&mut warp.r[register as usize]);
            } else {
                let mut values = [0; LANES];
                get(&mut values);
                put_all(warp, mask, to, &mut values, size, signed);
            }
        }
        at.iter_mut().for_each(|at| *at += size as usize);
    }
}

/// Puts elements that were extended with zeros.
#[inline(always)]
fn put_all(warp: &mut Warp, mask: u32, to: Destination, values: &mut L32, size: u32, signed: bool) {
    if signed && size < 4 {
        *values = extended(values, 32 - 8 * size);
    }
    match to {
        Destination::R(register, bits) if bits < 32 => {
            warp.put_r(register, mask, &lanes_of(|lane| values[lane] & low(bits)));
        }
        Destination::R(register, _) => warp.put_r(register, mask, values),
        Destination::D(register) if signed => {
            warp.put_d(register, mask, &lanes_of(|lane| i64::from(values[lane] as i32) as u64));
        }
        Destination::D(register) => warp.put_d(register, mask, &lanes_of(|lane| values[lane].into())),
        Destination::Sink => {}
    }
}

/// Loads the same elements, from here on, to all of these lanes.
#[inline(always)]
fn same(
    warp: &mut Warp,
    mask: u32,
    mut at: usize,
    bytes: &(impl Bytes + ?Sized),
    to: &[Destination],
    size: u32,
    signed: bool,
) {
    for &to in to {
        let value = if size == 8 { bytes.double(at) } else { bytes.element(at, size).into() };
        let unused = 64 - 8 * size;
        let value = if signed { ((value << unused) as i64 >> unused) as u64 } else { value };
        match to {
            Destination::R(register, bits) => {
                warp.put_r(register, mask, &[value as u32 & low(bits); LANES]);
            }
            Destination::D(register) => warp.put_d(register, mask, &[value; LANES]),
            Destination::Sink => {}
        }
        at += size as usize;
    }
}

/// Loads parameters at a place that the instruction names; `false` if they are not all there.
#[inline(always)]
pub(super) fn parameters(
    warp: &mut Warp,
    parameters: &[u8],
    mask: u32,
    at: i64,
    to: &[Destination],
    size: u32,
    signed: bool,
) -> bool {
    let bytes = size as usize * to.len();
    let Ok(at) = usize::try_from(at) else { return false };
    let there = size <= 8 && at.is_multiple_of(bytes) && at.saturating_add(bytes) <= parameters.len();
    if there {
        same(warp, mask, at, parameters, to, size, signed);
    }
    there
}

#[inline(always)]
fn low(bits: u32) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

/// Signed values whose upper bits are not used.
#[inline(always)]
fn extended(values: &L32, unused: u32) -> L32 {
    lanes_of(|lane| ((values[lane] << unused) as i32 >> unused) as u32)
}

#[inline(always)]
fn put(warp: &Warp, joint: &Joint, start: u64, bytes: &mut (impl Sink + ?Sized), from: &[Source], size: u32) {
    if let (u32::MAX, Shape::Row, &[Source::R(register)]) = (joint.mask, &joint.shape, from)
        && let 2 | 4 = size
    {
        let (first, values) = ((joint.first - start) as usize, warp.r(register));
        return if size == 4 { bytes.put_words(first, values) } else { bytes.put_halves(first, values) };
    }
    let at = offsets(joint, start);
    if let (u32::MAX, &[Source::R(register)]) = (joint.mask, from) {
        let values = warp.r(register);
        let done = match size {
            2 => pieces::<8>(&at, 2, &halves(values), bytes),
            4 => pieces::<4>(&at, 4, &words(values), bytes),
            _ => false,
        };
        if done {
            return;
        }
    }
    for (i, &from) in from.iter().enumerate() {
        let skip = i * size as usize;
        match from {
            Source::R(register) if size <= 4 && joint.mask == u32::MAX => {
                let values = warp.r(register);
                match size {
                    1 => (0..LANES).for_each(|lane| bytes.put(at[lane] + skip, 1, values[lane])),
                    2 => (0..LANES).for_each(|lane| bytes.put(at[lane] + skip, 2, values[lane])),
                    _ => (0..LANES).for_each(|lane| bytes.put(at[lane] + skip, 4, values[lane])),
                }
            }
            Source::R(register) if size <= 4 => {
                let values = warp.r(register);
                lanes(joint.mask).for_each(|lane| bytes.put(at[lane] + skip, size, values[lane]));
            }
            _ if size <= 4 => lanes(joint.mask)
                .for_each(|lane| bytes.put(at[lane] + skip, size, warp.source(from, lane) as u32)),
            _ => {
                lanes(joint.mask).for_each(|lane| bytes.put_double(at[lane] + skip, warp.source(from, lane)))
            }
        }
    }
}

/// Stores pieces of 16 bytes, if each so many lanes have one, as where rows are swizzled. The last lane stays, as ever.
#[inline(always)]
fn pieces<const GROUP: usize>(
    at: &Offsets,
    size: usize,
    values: &[[u8; 16]],
    bytes: &mut (impl Sink + ?Sized),
) -> bool {
    let mut away = 0;
    for group in at.as_chunks::<GROUP>().0 {
        for i in 0..GROUP {
            away |= (group[i] ^ (group[0] + i * size)) | (group[0] % 4);
        }
    }
    if away == 0 {
        for (group, value) in at.as_chunks::<GROUP>().0.iter().zip(values) {
            bytes.put_piece(group[0], value);
        }
    }
    away == 0
}

/// The low halves of all lanes, in pieces of 16 bytes.
#[inline(always)]
fn halves(values: &L32) -> [[u8; 16]; 4] {
    let mut pieces = [[0; 16]; 4];
    for (bytes, value) in pieces.as_flattened_mut().as_chunks_mut().0.iter_mut().zip(values) {
        *bytes = (*value as u16).to_le_bytes();
    }
    pieces
}

/// The words of all lanes.
#[inline(always)]
fn words(values: &L32) -> [[u8; 16]; 8] {
    let mut pieces = [[0; 16]; 8];
    for (bytes, value) in pieces.as_flattened_mut().as_chunks_mut().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
    pieces
}
