//! What a kernel's PTX says about it: its declaration, refusals, local memory.

use crate::kernel::Declared;

/// What an entry point is in this build.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A kernel, with its launch bounds.
    Kernel(Declared),
    /// The empty entry of a kernel that is for the architecture named.
    Other(String),
    /// Not made by `#[kernel]`, or not readable.
    Undeclared,
}

/// What the PTX of an entry, or of a function that it uses, contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Messages of `refuse!`.
    pub refusals: Vec<String>,
    /// The most bytes of dynamic shared memory that were said to be handed out.
    pub shared_bytes: u32,
    /// Whether some of these numbers are not known before the launch.
    pub shared_unknown: bool,
    /// Conversions that are computed by integer instructions where one `cvt` would do.
    pub software: Vec<&'static str>,
    /// Bytes of local memory that `.local` variables take.
    pub local_bytes: u64,
    /// Loads and stores in local memory.
    pub local_accesses: usize,
    /// Whether warps ask for more registers than the others.
    pub shares_registers: bool,
    /// What may panic, by a call.
    pub panics: Vec<&'static str>,
}

impl Findings {
    /// Adds those of a function that the entry uses.
    pub fn add(&mut self, of: Findings) {
        let Findings {
            refusals,
            shared_bytes,
            shared_unknown,
            software,
            local_bytes,
            local_accesses,
            shares_registers,
            panics,
        } = of;
        self.refusals.extend(refusals);
        self.shared_bytes = self.shared_bytes.max(shared_bytes);
        self.shared_unknown |= shared_unknown;
        self.software.extend(software);
        self.local_bytes += local_bytes;
        self.local_accesses += local_accesses;
        self.shares_registers |= shares_registers;
        self.panics.extend(panics);
    }
}

/// Reads an entry's declaration and findings.
pub(crate) fn scan(text: &str) -> (Role, Findings) {
    let mut role = Role::Undeclared;
    let mut findings = Findings::default();
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("// tilewright.") {
            if let Some(fields) = comment.strip_prefix("kernel ") {
                role = declared(fields).map_or(Role::Undeclared, Role::Kernel);
            } else if let Some(target) = comment.strip_prefix("other ") {
                role = Role::Other(target.to_owned());
            } else if let Some(message) = comment.strip_prefix("refuse ")
                && !findings.refusals.iter().any(|m| m == message)
            {
                findings.refusals.push(message.to_owned());
            } else if let Some(register) = comment.strip_prefix("shared ") {
                match constant(&text[..line.as_ptr().addr() - text.as_ptr().addr()], register) {
                    Some(bytes) => findings.shared_bytes = findings.shared_bytes.max(bytes),
                    None => findings.shared_unknown = true,
                }
            }
        } else if let Some(variable) = line.strip_prefix(".local ") {
            findings.local_bytes += bytes_of(variable);
        } else if !line.starts_with("//") && (line.contains("ld.local") || line.contains("st.local")) {
            findings.local_accesses += 1;
        } else if line.starts_with("setmaxnreg.inc") {
            findings.shares_registers = true;
        } else if let Some(panic) = panic(line)
            && !findings.panics.contains(&panic)
        {
            findings.panics.push(panic);
        }
    }
    findings.software = software(text);
    (role, findings)
}

/// What a line calls a function of `core::panicking` for.
fn panic(line: &str) -> Option<&'static str> {
    let called = line.strip_prefix("call")?;
    let (_, path) = called.split_once("4core9panicking")?;
    let causes = [
        ("by_zero", "a division by a number that may be 0 (write `x / y.max(1)`)"),
        ("overflow", "a division that may overflow"),
        ("bounds_check", "an index that may be out of bounds"),
    ];
    Some(causes.into_iter().find(|(name, _)| path.contains(name)).map_or("a panic", |(_, cause)| cause))
}

/// The bits of an infinite f32, as a last operand.
const INFINITY: &str = ", 2139095040;";

/// The conversions of the `half` crate that the text computes. Each is known by two numbers that it has as operands: of its rounding, or
/// its search for the leading one of a subnormal, and of its test for infinities.
fn software(text: &str) -> Vec<&'static str> {
    let has = |instruction: &str, operand: &str| {
        text.lines()
            .any(|line| line.trim_start().starts_with(instruction) && line.trim_end().ends_with(operand))
    };
    [
        ("f32 to f16", has("and.b32", ", 12287;") && has("and.b32", INFINITY)),
        ("f32 to bf16", has("and.b32", ", 98303;") && has("setp.gt.u32", INFINITY)),
        ("f16 to f32", has("clz.b32", ";") && has("and.b", ", 31744;")),
    ]
    .into_iter()
    .filter_map(|(name, found)| found.then_some(name))
    .collect()
}

