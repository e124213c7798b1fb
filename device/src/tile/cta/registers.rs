//! The registers that warpgroups with different things to do divide among themselves.

/// Registers of an SM.
const SM: u32 = 64 * 1024;

/// Registers that each of `threads` threads has at the launch, in eights, where `ctas` CTAs share an SM.
pub(in crate::tile) const fn at_launch(threads: u32, ctas: u32) -> u32 {
    let share = SM / (threads * ctas) / 8 * 8;
    if share > 256 { 256 } else { share }
}

/// Refuses, when the kernel is compiled, roles that do not fit the `launch`: each has so many warpgroups, whose threads have so many
/// registers. Who takes more than the launch gave waits for those who give, for ever if they do not give enough.
pub(in crate::tile) const fn expect_fit(roles: &[(u32, u32)], launch: u32) {
    let (mut i, mut warpgroups, mut registers) = (0, 0, 0);
    while i < roles.len() {
        let (count, each) = roles[i];
        assert!(
            each.is_multiple_of(8) && each >= 24 && each <= 256,
            "a thread's registers are a multiple of 8 from 24 to 256"
        );
        (warpgroups, registers, i) = (warpgroups + count, registers + count * each, i + 1);
    }
    assert!(registers <= warpgroups * launch, "the roles take more registers than the launch gives the CTA");
}
