//! Resolves names: turns statements into definitions. Scopes are lexical and names are visible only
//! after their declaration, so one pass is enough.

mod parameter;
mod statement;

pub(crate) use parameter::assign_arguments;

use std::collections::HashMap;
use std::rc::Rc;

use crate::ast::{Ast, Body, Class, Compound, Ports, Stage, Statement, Target};
use crate::classes::{ElementClasses, closest};
use crate::connect::pair;
use crate::definition::{ClassRef, Definition, Role};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::graph::Requirement;
use crate::lexer::Config;
use crate::source::Landmark;
use crate::text::split_arguments;

/// Most connections of one configuration, written or expanded.
pub(crate) const MAX_LINKS: usize = 1 << 20;
/// Most errors that get a hint: each compares a name with all others.
const MAX_HINTS: usize = 20;
/// Finds a library: its name becomes the name of a file and its text.
pub type LibraryLoader<'a> = dyn Fn(&str) -> Option<(String, String)> + 'a;

/// All that the resolver found.
pub(crate) struct Program {
    /// Compound bodies; [`ClassRef::Compound`] is an index of these.
    pub(crate) definitions: Vec<Definition>,
    pub(crate) file: Definition,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) provisions: Vec<String>,
    pub(crate) warnings: Diagnostics,
}

struct Resolver<'a> {
    classes: &'a dyn ElementClasses,
    library: Option<&'a LibraryLoader<'a>>,
    libraries: Vec<String>,
    /// Class names by scope, the innermost last.
    scopes: Vec<HashMap<String, ClassRef>>,
    /// Definitions that are being read; the innermost is last.
    open: Vec<Definition>,
    program: Program,
    links: usize,
    errors: &'a mut Diagnostics,
}

/// A node of a stage whose element is known.
struct Resolved {
    element: usize,
    inputs: Ports,
    outputs: Ports,
}

/// A node of a stage that is being resolved.
struct Pending {
    name: String,
    /// The class, if the name names a class.
    own: Option<ClassRef>,
    /// The class after `::`.
    declared: Option<ClassRef>,
    config: Option<Config>,
    inputs: Ports,
    outputs: Ports,
    at: Landmark,
    bare: bool,
    implicit: bool,
}

pub(crate) fn resolve(
    ast: &Ast,
    classes: &dyn ElementClasses,
    library: Option<&LibraryLoader<'_>>,
    errors: &mut Diagnostics,
) -> Program {
    let start = Landmark {
        source: ast.source.clone(),
        file: ast.source.name().clone(),
        line: 1,
        span: Default::default(),
    };
    let mut resolver = Resolver {
        classes,
        library,
        libraries: Vec::new(),
        scopes: vec![HashMap::new()],
        open: Vec::new(),
        program: Program {
            definitions: Vec::new(),
            file: Definition::new("", &start, 0),
            requirements: Vec::new(),
            provisions: Vec::new(),
            warnings: ast.warnings.clone(),
        },
        links: 0,
        errors,
    };
    resolver.statements(&ast.statements);
    let mut program = resolver.program;
    program.file.settle_names();
    program
}

