//! Where inlined code was inlined at: LLVM's backend says it in DWARF alone, PTX has words for it in `.loc`.
//!
//! DWARF 2, "Debugging Information Entry"; PTX ISA, ".loc". The sections of DWARF are left out: nobody reads them in PTX.

use std::collections::HashMap;

/// The label of the name that inlined functions are given: PTX asks for one.
const NAME: &str = "$L__info_string0";

/// The section with that name, for kernels that have inlined code.
pub(crate) const NAMES: &str =
    "\t.section\t.debug_str\n{\n$L__info_string0:\n.b8 105,110,108,105,110,101,100,0\n}";

const SUBPROGRAM: u64 = 0x2e;
const INLINED_SUBROUTINE: u64 = 0x1d;

/// An entry that covers code, or describes a function.
#[derive(Debug, Default)]
struct Entry {
    tag: u64,
    children: Vec<usize>,
    /// Numbers of labels.
    low: Option<u64>,
    high: Option<u64>,
    /// What function it is an instance of, by the entry's place in the section.
    origin: Option<u64>,
    /// File, line and column that it is called at.
    call: [u64; 3],
    /// File and line of the function.
    declared: [u64; 2],
}

/// The module's text with the places that code is inlined at, and without its sections of DWARF; `None` if it has none.
pub(crate) fn with_places(text: &str) -> Option<String> {
    let (mut labels, mut numbers) = (Vec::new(), HashMap::new());
    let abbreviations = section(text, ".debug_abbrev", &mut labels, &mut numbers)?;
    let information = section(text, ".debug_info", &mut labels, &mut numbers)?;
    let (entries, at) = entries(&abbreviations, &information).unwrap_or_default();
    let mut lines_of = vec![usize::MAX; labels.len()];
    for (number, line) in text.lines().enumerate() {
        if let Some(&label) = line.strip_suffix(':').and_then(|label| numbers.get(label)) {
            lines_of[label as usize] = number;
        }
    }
    let with_code = |i: &usize| entries[*i].tag == SUBPROGRAM && entries[*i].low.is_some();
    let functions = (0..entries.len()).filter(with_code).collect();
    let tree = Tree { entries, at, lines_of, functions };
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with(".section") {
            inside = !trimmed.ends_with('}');
        } else if inside {
            inside = trimmed != "}";
        } else if line.starts_with("$L__sec_end") {
        } else {
            for place in tree.places(number, trimmed) {
                out.push_str(&place);
                out.push('\n');
            }
            if !trimmed.starts_with(".loc") {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Some(out)
}

/// The entries of a module, and where they are in its text.
struct Tree {
    entries: Vec<Entry>,
    /// Their numbers by their places in the section.
    at: HashMap<u64, usize>,
    /// The line of each label.
    lines_of: Vec<usize>,
    /// The functions that have code.
    functions: Vec<usize>,
}

impl Tree {
    /// The `.loc`s for one at this line of the text: the places that its code is inlined at, the outermost first, and itself.
    fn places(&self, number: usize, text: &str) -> Vec<String> {
        let Some(rest) = text.strip_prefix(".loc") else { return Vec::new() };
        let words: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [file, line, column] = words[..] else { return vec![text.to_owned()] };
        let mut places = Vec::new();
        let mut before: Option<[u64; 3]> = None;
        let chain = self.chain(number, file, line);
        for place in chain.into_iter().chain([[file, line, column]]) {
            let [file, line, column] = place;
            let inlined = before.map_or_else(String::new, |[file, line, column]| {
                format!(", function_name {NAME}, inlined_at {file} {line} {column}")
            });
            places.push(format!("\t.loc\t{file} {line} {column}{inlined}"));
            before = Some(place);
        }
        places
    }

    /// The places of the calls that lead to the function of this file that has this line, from the outermost.
    ///
    /// The code of a function lies in pieces, and its range reaches from the first to the last, with others between: it is the
    /// function that begins the nearest before the line.
    fn chain(&self, number: usize, file: u64, line: u64) -> Vec<[u64; 3]> {
        let functions = self.functions.iter().filter(|&&function| self.covers(function, number));
        let mut open: Vec<(usize, Vec<[u64; 3]>)> = functions.map(|&i| (i, Vec::new())).collect();
        let mut best: Option<(u64, Vec<[u64; 3]>)> = None;
        while let Some((i, chain)) = open.pop() {
            let entry = &self.entries[i];
            let function =
                entry.origin.and_then(|at| self.at.get(&at)).map_or(entry, |&of| &self.entries[of]);
            let [of, begins] = function.declared;
            if of == file && begins <= line && best.as_ref().is_none_or(|(other, _)| *other <= begins) {
                best = Some((begins, chain.clone()));
            }
            for &child in entry.children.iter().filter(|&&child| self.covers(child, number)) {
                let call =
                    (self.entries[child].tag == INLINED_SUBROUTINE).then_some(self.entries[child].call);
                open.push((child, chain.iter().copied().chain(call).collect()));
            }
        }
        best.map_or_else(Vec::new, |(_, chain)| chain)
    }

    fn covers(&self, entry: usize, line: usize) -> bool {
        let of = |label: Option<u64>| self.lines_of.get(label? as usize).copied();
        match (of(self.entries[entry].low), of(self.entries[entry].high)) {
            (Some(low), Some(high)) => low <= line && line < high,
            _ => false,
        }
    }
}

/// The bytes of a section; a label is the number that it is given.
fn section(
    text: &str,
    name: &str,
    labels: &mut Vec<String>,
    numbers: &mut HashMap<String, u64>,
) -> Option<Vec<u8>> {
    let head = format!("\t.section\t{name}");
    let mut bytes = Vec::new();
    let lines = text.lines().skip_while(|line| *line != head).skip(2);
    for line in lines.take_while(|line| line.trim() != "}") {
        let Some((kind, values)) = line.trim().split_once(' ') else { continue };
        let size = match kind {
            ".b8" => 1,
            ".b16" => 2,
            ".b32" => 4,
            ".b64" => 8,
            _ => continue,
        };
        for value in values.split(',') {
            let number = value.trim().parse::<u64>().unwrap_or_else(|_| {
                *numbers.entry(value.trim().to_owned()).or_insert_with(|| {
                    labels.push(value.trim().to_owned());
                    labels.len() as u64 - 1
                })
            });
            bytes.extend(&number.to_le_bytes()[..size]);
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// Bytes that are read one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self, size: usize) -> Option<u64> {
        let mut all = [0; 8];
        all[..size].copy_from_slice(self.bytes.get(self.at..self.at + size)?);
        self.at += size;
        Some(u64::from_le_bytes(all))
    }

    /// LEB128, unsigned.
    fn varying(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.number(1)?;
            value |= (byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// A value of a form; `None` also for forms that are not known.
    fn value(&mut self, form: u64) -> Option<u64> {
        match form {
            0x01 | 0x07 => self.number(8),
            0x05 => self.number(2),
            0x06 | 0x0e | 0x10 | 0x13 | 0x17 => self.number(4),
            0x0b | 0x0c => self.number(1),
            0x0d | 0x0f => self.varying(),
            0x19 => Some(1),
            0x08 => {
                while self.number(1)? != 0 {}
                Some(0)
            }
            0x0a | 0x18 => {
                let length = if form == 0x0a { self.number(1)? } else { self.varying()? };
                self.at += usize::try_from(length).ok()?;
                Some(0)
            }
            _ => None,
        }
    }
}

/// What an abbreviation stands for: its tag, whether there are children, attributes with their forms.
type Abbreviation = (u64, bool, Vec<(u64, u64)>);

/// All entries, and their numbers by their places.
fn entries(abbreviations: &[u8], information: &[u8]) -> Option<(Vec<Entry>, HashMap<u64, usize>)> {
    let mut known: HashMap<u64, Abbreviation> = HashMap::new();
    let mut reader = Reader { bytes: abbreviations, at: 0 };
    while let Some(code) = reader.varying().filter(|&code| code != 0) {
        let (tag, children) = (reader.varying()?, reader.number(1)? != 0);
        let mut attributes = Vec::new();
        loop {
            let attribute = (reader.varying()?, reader.varying()?);
            if attribute == (0, 0) {
                break;
            }
            attributes.push(attribute);
        }
        known.insert(code, (tag, children, attributes));
    }
    let (mut entries, mut at) = (Vec::<Entry>::new(), HashMap::new());
    let mut reader = Reader { bytes: information, at: 0 };
    // A unit: its length, DWARF's version, where its abbreviations are, the size of an address.
    while let Some(length) = reader.number(4) {
        let unit = reader.at - 4;
        let end = reader.at + usize::try_from(length).ok()?;
        reader.at += 7;
        let mut parents = Vec::new();
        while reader.at < end.min(information.len()) {
            let place = reader.at;
            let code = reader.varying()?;
            if code == 0 {
                parents.pop();
                continue;
            }
            let (tag, has_children, attributes) = known.get(&code)?;
            let mut entry = Entry { tag: *tag, ..Entry::default() };
            for &(attribute, form) in attributes {
                let value = reader.value(form)?;
                match attribute {
                    0x11 => entry.low = Some(value),
                    0x12 => entry.high = Some(value),
                    0x31 => entry.origin = Some(value + unit as u64),
                    0x58 => entry.call[0] = value,
                    0x59 => entry.call[1] = value,
                    0x57 => entry.call[2] = value,
                    0x3a => entry.declared[0] = value,
                    0x3b => entry.declared[1] = value,
                    _ => {}
                }
            }
            let number = entries.len();
            at.insert(place as u64, number);
            entries.push(entry);
            if let Some(&parent) = parents.last() {
                let parent: &mut Entry = entries.get_mut::<usize>(parent)?;
                parent.children.push(number);
            }
            if *has_children {
                parents.push(number);
            }
        }
        reader.at = end;
    }
    Some((entries, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel of lines 10 to 20 of file 1 that calls `outer`, of file 2 from line 100 on, which calls `inner`, of line 50 there.
    ///
    /// The range of `inner` reaches over an instruction of `outer`.
    fn module() -> String {
        let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!(".b8 {byte}\n")).collect::<String>();
        let abbreviations = [
            // A unit; a function that is inlined; one that has code; one where it is inlined, with others in it or not.
            bytes(&[1, 0x11, 1, 0, 0]),
            bytes(&[2, 0x2e, 0, 0x3a, 0x0b, 0x3b, 0x0b, 0, 0]),
            bytes(&[3, 0x2e, 1, 0x11, 1, 0x12, 1, 0x3a, 0x0b, 0x3b, 0x0b, 0, 0]),
            bytes(&[4, 0x1d, 1, 0x31, 0x13, 0x11, 1, 0x12, 1, 0x58, 0x0b, 0x59, 0x0b, 0x57, 0x0b, 0, 0]),
            bytes(&[0]),
        ];
        let scope = |code: u8, rest: &[u8], low: &str, high: &str, last: &[u8]| {
            format!("{}{}.b64 {low}\n.b64 {high}\n{}", bytes(&[code]), bytes(rest), bytes(last))
        };
        let information = [
            // The unit begins at 11; `outer` is at 12 and `inner` at 15.
            bytes(&[1]),
            bytes(&[2, 2, 100]),
            bytes(&[2, 2, 50]),
            scope(3, &[], "$L__func_begin0", "$L__func_end0", &[1, 10]),
            scope(4, &[12, 0, 0, 0], "$L__tmp0", "$L__tmp2", &[1, 12, 9]),
            scope(4, &[15, 0, 0, 0], "$L__tmp0", "$L__tmp1", &[2, 104, 5]),
            bytes(&[0, 0, 0, 0]),
        ]
        .concat();
        format!(
            ".visible .entry k()\n{{\n$L__func_begin0:\n\t.loc\t1 11 1\n$L__tmp0:\n\t.loc\t2 51 3 prologue_end\n\tadd;\n\
             \t.loc\t2 103 7\n\tsub;\n$L__tmp1:\n$L__tmp2:\n\t.loc\t1 13 1\n\tret;\n$L__func_end0:\n}}\n\t.file\t1 \"a.rs\"\n\
             \t.section\t.debug_abbrev\n\t{{\n{}\t}}\n\t.section\t.debug_info\n\t{{\n.b32 200\n.b8 2\n.b8 0\n.b32 .debug_abbrev\n.b8 8\n\
             {information}\t}}\n$L__sec_end0:\n\t.section\t.debug_macinfo\t{{\t}}\n",
            abbreviations.concat()
        )
    }

    #[test]
    fn inlined_code_says_where() {
        let inlined = |at: &str| format!(", function_name $L__info_string0, inlined_at {at}");
        let expected = format!(
            ".visible .entry k()\n{{\n$L__func_begin0:\n\t.loc\t1 11 1\n$L__tmp0:\n\
             \t.loc\t1 12 9\n\t.loc\t2 104 5{}\n\t.loc\t2 51 3{}\n\tadd;\n\
             \t.loc\t1 12 9\n\t.loc\t2 103 7{}\n\tsub;\n$L__tmp1:\n$L__tmp2:\n\t.loc\t1 13 1\n\tret;\n$L__func_end0:\n}}\n\t.file\t1 \"a.rs\"\n",
            inlined("1 12 9"),
            inlined("2 104 5"),
            inlined("1 12 9")
        );
        assert_eq!(with_places(&module()), Some(expected));
    }

    #[test]
    fn a_module_without_dwarf_stays() {
        assert_eq!(with_places(".visible .entry k()\n{\n\t.loc\t1 11 1\n\tret;\n}\n"), None);
    }
}
