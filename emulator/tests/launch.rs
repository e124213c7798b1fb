//! What an architecture runs, and which launches are refused.

use tilewright_emulator::{Arch, Emulator, Launch, Module};

/// A module of one kernel `k` without parameters.
fn load(target: &str, directives: &str, body: &str) -> Result<Module, String> {
    let text = format!(
        ".version 8.1\n.target {target}\n.address_size 64\n.visible .entry k()\n{directives}\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.shared .align 16 .b8 buffer[64];\n{body}\nret;\n}}\n"
    );
    Module::load(&text).map_err(|error| error.to_string())
}

/// Launches it on a device; what went wrong, or nothing.
fn report(arch: Arch, module: &Module, launch: Launch) -> String {
    let kernel = module.kernel("k").expect("its kernel");
    Emulator::new(arch)
        .launch(&kernel, &launch, &[])
        .map_or_else(|fault| fault.to_string(), |_| String::new())
}

#[test]
fn devices_run_modules_for_older_ones() {
    let run = |arch, target| report(arch, &load(target, "", "").unwrap(), Launch::default());
    assert_eq!(run(Arch::Sm80, "sm_80"), "");
    assert_eq!(run(Arch::Sm80, "sm_75"), "");
    assert_eq!(run(Arch::Sm90a, "sm_80"), "");
    assert_eq!(run(Arch::Sm90a, "sm_90"), "");
    assert_eq!(run(Arch::Sm90a, "sm_90a"), "");
    assert_eq!(run(Arch::Sm80, "sm_90a"), "a kernel for sm_90a, on a device of sm_80: kernel k");
    assert_eq!(run(Arch::Sm80, "sm_86"), "a kernel for sm_86, on a device of sm_80: kernel k");
    assert_eq!(run(Arch::Sm90a, "sm_100a"), "a kernel for sm_100a, on a device of sm_90a: kernel k");
    assert_eq!(load("hopper", "", "").unwrap_err(), "PTX line 1: `.target hopper` is not known");
}

#[test]
fn instructions_need_their_target() {
    let error = |target, body| load(target, "", body).err();
    for (least, below, body) in [
        ("sm_90a", "sm_90", "wgmma.fence.sync.aligned;"),
        ("sm_90a", "sm_90", "setmaxnreg.dec.sync.aligned.u32 40;"),
        ("sm_90", "sm_89", "barrier.cluster.arrive;"),
        ("sm_90", "sm_80", "cp.async.bulk.commit_group;"),
        ("sm_90", "sm_80", "griddepcontrol.wait;"),
        ("sm_90", "sm_80", "fence.proxy.async;"),
        ("sm_90", "sm_80", "mbarrier.try_wait.parity.shared.b64 %p1, [buffer], 0;"),
        ("sm_80", "sm_75", "mbarrier.inval.shared.b64 [buffer];"),
        ("sm_80", "sm_75", "cp.async.wait_all;"),
    ] {
        assert_eq!(error(least, body), None);
        let opcode = body.split([' ', ';']).next().unwrap();
        let expected = format!("PTX line 11: {opcode} needs {least}; the module is for {below}");
        assert_eq!(error(below, body), Some(expected));
    }
    assert!(load("sm_80", ".reqnctapercluster 2", "").unwrap_err().contains("clusters, which need sm_90"));
}

