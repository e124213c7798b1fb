//! A launch that is running: how far it is, and whether it may go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::error::Reason;
use crate::limits::Limits;
use crate::program::{Image, Program};

/// Instructions of a core between two looks at the limits.
const INSTRUCTIONS: u64 = 4096;
/// Turns of warps between two looks, which may have no instruction.
const TURNS: u32 = 1024;

/// Where a launch is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) cta: [u32; 3],
    pub(crate) thread: u32,
    /// The instruction; `None` where the warp has ended.
    pub(crate) pc: Option<u32>,
}

/// A launch that is running.
#[derive(Debug)]
pub(crate) struct Running {
    image: Arc<Image>,
    index: usize,
    /// CTAs of the grid.
    pub(crate) ctas: u64,
    limits: Limits,
    pub(crate) started: Instant,
    cancelled: AtomicBool,
    instructions: AtomicU64,
    ended: AtomicU64,
    place: Mutex<Option<Place>>,
}

impl Running {
    /// The launch of the kernel of this number begins.
    pub(crate) fn new(image: &Arc<Image>, index: usize, ctas: u64, limits: Limits) -> Self {
        Self {
            image: Arc::clone(image),
            index,
            ctas,
            limits,
            started: Instant::now(),
            cancelled: AtomicBool::new(false),
            instructions: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            place: Mutex::new(None),
        }
    }

    pub(crate) fn program(&self) -> &Program {
        &self.image.programs[self.index]
    }

    /// The launch is to end.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// It runs once more, from its first cluster on.
    pub(super) fn begin_again(&self) {
        self.instructions.store(0, Relaxed);
        self.ended.store(0, Relaxed);
    }

    /// Instructions that were executed.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions.load(Relaxed)
    }

    /// CTAs that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Relaxed)
    }

    /// Where it was when somebody looked last.
    pub(crate) fn place(&self) -> Option<Place> {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many CTAs have ended.
    pub(super) fn end(&self, ctas: usize) {
        self.ended.fetch_add(ctas as u64, Relaxed);
    }

    /// Why it may not go on, if it may not.
    fn over(&self, instructions: u64) -> Option<Reason> {
        let Limits { instructions: most, time, .. } = self.limits;
        let why = if self.cancelled.load(Relaxed) {
            "the launch was cancelled".to_owned()
        } else if instructions > most {
            format!("the launch has executed more than {most} instructions (`Limits::instructions`)")
        } else if self.started.elapsed() > time {
            format!("the launch has run for more than {time:?} (`Limits::time`)")
        } else {
            return None;
        };
        Some(Reason::limit(format!("{why}: {} of {} CTAs have ended", self.ended(), self.ctas)))
    }
}

/// Counts what a core does for a launch, and looks at the limits from time to time.
pub(super) struct Meter<'l> {
    running: &'l Running,
    instructions: u64,
    turns: u32,
}

impl<'l> Meter<'l> {
    pub(super) fn new(running: &'l Running) -> Self {
        Self { running, instructions: 0, turns: 0 }
    }

    /// A warp has had a turn of so many instructions: whether it is time to [look](Meter::look).
    #[inline]
    pub(super) fn turn(&mut self, instructions: u64) -> bool {
        self.instructions += instructions;
        self.turns += 1;
        self.instructions >= INSTRUCTIONS || self.turns >= TURNS
    }

    /// Says where the launch is. What is wrong if it may not go on.
    #[cold]
    pub(super) fn look(&mut self, place: Place) -> Result<(), Reason> {
        let new = std::mem::take(&mut self.instructions);
        self.turns = 0;
        let all = self.running.instructions.fetch_add(new, Relaxed).saturating_add(new);
        // Another core's place is as good.
        if let Ok(mut last) = self.running.place.try_lock() {
            *last = Some(place);
        }
        self.running.over(all).map_or(Ok(()), Err)
    }
}
