//! Which kernel computes a call: the one that is rated best, or that is asked for by name.

use super::{Candidate, Descriptor, Plan, Rejection};
use crate::{Device, Error, Result};

/// A call, as far as it decides between kernels.
pub trait Choice {
    /// What describes the operator's kernels.
    type Kernel: Descriptor;

    /// Where it is to run.
    fn device(&self) -> &Device;
    /// The kernels of the kind that the call wants.
    fn kernels(&self) -> &'static [Self::Kernel];
    /// What that kind is for, as messages say it: "f16 -> f16".
    fn what(&self) -> String;
    /// What a kernel that the device runs would take, or why it cannot compute the call.
    fn rate(&self, kernel: &Self::Kernel) -> Result<<Self::Kernel as Descriptor>::Estimate, Rejection>;

    /// All kernels of the kind, the best one first, those that cannot compute the call last.
    fn candidates(&self) -> Vec<Candidate<Self::Kernel>> {
        let mut all: Vec<_> = rated(self).collect();
        all.sort_by_key(Candidate::rank);
        all
    }

    /// The best kernel, or the one that is asked for by name.
    fn choose(&self, forced: Option<&str>) -> Result<Plan<Self::Kernel>> {
        let candidate = match forced {
            None => best(self),
            Some(name) => {
                let kernel = self.kernels().iter().find(|kernel| kernel.name() == name);
                kernel.map(|kernel| Candidate { kernel, outcome: outcome(self, kernel) })
            }
        };
        if let Some(candidate) = candidate
            && let Ok(estimate) = candidate.outcome
        {
            return Ok(Plan { candidate, estimate, forced: forced.is_some() });
        }
        Err(match forced {
            None => none_runs(self),
            Some(name) => refused(self, name, candidate),
        })
    }
}

/// The kernel that is rated best. Only the winner's shared memory is looked up; where the device lacks that, all are rated again with theirs.
fn best<C: Choice + ?Sized>(call: &C) -> Option<Candidate<C::Kernel>> {
    let mut best: Option<Candidate<C::Kernel>> = None;
    for kernel in call.kernels() {
        let Ok(estimate) = runs(call.device(), kernel).and_then(|()| call.rate(kernel)) else { continue };
        let candidate = Candidate { kernel, outcome: Ok(estimate) };
        if best.is_none_or(|best| candidate.rank() < best.rank()) {
            best = Some(candidate);
        }
    }
    match best {
        Some(best) if fits(call.device(), best.kernel).is_ok() => Some(best),
        _ => rated(call).min_by_key(Candidate::rank),
    }
}

fn rated<C: Choice + ?Sized>(call: &C) -> impl Iterator<Item = Candidate<C::Kernel>> {
    call.kernels().iter().map(|kernel| Candidate { kernel, outcome: outcome(call, kernel) })
}

/// What a kernel would take, or why it cannot compute the call.
fn outcome<C: Choice + ?Sized>(
    call: &C,
    kernel: &C::Kernel,
) -> Result<<C::Kernel as Descriptor>::Estimate, Rejection> {
    runs(call.device(), kernel)?;
    fits(call.device(), kernel)?;
    call.rate(kernel)
}

/// Checks that the device runs the kernel's code.
fn runs<K: Descriptor>(device: &Device, kernel: &K) -> Result<(), Rejection> {
    if !device.runs(kernel.arch()) {
        return Err(Rejection::Architecture(kernel.arch()));
    }
    if kernel.is_built() { Ok(()) } else { Err(Rejection::LeftOut(kernel.arch())) }
}

/// Checks that a CTA can have the kernel's shared memory.
fn fits<K: Descriptor>(device: &Device, kernel: &K) -> Result<(), Rejection> {
    let (needs, has) = (kernel.shared_bytes(), device.shared_memory_per_cta());
    if needs > has { Err(Rejection::SharedMemory { needs, has }) } else { Ok(()) }
}

/// An error that gives the reason of the best of the kernels whose code runs, or else of the best one.
fn none_runs<C: Choice + ?Sized>(call: &C) -> Error {
    let device = call.device();
    let reasons = || call.candidates().into_iter().filter_map(|candidate| candidate.outcome.err());
    let why = reasons().find(|why| !matches!(why, Rejection::Architecture(_))).or_else(|| reasons().next());
    let why = why.map_or_else(|| "there is none of the kind".to_owned(), |why| why.to_string());
    Error::UnsupportedGpu {
        device: device.name().into(),
        capability: device.compute_capability(),
        needs: format!("no kernel for {} runs on it: {why}", call.what()),
    }
}