impl Resolver<'_> {
    fn definition(&mut self) -> &mut Definition {
        self.open.last_mut().unwrap_or(&mut self.program.file)
    }

    fn lookup(&self, name: &str) -> Option<ClassRef> {
        let scoped = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        scoped.cloned().or_else(|| {
            let known = !name.is_empty() && self.classes.contains(name);
            known.then(|| ClassRef::Primitive(Rc::from(name)))
        })
    }

    fn bind(&mut self, name: &str, class: ClassRef) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), class);
        }
    }

    /// The class of this name; reports an error if it does not exist.
    fn require_class(&mut self, name: &str, at: &Landmark) -> ClassRef {
        if let Some(class) = self.lookup(name) {
            return class;
        }
        let help = self.class_hint(name);
        let error = Diagnostic::error(at, format!("unknown element class '{name}'"));
        self.errors.push(error.help(help));
        self.bind(name, ClassRef::Unknown);
        ClassRef::Unknown
    }

    fn class_hint(&self, name: &str) -> Option<String> {
        if self.errors.errors() > MAX_HINTS {
            return None;
        }
        if self.open.iter().any(|definition| definition.name == name) {
            return Some(format!(
                "inside its own definition '{name}' means an earlier class of that name"
            ));
        }
        let own = self.scopes.iter().flat_map(|scope| scope.keys());
        let names = own.map(String::as_str).chain(self.classes.names());
        closest(name, names).map(|meant| format!("did you mean '{meant}'?"))
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Connection(stages) => self.connection(stages),
                Statement::ElementClass { name, class, .. } => {
                    let class = match class {
                        Some(Class::Name(other, at)) => self.require_class(other, at),
                        Some(Class::Compound(compound)) => self.compound(compound, name),
                        Some(Class::Missing) | None => ClassRef::Unknown,
                    };
                    self.bind(name, class);
                }
                Statement::Require(config) => self.require(config),
                Statement::Provide(config) => {
                    let provided = split_arguments(&config.text).into_iter().map(|a| a.text);
                    self.program.provisions.extend(provided);
                }
                Statement::Define(config) => self.define(config),
            }
        }
    }

    fn connection(&mut self, stages: &[Stage]) {
        let mut last: Option<Vec<Resolved>> = None;
        for stage in stages {
            let current = self.stage(stage);
            match (&last, stage.arrow) {
                (Some(last), Some(arrow)) => {
                    let outputs = last.iter().map(|r| (r.element, &r.outputs)).collect();
                    let inputs = current.iter().map(|r| (r.element, &r.inputs)).collect();
                    let (pairs, errors) = pair(&outputs, &inputs, arrow);
                    for error in errors {
                        self.errors.error(&stage.at, error);
                    }
                    if !self.take_links(pairs.len(), &stage.at) {
                        return;
                    }
                    for (from, to) in pairs {
                        self.definition().connect(from, to, &stage.at);
                    }
                }
                _ => {
                    if current.iter().any(|r| !r.inputs.is_absent()) {
                        let message = "input ports ignored at start of chain";
                        self.errors.error(&stage.at, message);
                    }
                }
            }
            last = Some(current);
        }
        if let (Some(last), Some(stage)) = (last, stages.last())
            && last.iter().any(|r| !r.outputs.is_absent())
        {
            let message = "output ports ignored at end of chain";
            self.errors.error(&stage.at, message);
        }
    }

    fn take_links(&mut self, count: usize, at: &Landmark) -> bool {
        let before = self.links;
        self.links = self.links.saturating_add(count);
        if before <= MAX_LINKS && self.links > MAX_LINKS {
            self.errors.error(at, "too many connections");
        }
        self.links <= MAX_LINKS
    }

    fn stage(&mut self, stage: &Stage) -> Vec<Resolved> {
        let mut pending: Vec<Pending> = Vec::new();
        for node in &stage.nodes {
            let mut inputs = node.inputs.clone();
            let mut outputs = node.outputs.clone();
            let mut implicit = false;
            let (name, own) = match &node.target {
                Target::Name(name) => (name.clone(), self.lookup(name)),
                Target::ImplicitInput | Target::ImplicitOutput => {
                    implicit = true;
                    let is_input = matches!(node.target, Target::ImplicitInput);
                    let name = if is_input { "input" } else { "output" };
                    (name.to_owned(), None)
                }
                Target::Compound(compound) => (String::new(), Some(self.compound(compound, ""))),
                Target::Group(statements, end) => {
                    let (name, counts) = self.group(statements, &node.at, end);
                    for (ports, count) in [(&mut inputs, counts.0), (&mut outputs, counts.1)] {
                        if ports.is_absent() && self.take_links(count as usize, &node.at) {
                            ports.list.extend(0..count);
                        }
                    }
                    (name, None)
                }
            };
            let declared = node.class.as_ref().map(|class| match class {
                Class::Name(name, at) => self.require_class(name, at),
                Class::Compound(compound) => self.compound(compound, ""),
                Class::Missing => ClassRef::Unknown,
            });
            if let Some(config) = &node.config
                && self.definition().map.contains_key(&name)
            {
                let message = "configuration string ignored on element reference";
                self.errors.error(&config.at, message);
            }
            pending.push(Pending {
                name,
                own,
                declared,
                config: node.config.clone(),
                inputs,
                outputs,
                at: node.at.clone(),
                bare: node.is_bare(),
                implicit,
            });
        }
        spread_declaration(stage, &mut pending);
        pending.into_iter().map(|p| self.settle(p)).collect()
    }

    /// Makes or finds the element of a node.
    fn settle(&mut self, node: Pending) -> Resolved {
        let Pending { mut name, mut own, declared, config, at, .. } = node;
        let existing = self.definition().map.get(&name).copied();
        let element = match (existing, &own) {
            (Some(index), None) => {
                if declared.is_some() {
                    self.redeclared(&name, index, &at);
                }
                index
            }
            _ => {
                if own.is_some() && declared.is_some() {
                    let message = format!("class '{name}' used as element name");
                    self.errors.error(&at, message);
                } else if own.is_none() && declared.is_none() {
                    self.undeclared(&name, &at);
                    own = Some(ClassRef::Unknown);
                }
                if own.is_some() {
                    name = self.definition().anonymous_name(&name);
                } else {
                    self.check_name(&name, &at);
                }
                let class = own.or(declared).unwrap_or(ClassRef::Unknown);
                self.definition().element(&name, Role::Element(class), config, &at)
            }
        };
        Resolved { element, inputs: node.inputs, outputs: node.outputs }
    }

    fn redeclared(&mut self, name: &str, index: usize, at: &Landmark) {
        let mut error = Diagnostic::error(at, format!("redeclaration of element '{name}'"));
        if let Some(old) = self.definition().elements.get(index)
            && matches!(old.role, Role::Element(_))
        {
            let place = old.at.clone();
            error = error.note(&place, format!("element '{name}' previously declared here"));
        }
        self.errors.push(error);
    }

    fn element_hint(&self, name: &str) -> Option<String> {
        if self.errors.errors() > MAX_HINTS {
            return None;
        }
        let own = self.open.last().unwrap_or(&self.program.file).map.keys();
        let own = own.map(String::as_str).filter(|name| !name.starts_with(';'));
        closest(name, own).map(|meant| format!("did you mean the element '{meant}'?"))
    }

    fn undeclared(&mut self, name: &str, at: &Landmark) {
        let hint = self.element_hint(name).or_else(|| self.class_hint(name));
        let few = self.errors.errors() <= MAX_HINTS;
        let help = hint.or_else(|| {
            few.then(|| format!("no class is called so; declare it first: `{name} :: CLASS`"))
        });
        let error = Diagnostic::error(at, format!("undeclared element '{name}'"));
        self.errors.push(error.help(help));
        self.bind(name, ClassRef::Unknown);
    }

    fn check_name(&mut self, name: &str, at: &Landmark) {
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if name.split('/').any(digits) {
            let message = format!("element name '{name}' has all-digit component");
            self.errors.error(at, message);
        }
    }

    /// Reads a group; returns its name and its numbers of inputs and outputs.
    fn group(
        &mut self,
        statements: &[Statement],
        at: &Landmark,
        end: &Landmark,
    ) -> (String, (u32, u32)) {
        let definition = self.definition();
        let name = definition.anonymous_name("");
        let first_link = definition.links.len();
        definition.element(&name, Role::Group, None, at);
        let input = definition.element(&format!("{name}/input"), Role::GroupEnd, None, at);
        let output = definition.element(&format!("{name}/output"), Role::GroupEnd, None, at);
        let outer_input = definition.map.insert("input".to_owned(), input);
        let outer_output = definition.map.insert("output".to_owned(), output);
        self.statements(statements);
        let definition = self.open.last_mut().unwrap_or(&mut self.program.file);
        let mut check = |index, is_output| {
            let owner = "<anonymous group>";
            definition.check_pseudo(index, is_output, first_link, owner, end, self.errors)
        };
        let counts = (check(input, false), check(output, true));
        for (word, outer) in [("input", outer_input), ("output", outer_output)] {
            match outer {
                Some(index) => definition.map.insert(word.to_owned(), index),
                None => definition.map.remove(word),
            };
        }
        (name, counts)
    }

    /// Reads the bodies of a compound.
    fn compound(&mut self, compound: &Compound, name: &str) -> ClassRef {
        let extension = compound.extends.as_ref().map(|at| match self.lookup(name) {
            Some(class) => class,
            None => {
                let message = format!("cannot extend unknown element class '{name}'");
                self.errors.error(at, message);
                ClassRef::Unknown
            }
        });
        let mut ids = Vec::new();
        for body in &compound.bodies {
            let definition = self.body(body, name);
            ids.push(self.program.definitions.len());
            self.program.definitions.push(definition);
        }
        for (position, &id) in ids.iter().enumerate() {
            let next = ids.get(position + 1).map(|&next| ClassRef::Compound(next));
            if let Some(definition) = self.program.definitions.get_mut(id) {
                definition.overload = next.or_else(|| extension.clone());
            }
        }
        ids.first().map_or(ClassRef::Unknown, |&id| ClassRef::Compound(id))
    }

    fn body(&mut self, body: &Body, name: &str) -> Definition {
        let mut definition = Definition::new(name, &body.at, self.open.len() + 1);
        for word in ["input", "output"] {
            definition.element(word, Role::Pseudo, None, &body.at);
        }
        definition.uncounted = 2;
        self.formals(body, &mut definition);
        self.open.push(definition);
        self.scopes.push(HashMap::new());
        self.statements(&body.statements);
        self.scopes.pop();
        let Some(mut definition) = self.open.pop() else {
            return Definition::new(name, &body.at, 0);
        };
        let owner = definition.printable_name().to_owned();
        definition.inputs = definition.check_pseudo(0, false, 0, &owner, &body.at, self.errors);
        definition.outputs = definition.check_pseudo(1, true, 0, &owner, &body.at, self.errors);
        definition.settle_names();
        definition
    }
}

/// The statement `a, b, c :: Class(config)` declares all three.
fn spread_declaration(stage: &Stage, nodes: &mut [Pending]) {
    let alone = stage.arrow.is_none() && !stage.followed;
    let plain = nodes.iter().all(|n| n.inputs.is_absent() && n.outputs.is_absent() && !n.implicit);
    let Some((last, others)) = nodes.split_last_mut() else {
        return;
    };
    if alone && plain && last.declared.is_some() && others.iter().all(|n| n.bare) {
        for node in others {
            node.declared = last.declared.clone();
            node.config = last.config.clone();
        }
    }
}
