//! Operands of one lane: registers by what an instruction names, addresses, and local memory.

use std::ops::Range;

use super::Warp;
use crate::error::Reason;
use crate::memory::{Place, local_window, place};
use crate::program::operand::{Address, Base, Destination, Source, Window};
use crate::program::register::{LANES, lanes_of};
use tilewright_ptx::ast::Space;

impl Warp {
    /// Bytes as the register holds them: extended to its width.
    #[inline]
    pub(crate) fn put(&mut self, to: Destination, lane: usize, bytes: &[u8], signed: bool) {
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        let mut value = u64::from_le_bytes(value);
        let unused = 64 - 8 * bytes.len() as u32;
        if signed && unused > 0 {
            value = ((value << unused) as i64 >> unused) as u64;
        }
        match to {
            Destination::R(register, bits) => {
                let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
                self.r[register.0 as usize][lane] = value as u32 & mask;
            }
            Destination::D(register) => self.d[register.0 as usize][lane] = value,
            Destination::Sink => {}
        }
    }

    pub(crate) fn source(&self, from: Source, lane: usize) -> u64 {
        match from {
            Source::R(register) => self.r(register)[lane].into(),
            Source::D(register) => self.d(register)[lane],
        }
    }

    /// Whether these lanes have the same in a register.
    pub(crate) fn is_same(&self, from: Source, mask: u32) -> bool {
        let first = mask.trailing_zeros() as usize % LANES;
        let active = |lane: usize| mask >> lane & 1 != 0;
        match from {
            Source::R(register) => {
                let r = self.r(register);
                let differs = |lane: usize| if active(lane) { r[lane] ^ r[first] } else { 0 };
                (0..LANES).fold(0, |all, lane| all | differs(lane)) == 0
            }
            Source::D(register) => {
                let d = self.d(register);
                let differs = |lane: usize| if active(lane) { d[lane] ^ d[first] } else { 0 };
                (0..LANES).fold(0, |all, lane| all | differs(lane)) == 0
            }
        }
    }

    /// The bytes of these registers, so many of each, one after the other.
    #[inline]
    pub(crate) fn gather(&self, from: &[Source], bytes: usize, lane: usize) -> [u8; 16] {
        let mut value = [0; 16];
        for (i, &from) in from.iter().enumerate() {
            value[i * bytes..][..bytes].copy_from_slice(&self.source(from, lane).to_le_bytes()[..bytes]);
        }
        value
    }

    /// Where these bytes of its local memory are in the warp's.
    pub(crate) fn local_range(&self, lane: usize, at: u32, bytes: usize) -> Result<Range<usize>, Reason> {
        let size = self.local.len() / LANES;
        if at as usize + bytes > size {
            return Err(Reason::address(format!(
                "{bytes} bytes of local memory at {at}: the thread has {size}"
            )));
        }
        let start = lane * size + at as usize;
        Ok(start..start + bytes)
    }

    /// It is this lane's access that is wrong.
    #[cold]
    pub(crate) fn blame(&mut self, lane: usize, what: Reason) -> Reason {
        self.culprit = Some(lane as u32);
        what
    }

    /// The address of one lane.
    #[inline(always)]
    pub(crate) fn address(&self, at: Address, lane: usize) -> u64 {
        let base = match at.base {
            Base::None => 0,
            Base::R(register) => u64::from(self.r(register)[lane]),
            Base::D(register) => self.d(register)[lane],
        };
        base.wrapping_add(at.offset as u64)
    }

    /// The addresses of all lanes.
    #[inline(always)]
    pub(crate) fn addresses(&self, at: Address) -> [u64; LANES] {
        let offset = at.offset as u64;
        match at.base {
            Base::None => [offset; LANES],
            Base::R(register) => {
                let base = self.r(register);
                lanes_of(|lane| u64::from(base[lane]).wrapping_add(offset))
            }
            Base::D(register) => {
                let base = self.d(register);
                lanes_of(|lane| base[lane].wrapping_add(offset))
            }
        }
    }

    /// Where a lane's local memory begins among generic addresses.
    #[inline]
    pub(crate) fn local_window(&self, lane: usize) -> u64 {
        local_window(u64::from(self.number) + lane as u64)
    }

    /// Where a lane's address lies.
    #[inline(always)]
    pub(crate) fn place(&self, window: Window, at: Address, lane: usize) -> Place {
        let address = self.address(at, lane);
        match window {
            Window::Generic => match place(address) {
                Place::Local(at) if address - u64::from(at) != self.local_window(lane) => {
                    Place::Foreign(address)
                }
                place => place,
            },
            Window::In(Space::Global | Space::Const) => Place::Global(address),
            Window::In(Space::Shared) | Window::Cluster => Place::Shared(address as u32),
            Window::In(Space::Param) => Place::Parameters(address as u32),
            Window::In(Space::Local) => Place::Local(address as u32),
        }
    }
}
