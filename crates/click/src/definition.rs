//! The resolver's result for a file or one body of a compound element: its elements and
//! connections. All names are looked up; nothing is expanded yet.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::diagnostic::Diagnostics;
use crate::lexer::Config;
use crate::source::Landmark;

/// A class name, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClassRef {
    /// One of the caller's classes.
    Primitive(Rc<str>),
    /// Index of a [`Definition`], the first of several overloaded ones.
    Compound(usize),
    /// No class; the error has been reported.
    Unknown,
}

/// The kind of a definition's element.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// An element of a class.
    Element(ClassRef),
    /// The compound's own `input` and `output`.
    Pseudo,
    /// A group, which its two pseudo-elements follow.
    Group,
    /// The pseudo-element of a group.
    GroupEnd,
}

/// An element of a definition.
#[derive(Clone, Debug)]
pub(crate) struct Proto {
    /// The element's name. It starts with `;` while its generated number is not final.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) config: Option<Config>,
    pub(crate) at: Landmark,
    /// Number of inputs and outputs that connections use.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
}

/// A connection between two elements, by index, and port.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: (usize, u32),
    pub(crate) to: (usize, u32),
    pub(crate) at: Landmark,
}

/// A file, or one body of a compound.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Empty for a file and for an anonymous compound.
    pub(crate) name: String,
    pub(crate) at: Landmark,
    /// 0 for the file, 1 for its compounds, and so on.
    pub(crate) depth: usize,
    /// Keyword and variable of each parameter.
    pub(crate) formals: Vec<(String, String)>,
    /// The value of `define`.
    pub(crate) variables: Vec<(String, String)>,
    /// Names of both.
    pub(crate) variable_names: HashSet<String>,
    pub(crate) elements: Vec<Proto>,
    pub(crate) map: HashMap<String, usize>,
    pub(crate) links: Vec<Link>,
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    /// The next overload to try.
    pub(crate) overload: Option<ClassRef>,
    /// Pseudo-elements that generated numbers do not count.
    pub(crate) uncounted: usize,
}

impl Definition {
    pub(crate) fn new(name: &str, at: &Landmark, depth: usize) -> Definition {
        Definition {
            name: name.to_owned(),
            at: at.clone(),
            depth,
            formals: Vec::new(),
            variables: Vec::new(),
            variable_names: HashSet::new(),
            elements: Vec::new(),
            map: HashMap::new(),
            links: Vec::new(),
            inputs: 0,
            outputs: 0,
            overload: None,
            uncounted: 0,
        }
    }

    pub(crate) fn printable_name(&self) -> &str {
        match self.name.as_str() {
            "" => "<anonymous>",
            name => name,
        }
    }

    /// The element with this name; makes it if it does not exist.
    pub(crate) fn element(
        &mut self,
        name: &str,
        role: Role,
        config: Option<Config>,
        at: &Landmark,
    ) -> usize {
        if let Some(&index) = self.map.get(name) {
            return index;
        }
        let index = self.elements.len();
        self.map.insert(name.to_owned(), index);
        self.elements.push(Proto {
            name: name.to_owned(),
            role,
            config,
            at: at.clone(),
            inputs: 0,
            outputs: 0,
        });
        index
    }

    /// A provisional name for an element without one: the user may declare `Class@3` further down.
    pub(crate) fn anonymous_name(&self, class: &str) -> String {
        let number = self.elements.len() - self.uncounted + 1;
        format!(";{class}@{number}")
    }

    /// Finalises generated names; increases the number of a name that the user has declared.
    pub(crate) fn settle_names(&mut self) {
        // The last run of used numbers of each class, so that a search does not pass thousands of
        // them again.
        let mut taken: HashMap<String, (u64, u64)> = HashMap::new();
        for index in 0..self.elements.len() {
            let Some(element) = self.elements.get_mut(index) else {
                continue;
            };
            let Some(generated) = element.name.strip_prefix(';') else {
                continue;
            };
            // `Class@3`, or `@3/input` of a group.
            let (stem, rest) = generated.rsplit_once('@').unwrap_or((generated, ""));
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, suffix) = rest.split_at(digits);
            let key = format!("{stem}@{suffix}");
            let first: u64 = number.parse().unwrap_or(0);
            let mut number = first;
            if let Some(&(from, to)) = taken.get(&key)
                && (from..=to).contains(&number)
            {
                number = to;
            }
            let mut name = format!("{stem}@{number}{suffix}");
            while self.map.contains_key(&name) {
                number = number.saturating_add(1);
                name = format!("{stem}@{number}{suffix}");
            }
            if number > first {
                taken.insert(key, (first, number));
            }
            self.map.insert(name.clone(), index);
            element.name = name;
        }
    }

    pub(crate) fn connect(&mut self, from: (usize, u32), to: (usize, u32), at: &Landmark) {
        if let Some(element) = self.elements.get_mut(from.0) {
            element.outputs = element.outputs.max(from.1 + 1);
        }
        if let Some(element) = self.elements.get_mut(to.0) {
            element.inputs = element.inputs.max(to.1 + 1);
        }
        self.links.push(Link { from, to, at: at.clone() });
    }

    /// Checks how the links since `first_link` use a pseudo-element; returns
    /// how many ports it has.
    pub(crate) fn check_pseudo(
        &self,
        index: usize,
        is_output: bool,
        first_link: usize,
        owner: &str,
        at: &Landmark,
        errors: &mut Diagnostics,
    ) -> u32 {
        let Some(element) = self.elements.get(index) else {
            return 0;
        };
        let (count, wrong, names) = if is_output {
            (element.inputs, element.outputs, ["output", "input"])
        } else {
            (element.outputs, element.inputs, ["input", "output"])
        };
        let mut used = vec![false; count as usize];
        for link in self.links.iter().skip(first_link) {
            let (end, port) = if is_output { link.to } else { link.from };
            if end == index
                && let Some(slot) = used.get_mut(port as usize)
            {
                *slot = true;
            }
        }
        let [name, other] = names;
        if wrong > 0 {
            errors
                .error(at, format!("'{owner}' pseudoelement '{name}' may only be used as {other}"));
        }
        for port in (0..used.len()).filter(|&port| used.get(port) == Some(&false)) {
            errors.error(at, format!("'{owner}' {name} {port} missing"));
        }
        count
    }
}
