//! Moves what the lanes load or store together, where all of it is in bounds.

use std::ops::Range;

use crate::exec::env::Env;
use crate::exec::joint::{Joint, Shape, Where};
use crate::exec::warp::{Warp, lanes};
use crate::memory::SHARED_START;
use crate::memory::bytes::{Offsets, Sink, Source as Bytes};
use crate::program::operand::{Destination, Source};
use crate::program::register::{L32, LANES, lanes_of};
use crate::wide::twice;

twice! {
    /// Loads elements of this size; `false` if they are not all there.
    pub(super) fn load(
        warp: &mut Warp,
        env: &mut Env<'_>,
        joint: &Joint,
        to: &[Destination],
        size: u32,
        signed: bool,
    ) -> bool {
        let range = joint.range();
        match joint.space {
            _ if size > 8 => return false,
            Where::Global => match env.global.words(&range, false) {
                Some((start, words)) => fetch(warp, joint, start, words, to, size, signed),
                None => return false,
            },
            Where::Shared(cta) => match shared(&range).and_then(|range| env.ctas[cta].inside(range)) {
                Some(bytes) => fetch(warp, joint, range.start, bytes, to, size, signed),
                None => return false,
            },
            Where::Parameters => match env.launch.parameters.get(range.start as usize..range.end as usize) {
                Some(bytes) => fetch(warp, joint, range.start, bytes, to, size, signed),
                None => return false,
            },
        }
        true
    }
}

twice! {
    /// Stores elements of this size; `false` if they do not all have a place.
    pub(super) fn store(warp: &Warp, env: &mut Env<'_>, joint: &Joint, from: &[Source], size: u32) -> bool {
        let range = joint.range();
        match joint.space {
            _ if size > 8 => return false,
            Where::Global => match env.global.words(&range, true) {
                Some((start, mut words)) => put(warp, joint, start, &mut words, from, size),
                None => return false,
            },
            Where::Shared(cta) => match shared(&range).and_then(|range| env.ctas[cta].inside_mut(range)) {
                Some(bytes) => put(warp, joint, range.start, bytes, from, size),
                None => return false,
            },
            Where::Parameters => return false,
        }
        env.events += u64::from(joint.width());
        true
    }
}

/// Where the bytes are in a CTA's shared memory.
#[inline(always)]
fn shared(range: &Range<u64>) -> Option<Range<usize>> {
    let start = range.start.checked_sub(SHARED_START.into())?;
    Some(start as usize..(range.end - u64::from(SHARED_START)) as usize)
}

/// Where each lane's access begins behind `start`.
#[inline(always)]
fn offsets(joint: &Joint, start: u64) -> Offsets {
    lanes_of(|lane| (joint.at[lane] - start) as usize)
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
    let mask = joint.mask;
    if joint.shape == Shape::Same {
        let mut at = (joint.at[0] - start) as usize;
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
        return;
    }
    let mut at = offsets(joint, start);
    let row = mask == u32::MAX && joint.shape == Shape::Row && to.len() == 1;
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
            let mut values = match (row, size) {
                (true, 4) => bytes.words(at[0]),
                (true, 2) => bytes.halves(at[0]),
                _ => bytes.elements(&at, size),
            };
            if signed && size < 4 {
                values = extended(&values, 32 - 8 * size);
            }
            match to {
                Destination::R(register, bits) if bits < 32 => {
                    warp.put_r(register, mask, &lanes_of(|lane| values[lane] & low(bits)));
                }
                Destination::R(register, _) => warp.put_r(register, mask, &values),
                Destination::D(register) if signed => {
                    warp.put_d(register, mask, &lanes_of(|lane| i64::from(values[lane] as i32) as u64));
                }
                Destination::D(register) => {
                    warp.put_d(register, mask, &lanes_of(|lane| u64::from(values[lane])))
                }
                Destination::Sink => {}
            }
        }
        at.iter_mut().for_each(|at| *at += size as usize);
    }
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
    let at = offsets(joint, start);
    let row = joint.mask == u32::MAX && joint.shape == Shape::Row;
    if let (true, 4, &[Source::R(register)]) = (row, size, from) {
        bytes.put_words(at[0], warp.r(register));
        return;
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
