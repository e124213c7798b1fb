//! An opcode's parts, each of which somebody must take.

use super::types::Type;

/// `ld.global.v4.b32`: a name and modifiers.
pub(super) struct Opcode<'t> {
    name: &'t str,
    modifiers: Vec<Option<&'t str>>,
}

impl<'t> Opcode<'t> {
    pub(super) fn new(opcode: &'t str) -> Self {
        let mut parts = opcode.split('.');
        Self { name: parts.next().unwrap_or(""), modifiers: parts.map(Some).collect() }
    }

    pub(super) fn name(&self) -> &'t str {
        self.name
    }

    /// Whether the modifier is there.
    pub(super) fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&Some(modifier))
    }

    /// Takes the modifier if it is there.
    pub(super) fn flag(&mut self, modifier: &str) -> bool {
        let found = self.modifiers.iter_mut().find(|slot| **slot == Some(modifier));
        found.and_then(Option::take).is_some()
    }

    /// Takes the first of these that is there.
    pub(super) fn any<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        choices.iter().find(|(modifier, _)| self.flag(modifier)).map(|&(_, value)| value)
    }

    /// Takes the first modifier that is one of these.
    pub(super) fn first_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        self.modifiers.iter_mut().find_map(|slot| {
            let &(_, value) = choices.iter().find(|(modifier, _)| *slot == Some(modifier))?;
            *slot = None;
            Some(value)
        })
    }

    /// Takes the next modifier, whatever it is.
    pub(super) fn next(&mut self) -> Option<&'t str> {
        self.modifiers.iter_mut().find_map(Option::take)
    }

    /// Takes the next modifier that is a type.
    pub(super) fn ty(&mut self) -> Result<Type, String> {
        let mut types =
            self.modifiers.iter_mut().filter(|slot| slot.is_some_and(|m| Type::parse(m).is_some()));
        let taken = types.next().and_then(Option::take).and_then(Type::parse);
        taken.ok_or_else(|| "has no type that is emulated".into())
    }

    /// The error of a type that an instruction has not, or that is not emulated.
    pub(super) fn refuse<T>(&self, ty: Type) -> Result<T, String> {
        Err(format!("`{}` of type {ty:?} is not emulated", self.name))
    }

    /// An error if a modifier is left.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        match self.next() {
            Some(left) => Err(format!("modifier `.{left}` is not emulated here")),
            None => Ok(()),
        }
    }
}