/// `threads=384 min_ctas=1 cluster=2,1,1 shared=1024 local=0`
fn declared(fields: &str) -> Option<Declared> {
    let field = |name: &str| {
        fields.split_ascii_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse().ok();
    let mut cluster = field("cluster")?.split(',').map(|n| n.parse().ok());
    Some(Declared {
        threads: number("threads")?,
        min_ctas: number("min_ctas")?,
        cluster: [cluster.next()??, cluster.next()??, cluster.next()??],
        shared_bytes: number("shared")?,
        local: number("local")? != 0,
    })
}

/// The number that the last write to a register, in the text before a place where it is read, moves there.
fn constant(before: &str, register: &str) -> Option<u32> {
    let (instruction, from) = before.lines().rev().find_map(|line| {
        let (instruction, operands) = line.trim().split_once(char::is_whitespace)?;
        let (to, from) = operands.trim_start().split_once(", ")?;
        (to == register).then_some((instruction, from))
    })?;
    instruction.starts_with("mov.").then(|| from.strip_suffix(';')?.parse().ok())?
}

/// The size of `.align 16 .b8 name[48];`, or of a single value.
fn bytes_of(variable: &str) -> u64 {
    let count =
        variable.split_once('[').and_then(|(_, rest)| rest.split(']').next()?.parse().ok()).unwrap_or(1);
    let width = variable
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(".b")?.parse::<u64>().ok())
        .unwrap_or(8);
    count * width / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read() {
        let text = "{\n\t// begin inline asm\n\t// tilewright.kernel threads=384 min_ctas=2 cluster=2,1,1 shared=1024 local=1\n}";
        let declared =
            Declared { threads: 384, min_ctas: 2, cluster: [2, 1, 1], shared_bytes: 1024, local: true };
        assert_eq!(scan(text), (Role::Kernel(declared), Findings::default()));
        assert_eq!(scan("\t// tilewright.other sm_90a\n").0, Role::Other("sm_90a".into()));
        assert_eq!(scan("// tilewright.kernel threads=x").0, Role::Undeclared);
        assert_eq!(scan("ret;").0, Role::Undeclared);
    }

    #[test]
    fn local_memory_is_counted() {
        let text = "\t.local .align 16 .b8 \t__local_depot0[48];\n\tst.local.v4.b32 [%rd1], {};\n\
                    // ld.local in a comment\n\t@%p ld.local.b32 %r1, [%rd1];\n\t.local .b32 x;";
        let findings = scan(text).1;
        assert_eq!((findings.local_bytes, findings.local_accesses), (52, 2));
    }

    #[test]
    fn shared_memory_is_counted_where_it_is_known() {
        let text = "mov.b32 \t%r1, 49152;\n\tmov.b32 %r12, 65536;\n\t// tilewright.shared %r1\n// tilewright.shared %r12\n\
                    mov.u32 %r2, %tid.x;\n";
        let findings = scan(text).1;
        assert_eq!((findings.shared_bytes, findings.shared_unknown), (65536, false));
        for unknown in ["%r2", "%r3"] {
            let findings = scan(&format!("{text}// tilewright.shared {unknown}")).1;
            assert_eq!((findings.shared_bytes, findings.shared_unknown), (65536, true));
        }
        let later = "mov.b32 %r1, 16;\n// tilewright.shared %r1\nmov.b32 %r1, %r5;";
        assert_eq!(scan(later).1.shared_bytes, 16);
    }

    #[test]
    fn panics_are_named() {
        let text = "\tsetmaxnreg.inc.sync.aligned.u32 232;\n\tcall.uni _RNvNtNtCsgJ_4core9panicking11panic_const23panic_const_rem_by_zero, ();\n\
                    \tcall.uni _RNvNtCsgJ_4core9panicking9panic_fmt, ();\n\tcall.uni (retval0), vprintf, (param0, param1);";
        let findings = scan(text).1;
        assert!(findings.shares_registers);
        assert_eq!(
            findings.panics,
            ["a division by a number that may be 0 (write `x / y.max(1)`)", "a panic"]
        );
        assert!(!scan("setmaxnreg.dec.sync.aligned.u32 40;").1.shares_registers);
    }

    #[test]
    fn conversions_in_software_are_named() {
        let up = "and.b32 %r3, %r1, 31744;\nclz.b32 %r4, %r2;";
        assert_eq!(scan(up).1.software, ["f16 to f32"]);
        let down = "\tand.b32 \t%r3, %r1, 12287;\n\tand.b32 \t%r4, %r2, 98303;";
        assert!(scan(down).1.software.is_empty(), "masks of the author's own");
        let half =
            format!("{down}\n\tand.b32 \t%r5, %r1, 2139095040;\n\tsetp.gt.u32 \t%p1, %r2, 2139095040;");
        assert_eq!(scan(&half).1.software, ["f32 to f16", "f32 to bf16"]);
        assert!(
            scan("cvt.f32.f16 %r1, %rs1;\nclz.b32 %r4, %r2;\nadd.s32 %r1, %r1, 12287;").1.software.is_empty()
        );
    }

    #[test]
    fn refusals_are_collected_once() {
        let text = "// tilewright.refuse a tile is read before it is full\n".repeat(2);
        assert_eq!(scan(&text).1.refusals, ["a tile is read before it is full"]);
    }
}
