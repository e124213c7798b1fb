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
    /// Bytes of local memory that `.local` variables take.
    pub local_bytes: u64,
    /// Loads and stores in local memory.
    pub local_accesses: usize,
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
            }
        } else if let Some(variable) = line.strip_prefix(".local ") {
            findings.local_bytes += bytes_of(variable);
        } else if !line.starts_with("//") && (line.contains("ld.local") || line.contains("st.local")) {
            findings.local_accesses += 1;
        }
    }
    (role, findings)
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
    fn refusals_are_collected_once() {
        let text = "// tilewright.refuse a tile is read before it is full\n".repeat(2);
        assert_eq!(scan(&text).1.refusals, ["a tile is read before it is full"]);
    }
}
