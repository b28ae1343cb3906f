//! The thread that computes plans and frees large objects, so that the loop can serve others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

use europa_control::{Plan, Question};
use europa_plan::Failure;

use super::facts::Facts;
use crate::control::Control;
use crate::ports::Port;
use crate::{Doing, NodeError};

/// Work for the thread.
enum Task {
    Plan(Question),
    /// Large memory.
    Free(Box<dyn Send>),
}

/// The loop's end.
pub(crate) struct PlanThread(Sender<Task>);

impl PlanThread {
    /// Starts the thread; plans go to the loop.
    pub(crate) fn start(control: Control) -> Result<Self, NodeError> {
        let (tasks, come) = channel();
        let thread = std::thread::Builder::new().name("plans".into());
        thread.spawn(move || work(&come, &control)).doing("starting the thread `plans`")?;
        Ok(Self(tasks))
    }

    /// Computes the answer to a question for the engine.
    pub(crate) fn plan(&self, question: Question) {
        // The thread lives as long as the loop.
        let _ = self.0.send(Task::Plan(question));
    }

    /// Frees memory.
    pub(crate) fn free(&self, what: impl Send + 'static) {
        self.free_boxed(Box::new(what));
    }

    /// Frees memory.
    pub(crate) fn free_boxed(&self, what: Box<dyn Send>) {
        let _ = self.0.send(Task::Free(what));
    }
}

fn work(tasks: &Receiver<Task>, control: &Control) {
    let mut last: Option<Facts> = None;
    for task in tasks {
        match task {
            Task::Plan(question) => {
                let ticket = question.ticket();
                let look = |port: &europa_api::Port| Port::peek(port).map_err(Failure::from);
                let documents = question.documents().clone();
                // The engine waits for an answer.
                let answer = AssertUnwindSafe(|| {
                    let known = last.take().filter(|facts| facts.are_of(&documents));
                    (known.unwrap_or_else(|| Facts::of(&documents)), question.answer(look))
                });
                match catch_unwind(answer) {
                    Ok((facts, plan)) => {
                        last = Some(facts.clone());
                        control.tell(move |node| node.change.planned(plan, Some(facts)));
                    }
                    Err(_) => {
                        let plan = Plan::failed(ticket);
                        control.tell(move |node| node.change.planned(plan, None));
                    }
                }
            }
            Task::Free(what) => drop(what),
        }
    }
}
