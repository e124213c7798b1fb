//! What the emulator counts while it runs kernels.
//!
//! On a GPU there is nothing of this: its tools are NVIDIA's.

use std::collections::BTreeMap;
use std::fmt;

pub use tilewright_emulator::{
    Class, Classes, Counters, Executed, GlobalCounters, GlobalTraffic, SharedCounters, SharedTraffic,
    WaitCounters, Waits,
};

/// What all launches of a kernel did together; see [`Device::profile`](crate::Device::profile).
///
/// Shown as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelProfile {
    /// The kernel's name.
    pub name: String,
    /// How often it ran.
    pub launches: u64,
    /// The sum of what its launches counted.
    pub counters: Counters,
}

impl fmt::Display for KernelProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let launches = if self.launches == 1 { "launch" } else { "launches" };
        writeln!(f, "{}: {} {launches}", self.name, self.launches)?;
        self.counters.fmt(f)
    }
}

/// The profiles of a device's kernels, by name.
#[derive(Debug, Default)]
pub(crate) struct Profiles(BTreeMap<String, (u64, Counters)>);

impl Profiles {
    /// Adds a launch.
    pub(crate) fn add(&mut self, kernel: &str, counters: Counters) {
        let (launches, sum) = self.0.entry(kernel.to_owned()).or_default();
        *launches += 1;
        *sum += counters;
    }

    pub(crate) fn list(&self) -> Vec<KernelProfile> {
        let profile = |(name, &(launches, counters)): (&String, &(u64, Counters))| KernelProfile {
            name: name.clone(),
            launches,
            counters,
        };
        self.0.iter().map(profile).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Profiles};

    #[test]
    fn launches_of_a_kernel_add_up() {
        let mut profiles = Profiles::default();
        let of = |instructions, live_stages| Counters { instructions, live_stages, ..Counters::default() };
        profiles.add("b", of(3, 4));
        profiles.add("a", of(1, 1));
        profiles.add("b", of(5, 2));
        let [a, b] = &profiles.list()[..] else { panic!("two kernels") };
        assert_eq!((a.name.as_str(), a.launches, a.counters), ("a", 1, of(1, 1)));
        assert_eq!((b.name.as_str(), b.launches, b.counters), ("b", 2, of(8, 4)));
        assert!(b.to_string().starts_with("b: 2 launches\n"));
        profiles.clear();
        assert!(profiles.list().is_empty());
    }
}
