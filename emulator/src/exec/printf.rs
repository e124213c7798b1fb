//! The format of C's `printf`, as CUDA has it.

use crate::error::Reason;

/// What a conversion takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
    /// The address of a text.
    String,
}

/// What stands between `%` and the conversion's letter.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// `l`s, less `h`s.
    length: i32,
}

/// Bytes of a text at most: as many as the buffer has that CUDA gives kernels to print to.
const LONGEST: usize = 1 << 20;

/// The text of a format; `take` gives the next argument, and the bytes that it is the address of if it is a text.
pub(super) fn format(
    template: &[u8],
    mut take: impl FnMut(Argument) -> Result<(u64, Vec<u8>), Reason>,
) -> Result<Vec<u8>, Reason> {
    let mut text = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        text.extend(&rest[..at]);
        let (options, letter, after) = options(&rest[at + 1..]);
        let unknown = || {
            let end = rest.len() - after.len();
            let conversion = String::from_utf8_lossy(&rest[at..end]);
            Reason::misuse(format!("vprintf with `{conversion}`, which is not emulated"))
        };
        match letter {
            b'%' => text.push(b'%'),
            b's' => {
                let (_, mut string) = take(Argument::String)?;
                string.truncate(options.precision.unwrap_or(string.len()));
                pad(&mut text, &options, &string);
            }
            b'c' => pad(&mut text, &options, &[take(Argument::Word)?.0 as u8]),
            b'p' => pad(&mut text, &options, format!("{:#x}", take(Argument::Double)?.0).as_bytes()),
            b'd' | b'i' | b'u' | b'o' | b'x' | b'X' => {
                let wide = options.length > 0;
                let (value, _) = take(if wide { Argument::Double } else { Argument::Word })?;
                integer(&mut text, &options, letter, value);
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => {
                let value = f64::from_bits(take(Argument::Double)?.0);
                float(&mut text, &options, letter, value);
            }
            _ => return Err(unknown()),
        }
        if text.len() > LONGEST {
            return Err(Reason::misuse(format!("vprintf of more than {LONGEST} bytes at once")));
        }
        rest = after;
    }
    text.extend(rest);
    Ok(text)
}

/// The options, the letter after them, 0 if there is none, and what follows.
fn options(text: &[u8]) -> (Options, u8, &[u8]) {
    let mut options = Options::default();
    let mut rest = text;
    let mut next = |accepts: &dyn Fn(u8) -> bool| {
        let (&first, after) = rest.split_first().filter(|(first, _)| accepts(**first))?;
        rest = after;
        Some(first)
    };
    while let Some(flag) = next(&|byte| b"-+ #0".contains(&byte)) {
        match flag {
            b'-' => options.left = true,
            b'+' => options.plus = true,
            b' ' => options.space = true,
            b'#' => options.alternate = true,
            _ => options.zeros = true,
        }
    }
    let digit = |byte: u8| byte.is_ascii_digit();
    let append = |number: usize, digit: u8| (10 * number + usize::from(digit - b'0')).min(4096);
    while let Some(byte) = next(&digit) {
        options.width = append(options.width, byte);
    }
    if next(&|byte| byte == b'.').is_some() {
        let mut precision = 0;
        while let Some(byte) = next(&digit) {
            precision = append(precision, byte);
        }
        options.precision = Some(precision);
    }
    while let Some(length) = next(&|byte| b"hlzjt".contains(&byte)) {
        options.length += if length == b'h' { -1 } else { 1 };
    }
    let letter = next(&|_| true).unwrap_or(0);
    (options, letter, rest)
}

fn integer(text: &mut Vec<u8>, options: &Options, letter: u8, value: u64) {
    let signed = matches!(letter, b'd' | b'i');
    let value = match (options.length, signed) {
        (1.., true) => value as i64,
        (0, true) => i64::from(value as i32),
        (-1, true) => i64::from(value as i16),
        (_, true) => i64::from(value as i8),
        (1.., false) => value as i64,
        (0, false) => i64::from(value as u32),
        (-1, false) => i64::from(value as u16),
        (_, false) => i64::from(value as u8),
    };
    let negative = signed && value < 0;
    let magnitude = if signed { value.unsigned_abs() } else { value as u64 };
    let (prefix, digits) = match letter {
        b'x' => ("0x", format!("{magnitude:x}")),
        b'X' => ("0X", format!("{magnitude:X}")),
        b'o' => ("0", format!("{magnitude:o}")),
        _ => ("", magnitude.to_string()),
    };
    let prefix = if options.alternate && magnitude != 0 && !prefix.is_empty() {
        prefix
    } else {
        sign(options, signed, negative)
    };
    let digits = match options.precision {
        Some(precision) => format!("{digits:0>precision$}"),
        None => digits,
    };
    // A precision says how many digits there are: zeros do not fill the width too.
    let options = Options { zeros: options.zeros && options.precision.is_none(), ..*options };
    number(text, &options, prefix, &digits);
}

