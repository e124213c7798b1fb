//! What makes a kernel unfit, in words that its author can act on.

use crate::Arch;
use crate::kernel::Declared;
use crate::ptx::Findings;
use crate::ptxas::Report;

/// Functions that the driver provides.
const PROVIDED: [&str; 4] = [PRINT, "malloc", "free", "__assertfail"];

/// The one of them that prints.
pub(crate) const PRINT: &str = "vprintf";

/// A fault of a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It cannot run, or not as its author means it to.
    Wrong(String),
    /// It runs, slowly.
    Slow(String),
}

use Fault::{Slow, Wrong};

/// What its declaration asks for that the architecture does not have.
pub(crate) fn declaration(arch: Arch, declared: &Declared) -> Vec<Fault> {
    let Declared { threads, cluster, shared_bytes, min_ctas, .. } = *declared;
    let mut faults = Vec::new();
    if !(1..=1024).contains(&threads) {
        faults.push(Wrong(format!("it declares {threads} threads, and a CTA has 1 to 1024")));
    }
    if !(1..=32).contains(&min_ctas) {
        faults.push(Wrong(format!("it declares min_ctas = {min_ctas}, and an SM holds 1 to 32 CTAs")));
    }
    let limit = arch.shared_limit();
    if shared_bytes > limit {
        faults.push(Wrong(format!(
            "it takes {shared_bytes} bytes of shared memory, and a CTA has at most {limit}"
        )));
    }
    let [x, y, z] = cluster;
    let ctas = u64::from(x) * u64::from(y) * u64::from(z);
    if ctas != 1 && !arch.has_clusters() {
        faults.push(Wrong(format!(
            "it declares a cluster of {x} x {y} x {z} CTAs, and clusters begin with sm_90"
        )));
    } else if !(1..=16).contains(&ctas) {
        faults
            .push(Wrong(format!("it declares a cluster of {x} x {y} x {z} CTAs, and a cluster has 1 to 16")));
    }
    faults
}

/// What its PTX shows.
pub(crate) fn code(declared: &Declared, findings: &Findings) -> Vec<Fault> {
    let mut faults: Vec<_> = findings.refusals.iter().map(|message| Wrong(message.clone())).collect();
    faults.extend(findings.software.iter().map(|conversion| {
        Slow(format!(
            "it converts {conversion} in software, by some 30 to 50 instructions where the GPU has one. The methods of `half`'s types \
             do that, their arithmetic too: for fragments take operators between them, such as `x * y`, or `to_f32()` and `cast()`, for values \
             `Element::to_f32(x)` and `arch::cvt`"
        ))
    }));
    let Findings { local_bytes, local_accesses, shares_registers, panics, .. } = findings;
    if *shares_registers && !panics.is_empty() {
        faults.push(Slow(format!(
            "it may panic, by a call, for {}. In a kernel with such a call ptxas uses no more registers than each thread has at the launch, though warps \
             that compute ask for more (`setmaxnreg`)",
            panics.join(", ")
        )));
    }
    if !declared.local && (*local_bytes > 0 || *local_accesses > 0) {
        faults.push(Slow(format!(
            "it keeps {local_bytes} bytes in local memory ({local_accesses} accesses). An array is indexed by a value \
             that is not known when it is compiled: a loop that was not unrolled, or a closure that was not \
             inlined. If that is meant, say `local = true` in its #[kernel]"
        )));
    }
    faults
}

/// A function without code that it calls.
pub(crate) fn call(function: &str) -> Option<Fault> {
    let provided = PROVIDED.contains(&function);
    (!provided).then(|| Wrong(format!("it calls `{function}`, which has no code for the device")))
}