/// An error about a kernel's name, with the names of those that can compute the call.
fn refused<C: Choice + ?Sized>(call: &C, name: &str, candidate: Option<Candidate<C::Kernel>>) -> Error {
    let reason = match candidate.and_then(|candidate| candidate.outcome.err()) {
        Some(rejection) => rejection.to_string(),
        None => format!("not a kernel for {}", call.what()),
    };
    let possible = rated(call).filter(|candidate| candidate.outcome.is_ok());
    let names: Vec<_> = possible.map(|candidate| candidate.name()).collect();
    let allowed = match &names[..] {
        [] => "left out, and no other can compute this either".to_owned(),
        names => format!("one of {}", names.join(", ")),
    };
    Error::argument("kernel", format!("{name:?}, {reason}"), allowed)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::backend::fake;
    use crate::ops::frame::Cycles;
    use crate::{Arch, KernelEntry};

    #[derive(Debug)]
    struct Kernel {
        name: &'static str,
        arch: Arch,
        shared_bytes: u32,
        tile: u32,
        cycles: Option<u64>,
    }

    impl Descriptor for Kernel {
        type Estimate = Cycles;
        fn name(&self) -> &'static str {
            self.name
        }
        fn arch(&self) -> Arch {
            self.arch
        }
        fn entry(&self) -> Option<&'static KernelEntry> {
            None
        }
        fn is_built(&self) -> bool {
            self.name != "left out"
        }
        fn shared_bytes(&self) -> u32 {
            self.shared_bytes
        }
        fn size(&self) -> [u32; 3] {
            [self.tile, 1, 1]
        }
        fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "tiles of {}", self.tile)
        }
    }

    const fn kernel(
        name: &'static str,
        arch: Arch,
        shared_bytes: u32,
        tile: u32,
        cycles: Option<u64>,
    ) -> Kernel {
        Kernel { name, arch, shared_bytes, tile, cycles }
    }

    static KERNELS: [Kernel; 6] = [
        kernel("slow", Arch::Sm80, 0, 8, Some(90)),
        kernel("odd", Arch::Sm80, 0, 2, None),
        kernel("small", Arch::Sm80, 0, 4, Some(70)),
        kernel("large", Arch::Sm80, 0, 16, Some(70)),
        kernel("greedy", Arch::Sm80, 1 << 20, 16, Some(1)),
        kernel("hopper", Arch::Sm90a, 0, 32, Some(2)),
    ];

    struct Call(Device, &'static [Kernel]);

    impl Choice for Call {
        type Kernel = Kernel;
        fn device(&self) -> &Device {
            &self.0
        }
        fn kernels(&self) -> &'static [Kernel] {
            self.1
        }
        fn what(&self) -> String {
            "tests".to_owned()
        }
        fn rate(&self, kernel: &Kernel) -> Result<Cycles, Rejection> {
            kernel.cycles.map(Cycles).ok_or(Rejection::AtMost { what: "tests", most: 3 })
        }
    }

    fn call(capability: (u32, u32), kernels: &'static [Kernel]) -> Call {
        Call(fake::device(capability).0, kernels)
    }

    #[test]
    fn the_fastest_is_first_and_of_two_the_larger_one() {
        let old = call((8, 6), &KERNELS);
        let names: Vec<_> = old.candidates().iter().map(Candidate::name).collect();
        assert_eq!(names, ["large", "small", "slow", "hopper", "greedy", "odd"]);
        let text = "large: about 70 cycles; tiles of 16: the fastest by estimate";
        assert_eq!(old.choose(None).unwrap().to_string(), text);
        let text = "slow: about 90 cycles; tiles of 8: asked for by name";
        assert_eq!(old.choose(Some("slow")).unwrap().to_string(), text);
        assert_eq!(call((9, 0), &KERNELS).choose(None).unwrap().kernel().name(), "hopper");
    }

    #[test]
    fn a_kernel_that_the_build_leaves_out_is_not_chosen_and_its_feature_is_named() {
        static SOME: [Kernel; 2] =
            [kernel("slow", Arch::Sm80, 0, 8, Some(90)), kernel("left out", Arch::Sm90a, 0, 8, Some(2))];
        assert_eq!(call((9, 0), &SOME).choose(None).unwrap().kernel().name(), "slow");
        let error = call((9, 0), &SOME[1..]).choose(None).unwrap_err().to_string();
        assert!(error.contains("no kernels for sm_90a: the feature `sm_90a` of tilewright"), "{error}");
        // What the device would not run is not what it lacks.
        let error = call((8, 6), &SOME[1..]).choose(None).unwrap_err().to_string();
        assert!(error.ends_with("it is compiled for sm_90a"), "{error}");
    }

    #[test]
    fn refusals_say_why_and_what_else_there_is() {
        let old = call((8, 6), &KERNELS);
        let message = |call: &Call, name| call.choose(name).unwrap_err().to_string();
        let others = "it must be one of slow, small, large";
        for (name, why) in [
            ("odd", "it takes tests up to 3"),
            ("greedy", "it needs 1048576 bytes of shared memory, of 65536"),
            ("hopper", "it is compiled for sm_90a"),
            ("none", "not a kernel for tests"),
        ] {
            assert_eq!(message(&old, Some(name)), format!("`kernel` was {name:?}, {why}; {others}"));
        }
        let [hopper, greedy] = [call((8, 6), &KERNELS[5..]), call((8, 6), &KERNELS[4..])];
        let none = |why| {
            format!("fake (compute capability 8.6) cannot be used: no kernel for tests runs on it: {why}")
        };
        assert_eq!(message(&hopper, None), none("it is compiled for sm_90a"));
        assert_eq!(message(&greedy, None), none("it needs 1048576 bytes of shared memory, of 65536"));
        assert_eq!(message(&call((8, 6), &[]), None), none("there is none of the kind"));
        let text = "`kernel` was \"hopper\", it is compiled for sm_90a; it must be left out, and no other can compute this \
                    either";
        assert_eq!(message(&hopper, Some("hopper")), text);
    }
}
