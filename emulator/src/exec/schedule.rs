//! In which order warps run, and for how long at a time.
//!
//! The manual promises no order. The fixed one is the same at every run; random ones find what depends on it.

use crate::program::register::LANES;

/// Instructions that a warp executes at most before others run.
const TURN: u32 = 4096;

/// The order in which warps run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// One after the other, by their numbers.
    #[default]
    Fixed,
    /// In random order, for random numbers of instructions, with waits that end without success now and then. The same for the
    /// same seed.
    Random(u64),
}

impl Schedule {
    /// The lane whose store comes first of those to one place that are an instruction's; the others follow in their order. The
    /// moment is told by these numbers.
    pub(super) fn lane(self, moment: &[u64]) -> usize {
        match self {
            Schedule::Fixed => 0,
            Schedule::Random(seed) => {
                let mix = |seed, number| fastrand::Rng::with_seed(seed).u64(..) ^ number;
                fastrand::Rng::with_seed(moment.iter().copied().fold(seed, mix)).usize(0..LANES)
            }
        }
    }
}

/// What a schedule chooses next.
#[derive(Debug)]
pub(super) struct Pace {
    random: Option<fastrand::Rng>,
}

impl Pace {
    /// The choices for those clusters of a launch that run together; `first` is the first one's number.
    pub(super) fn new(schedule: Schedule, first: u64) -> Self {
        let random = match schedule {
            Schedule::Fixed => None,
            Schedule::Random(seed) => {
                Some(fastrand::Rng::with_seed(fastrand::Rng::with_seed(seed).u64(..) ^ first))
            }
        };
        Self { random }
    }

    /// The order in which so many have their turns.
    pub(super) fn order(&mut self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let shuffled = self.random.as_mut().map(|random| {
            let mut order: Vec<_> = (0..count).collect();
            random.shuffle(&mut order);
            order
        });
        (0..count).map(move |i| shuffled.as_ref().map_or(i, |order| order[i]))
    }

    /// Instructions of a turn at most. Random ones are as often short as long.
    pub(super) fn turn(&mut self) -> u32 {
        match &mut self.random {
            Some(random) => {
                let most = random.u32(0..=TURN.ilog2());
                random.u32(1..=1 << most)
            }
            None => TURN,
        }
    }

    /// Lanes of a diverged warp that let the others go first.
    pub(super) fn behind(&mut self) -> u32 {
        self.random.as_mut().map_or(0, |random| if random.bool() { random.u32(..) } else { 0 })
    }

    /// Whether a `try_wait` gives up although what it waits for may still come, or any wait although it has just come.
    pub(super) fn gives_up(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.u32(0..8) == 0)
    }
}