fn float(text: &mut Vec<u8>, options: &Options, letter: u8, value: f64) {
    let prefix = sign(options, true, value.is_sign_negative() && !value.is_nan());
    let precision = options.precision.unwrap_or(6);
    let magnitude = value.abs();
    let digits = if !value.is_finite() {
        if value.is_nan() { "nan".to_owned() } else { "inf".to_owned() }
    } else {
        match letter.to_ascii_lowercase() {
            b'f' => format!("{magnitude:.precision$}"),
            b'e' => exponential(magnitude, precision),
            _ => shortest(magnitude, precision.max(1), options.alternate),
        }
    };
    let digits = if letter.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
    let options = Options { zeros: options.zeros && value.is_finite(), ..*options };
    number(text, &options, prefix, &digits);
}

/// `1.500000e+00`.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// So many digits, without or with an exponent, and without zeros at the end.
fn shortest(value: f64, digits: usize, keeps_zeros: bool) -> String {
    let text = format!("{value:.*e}", digits - 1);
    let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    let plain = (-4..most).contains(&exponent);
    let text = if plain {
        format!("{value:.*}", usize::try_from(most - 1 - exponent).unwrap_or(0))
    } else {
        exponential(value, digits - 1)
    };
    if keeps_zeros {
        return text;
    }
    let (mantissa, exponent) = text.split_once('e').map_or((text.as_str(), None), |(m, e)| (m, Some(e)));
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    exponent.map_or_else(|| mantissa.to_owned(), |exponent| format!("{mantissa}e{exponent}"))
}

fn sign(options: &Options, signed: bool, negative: bool) -> &'static str {
    match (negative, options.plus && signed, options.space && signed) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

/// A number in its width: zeros go between its sign and its digits.
fn number(text: &mut Vec<u8>, options: &Options, prefix: &str, digits: &str) {
    let width = options.width.saturating_sub(prefix.len());
    let digits =
        if options.zeros && !options.left { format!("{digits:0>width$}") } else { digits.to_owned() };
    pad(text, options, format!("{prefix}{digits}").as_bytes());
}

fn pad(text: &mut Vec<u8>, options: &Options, what: &[u8]) {
    let spaces = options.width.saturating_sub(what.len());
    if options.left {
        text.extend(what);
    }
    text.extend(std::iter::repeat_n(b' ', spaces));
    if !options.left {
        text.extend(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a format of one argument.
    fn shown(template: &str, argument: u64) -> String {
        let text = format(template.as_bytes(), |_| Ok((argument, b"text".to_vec()))).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn integers() {
        let minus = u64::from(-42_i32 as u32);
        assert_eq!(shown("%d|", minus), "-42|");
        assert_eq!(shown("%u", minus), "4294967254");
        assert_eq!(shown("%x %%", minus), "ffffffd6 %");
        assert_eq!(shown("%lld", -42_i64 as u64), "-42");
        assert_eq!(shown("%#lld", -42_i64 as u64), "-42");
        assert_eq!(shown("%llu", u64::MAX), "18446744073709551615");
        assert_eq!(shown("%hhd", 0x1ff), "-1");
        assert_eq!(shown("%6d|%-6d|%06d", minus), "   -42|-42   |-00042");
        assert_eq!(shown("%+d % d %.4d", 7), "+7  7 0007");
        assert_eq!(shown("%#x %#o %X", 255), "0xff 0377 FF");
        assert_eq!(shown("%c%5s|%.2s", 65), "A text|te");
        assert_eq!(shown("%p", 4096), "0x1000");
        assert_eq!(shown(&"%4096d".repeat(256), 1).len(), LONGEST);
        let longer = format("%4096d".repeat(257).as_bytes(), |_| Ok((1, Vec::new())));
        assert_eq!(longer.unwrap_err().to_string(), "vprintf of more than 1048576 bytes at once");
    }

    #[test]
    fn floats() {
        let float = |template: &str, value: f64| shown(template, value.to_bits());
        assert_eq!(float("%f", 1.5), "1.500000");
        assert_eq!(float("%.2f|%8.2f|%-8.2f|%08.2f", -2.71459), "-2.71|   -2.71|-2.71   |-0002.71");
        assert_eq!(float("%e %.1E", 12345.678), "1.234568e+04 1.2E+04");
        assert_eq!(float("%g", 0.0), "0");
        assert_eq!(float("%g", 100000.0), "100000");
        assert_eq!(float("%g", 1e6), "1e+06");
        assert_eq!(float("%g", 1e-5), "1e-05");
        assert_eq!(float("%g", 0.0001), "0.0001");
        assert_eq!(float("%.9g", 0.1_f32.into()), "0.100000001");
        assert_eq!(float("%g %f", f64::NAN), "nan nan");
        assert_eq!(float("%5g|%05f", f64::NEG_INFINITY), " -inf| -inf");
        // Rounding carries into the exponent.
        assert_eq!(float("%.2g", 99.9), "1e+02");
    }

    #[test]
    fn what_is_not_known_is_named() {
        let error = format(b"%d %5a", |_| Ok((0, Vec::new()))).unwrap_err();
        assert_eq!(error.to_string(), "vprintf with `%5a`, which is not emulated");
        assert!(format(b"100%", |_| Ok((0, Vec::new()))).unwrap_err().to_string().contains("`%`"));
    }
}