/// What `ptxas` found.
pub(crate) fn assembled(declared: &Declared, findings: &Findings, report: &Report) -> Vec<Fault> {
    let mut faults: Vec<_> =
        report.errors.iter().map(|error| Wrong(format!("ptxas refuses it: {error}"))).collect();
    faults.extend(report.serialised.iter().map(|message| Slow(format!("ptxas says: {message}"))));
    let Report { registers, stack_bytes, spill_store_bytes, spill_load_bytes, .. } = report;
    if *spill_store_bytes > 0 || *spill_load_bytes > 0 {
        faults.push(Slow(format!(
            "it spills: {spill_store_bytes} bytes stored, {spill_load_bytes} loaded, with {} registers a thread. \
             Its fragments are too large for its {} threads at min_ctas = {}. If that is meant, `.check(Check::Warn)` in the \
             build script lets it pass",
            registers.unwrap_or(0),
            declared.threads,
            declared.min_ctas,
        )));
    } else if *stack_bytes > 0 && !declared.local && findings.local_bytes == 0 {
        faults.push(Slow(format!("it has a stack frame of {stack_bytes} bytes")));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Declared =
        Declared { threads: 384, min_ctas: 1, cluster: [1, 1, 1], shared_bytes: 1024, local: false };

    #[test]
    fn declarations_have_limits() {
        assert_eq!(declaration(Arch::Sm90a, &KERNEL), []);
        let refused = |arch, declared: Declared| match declaration(arch, &declared).as_slice() {
            [Wrong(message)] => message.clone(),
            other => panic!("{other:?}"),
        };
        assert!(refused(Arch::Sm80, Declared { threads: 2048, ..KERNEL }).contains("2048 threads"));
        assert!(refused(Arch::Sm80, Declared { min_ctas: 0, ..KERNEL }).contains("min_ctas = 0"));
        assert!(
            refused(Arch::Sm90a, Declared { shared_bytes: 240_000, ..KERNEL }).contains("at most 232448")
        );
        assert!(refused(Arch::Sm80, Declared { cluster: [2, 1, 1], ..KERNEL }).contains("begin with sm_90"));
        assert!(refused(Arch::Sm90a, Declared { cluster: [32, 1, 1], ..KERNEL }).contains("1 to 16"));
    }

    #[test]
    fn local_memory_is_refused_unless_meant() {
        let findings = Findings { local_bytes: 48, local_accesses: 3, ..Findings::default() };
        let faults = code(&KERNEL, &findings);
        assert!(
            matches!(faults.as_slice(), [Slow(message)] if message.contains("48 bytes in local memory (3 acc"))
        );
        assert_eq!(code(&Declared { local: true, ..KERNEL }, &findings), []);
    }

    #[test]
    fn panics_cost_registers() {
        let findings = Findings { panics: vec!["a panic"], ..Findings::default() };
        assert_eq!(code(&KERNEL, &findings), []);
        let findings = Findings { shares_registers: true, ..findings };
        assert!(
            matches!(code(&KERNEL, &findings).as_slice(), [Slow(message)] if message.contains("for a panic."))
        );
    }

    #[test]
    fn spills_and_stack_frames() {
        let spills =
            Report { stack_bytes: 8, spill_store_bytes: 8, registers: Some(255), ..Report::default() };
        assert!(
            matches!(assembled(&KERNEL, &Findings::default(), &spills).as_slice(), [Slow(m)] if m.contains("it spills: 8 bytes stored"))
        );
        let frame = Report { stack_bytes: 8, ..Report::default() };
        assert_eq!(assembled(&KERNEL, &Findings::default(), &frame).len(), 1);
        assert_eq!(assembled(&Declared { local: true, ..KERNEL }, &Findings::default(), &frame), []);
        assert_eq!(assembled(&Declared { local: true, ..KERNEL }, &Findings::default(), &spills).len(), 1);
    }

    #[test]
    fn calls_to_nowhere() {
        assert_eq!(call("vprintf"), None);
        assert!(matches!(call("memcmp"), Some(Wrong(message)) if message.contains("`memcmp`")));
    }
}
