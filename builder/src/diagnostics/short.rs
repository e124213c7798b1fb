//! One error in a few lines: its text, the place, what is known of the cure.

use super::LINES;
use super::message::{Child, Message, Span};

/// The most lines of notes.
const NOTES: usize = 5;
/// What the library's types begin with where rustc spells them out.
const DEVICE: &str = "tilewright_device::";
/// How notes begin that say nothing more to the author.
const LEFT_OUT: [&str; 11] = [
    "an associated type was expected",
    "consider using `--verbose`",
    "expected associated type",
    "for more information",
    "required by a bound in",
    "required for ",
    "the following other types implement trait",
    "the full name for the type has been written",
    "the full type name has been written",
    "this error originates in",
    "two types coming from two different versions",
];

/// The error in short.
pub fn short(error: &Message) -> Vec<String> {
    match error.span() {
        Some(span) if error.is("E0080") && !span.is_of_the_author() => asserted(error),
        Some(span) if is_of_traits(error) => shown(error, span),
        _ => shortened(error.rendered.as_deref().unwrap_or(&error.message)),
    }
}

/// Whether it is one of those for which rustc tells the chain of bounds.
pub fn is_of_traits(error: &Message) -> bool {
    error.is("E0277") || error.is("E0271") || is_of_bounds(error)
}

/// Whether it is a method that is missing because of a bound.
pub fn is_of_bounds(error: &Message) -> bool {
    error.is("E0599") && error.message.contains("trait bounds were not satisfied")
}

/// The text, the line of source, the notes that help.
fn shown(error: &Message, span: &Span) -> Vec<String> {
    // The trait's own words, which are plainer.
    let own = error.is("E0277") && !error.message.starts_with("the trait bound");
    let number = span.line_start.to_string();
    let margin = " ".repeat(number.len());
    let mut lines = vec![error.head().replace(DEVICE, ""), format!("{margin}--> {}", span.place())];
    if let Some(text) = span.text.first() {
        let before = text.highlight_start.saturating_sub(1);
        // Of several lines the first is shown, to its end.
        let end = if span.text.len() > 1 {
            text.text.chars().count()
        } else {
            text.highlight_end.saturating_sub(1)
        };
        let marks = "^".repeat(end.saturating_sub(before).max(1));
        let label = error.spans.iter().find(|span| span.is_primary).and_then(|span| span.label.as_deref());
        let label = label.filter(|label| !(is_of_bounds(error) || own && label.starts_with("the trait `")));
        let label = label.unwrap_or_default();
        lines.push(format!("{number} | {}", text.text));
        lines.push(format!("{margin} | {}{marks} {label}", " ".repeat(before)).trim_end().to_owned());
    }
    let notes = error.children.iter().filter(|child| helps(child, own)).map(|child| note(child, &margin));
    let cure = cure(&error.message).map(|cure| format!("{margin} = help: {cure}"));
    let notes: Vec<_> = cure.into_iter().chain(notes).flat_map(|note| lines_of(&note)).take(NOTES).collect();
    lines.extend(notes);
    lines
}

/// An assertion of the library: its text, and the place or the type that it is about.
fn asserted(error: &Message) -> Vec<String> {
    let label = error.spans.iter().find(|span| span.is_primary).and_then(|span| span.label.as_deref());
    let evaluated = label.and_then(|label| label.strip_prefix("evaluation of `")?.split_once("` failed"));
    let of = evaluated.map_or("", |(of, _)| of);
    // Closures have their places in their names, and are the author's.
    let place = of.split_once("{closure@").and_then(|(_, rest)| rest.split(": ").next());
    let of = of.replace(DEVICE, "").replace("tile::", "").replace("layout::", "");
    let of = of.trim_end_matches("::{constant#0}");
    let about = match place {
        Some(place) => format!(" --> {place}"),
        None => format!("  = note: in `{of}`"),
    };
    vec![error.head().replacen("evaluation panicked: ", "", 1), about]
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Whether a note says more than the error does, whose text may be the trait's own.
fn helps(child: &Child, own: bool) -> bool {
    let text = &child.message;
    let of_trait = |what: &str| text.starts_with("the trait `") && text.contains(what);
    let listed = of_trait("` is implemented for `") || own && of_trait("is not implemented for `");
    let of_method = text.starts_with("found the following associated functions")
        || text.starts_with("candidate #")
        || text.starts_with("disambiguate ");
    !(listed || of_method || LEFT_OUT.iter().any(|part| text.starts_with(part)))
}

/// `= note: TEXT`, with what rustc would write instead.
fn note(child: &Child, margin: &str) -> String {
    let Child { message, level, spans } = child;
    let instead = spans.iter().find_map(|span| span.suggested_replacement.as_deref());
    let instead = instead.filter(|text| !text.contains('\n')).map(|text| format!(": `{}`", text.trim()));
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    format!("{margin} = {level}: {message}{}", instead.unwrap_or_default())
}

/// The cure where a policy is a parameter, so that nothing tells how its operands lie.
fn cure(message: &str) -> Option<String> {
    let (one, other) =
        message.strip_prefix("type mismatch resolving `")?.strip_suffix('`')?.split_once(" == ")?;
    let (of_one, of_other) = (operand(one), operand(other));
    let layout = match (&of_one, &of_other) {
        (None, None) => return None,
        (Some(_), Some(_)) => "Swizzle<128>",
        (Some(_), None) => other,
        (None, Some(_)) => one,
    };
    let bounds: Vec<_> = [of_one, of_other]
        .into_iter()
        .flatten()
        .map(|(policy, product, operand)| format!("{policy}: Gemm<{product}, {operand} = {layout}>"))
        .collect();
    Some(format!(
        "how a tile lies is not known where the policy is generic: say it in the where clause, for each product that reads the tile: `{}`",
        bounds.join(", ")
    ))
}

/// P, `f16, 128, 128, 64` and A of `<P as Gemm<f16, 128, 128, 64>>::A`, where P is a parameter.
fn operand(text: &str) -> Option<(&str, &str, &str)> {
    let (policy, rest) = text.strip_prefix('<')?.split_once(" as Gemm<")?;
    let (product, operand) = rest.split_once(">>::")?;
    let is_name = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    (is_name(policy) && is_name(operand)).then_some((policy, product, operand))
}

/// The begin and the notes of what rustc writes.
fn shortened(rendered: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut kept = true;
    for line in rendered.lines() {
        let text = line.trim_start().trim_start_matches("= ");
        let begins = (line != text && line.trim_start().starts_with("= ") || !line.starts_with(' '))
            && (text.starts_with("note: ") || text.starts_with("help: "));
        if begins {
            let said = &text["note: ".len()..];
            kept = !LEFT_OUT.iter().any(|part| said.starts_with(part));
        }
        if kept && !line.trim().is_empty() {
            lines.push(line.to_owned());
        }
    }
    // The place is in the first of them, and what helps most often in the last.
    let beyond = lines.len().saturating_sub(LINES);
    if beyond > 0 {
        let notes = lines
            .iter()
            .rposition(|line| !line.trim_start().starts_with("= "))
            .map_or(0, |at| lines.len() - 1 - at);
        let first = LINES.saturating_sub(notes.min(LINES / 2));
        let last = lines.len() - (LINES - first);
        lines.drain(first..last);
    }
    lines
}