#[test]
fn limits_of_a_launch() {
    let module = load("sm_80", "", "").unwrap();
    let refused = |launch| report(Arch::Sm90a, &module, launch);
    let default = Launch::default();
    let dimensions = |grid, threads| Launch { grid, threads, ..default };
    assert!(refused(dimensions([0, 1, 1], [32, 1, 1])).starts_with("a grid of [0, 1, 1] CTAs"));
    assert!(refused(dimensions([1, 65536, 1], [32, 1, 1])).starts_with("a grid of [1, 65536, 1] CTAs"));
    assert!(refused(dimensions([1, 1, 65536], [32, 1, 1])).starts_with("a grid of [1, 1, 65536] CTAs"));
    assert!(refused(dimensions([1 << 31, 1, 1], [32, 1, 1])).starts_with("a grid of"));
    assert!(refused(dimensions([1; 3], [1, 1, 65])).contains("must be from 1 to [1024, 1024, 64]"));
    assert!(refused(dimensions([1; 3], [32, 32, 2])).contains("1024 together"));
    assert_eq!(refused(dimensions([1; 3], [1, 1, 64])), "");
    let clusters = |size| Launch { grid: [size, 1, 1], cluster: [size, 1, 1], ..default };
    assert_eq!(refused(clusters(16)), "");
    assert!(refused(clusters(17)).contains("must be from 1 to 16"));
    assert_eq!(
        report(Arch::Sm80, &module, clusters(2)),
        "clusters of [2, 1, 1] CTAs: a device of sm_80 has none: kernel k"
    );
}

#[test]
fn shared_memory_of_each_architecture() {
    let module = load("sm_80", "", "").unwrap();
    let with =
        |arch: Arch, total| report(arch, &module, Launch { dynamic_shared: total - 64, ..Launch::default() });
    for (arch, kib) in [(Arch::Sm80, 163), (Arch::Sm90a, 227)] {
        assert_eq!(arch.shared_bytes(), kib * 1024);
        assert_eq!(with(arch, kib * 1024), "");
        let message = with(arch, kib * 1024 + 16);
        assert!(message.contains(&format!("a CTA of {arch} has at most {}", kib * 1024)), "{message}");
    }
    let much = load("sm_80", "", ".shared .b8 more[49152];").unwrap();
    assert!(report(Arch::Sm90a, &much, Launch::default()).contains("must be dynamic"));
}

/// Four warps give registers and four take some.
fn registers(give: &str, take: &str) -> String {
    format!(
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 128;\n@%p1 bra GIVE;\n{take}\nbra DONE;\nGIVE: {give}\nDONE:"
    )
}

#[test]
fn registers_are_passed_on_within_their_cta() {
    let give = |count| format!("setmaxnreg.dec.sync.aligned.u32 {count};");
    let take = |count| format!("setmaxnreg.inc.sync.aligned.u32 {count};");
    let run = |directives, body: &str| {
        let module = load("sm_90a", directives, body).unwrap();
        report(Arch::Sm90a, &module, Launch { threads: [256, 1, 1], ..Launch::default() })
    };
    let bounded = ".maxnreg 128";
    assert_eq!(run(bounded, &registers(&give(40), &take(216))), "");
    // Who takes may come first.
    assert_eq!(run(bounded, &registers(&take(216), &give(40))), "");
    let message = run(bounded, &registers(&give(40), &take(224)));
    assert!(message.starts_with("deadlock"), "{message}");
    assert!(message.contains("32 more registers a thread than its CTA has to give"), "{message}");
    let message = run(bounded, &registers(&give(136), ""));
    assert!(message.contains("gives registers until it has 136, of at most 128"), "{message}");
    // 65536 registers for 256 threads are 256 each, and half as many for two CTAs.
    assert_eq!(run(".maxntid 256", &registers(&give(24), &take(256))), "");
    assert_eq!(run(".maxntid 256\n.minnctapersm 2", &registers(&give(24), &take(232))), "");
    let message = run(".maxntid 256\n.minnctapersm 2", &registers(&give(24), &take(240)));
    assert!(message.starts_with("deadlock"), "{message}");
    // Without bounds it has no effect.
    assert_eq!(run("", &registers(&give(24), &take(256))), "");
    assert!(load("sm_90a", "", &give(23)).unwrap_err().contains("must be a multiple of 8 from 24 to 256"));
}

#[test]
fn launches_do_not_overlap() {
    let body = "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;";
    assert_eq!(report(Arch::Sm90a, &load("sm_90", "", body).unwrap(), Launch::default()), "");
}
