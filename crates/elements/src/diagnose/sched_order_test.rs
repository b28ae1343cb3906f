//! # SchedOrderTest
//!
//! ## Synopsis
//! `SchedOrderTest(ID [, SIZE, LIMIT, STOP])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Always has work, and notes when it has its turn: all elements of this class write their IDs into
//! one list.
//!
//! ## Arguments
//! - ID: a number.
//! - SIZE (keyword): length of the list, default 1024; the largest counts.
//! - LIMIT (keyword): no more than this many turns; 0, the default, means any number.
//! - STOP (keyword): stop the router at the next turn once the list is full; default false.
//!
//! ## Handlers
//! - `order` (read): the list.
//!
//! ## See also
//! `ScheduleInfo`

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::prelude::*;

/// Most IDs that a list has room for.
const MAX_SIZE: usize = 1 << 20;
const SIZE: usize = 1024;

#[derive(Default)]
struct List {
    /// 0 if no element has set it.
    size: usize,
    ids: Vec<i32>,
}

/// Notes its turns.
#[derive(Default)]
pub(crate) struct SchedOrderTest {
    id: i32,
    size: usize,
    limit: u64,
    stop: bool,
    turns: u64,
    list: Rc<RefCell<List>>,
}

impl Class for SchedOrderTest {
    const INFO: ClassInfo = ClassInfo::new("SchedOrderTest", "0/0");
}

impl Element for SchedOrderTest {
    arguments! { this, given;
        mandatory "ID": i32 => this.id;
        keyword "SIZE": usize = 0, with |size| size.min(MAX_SIZE) => this.size;
        keyword "LIMIT": u64 = 0 => this.limit;
        keyword "STOP": bool = false => this.stop;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        // All elements use the list of the first one.
        for index in 0..context.index() {
            let other = context.element(index).map(|element| element as &mut dyn Any);
            if let Some(first) = other.and_then(<dyn Any>::downcast_mut::<SchedOrderTest>) {
                self.list = first.list.clone();
                break;
            }
        }
        let mut list = self.list.borrow_mut();
        list.size = list.size.max(self.size);
        context.add_task(1024);
        Ok(())
    }

    fn ready(&mut self, _: &mut Context<'_>) -> Option<bool> {
        Some(self.limit == 0 || self.turns < self.limit)
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if self.ready(context) != Some(true) {
            return false;
        }
        self.turns += 1;
        let mut list = self.list.borrow_mut();
        let size = if list.size == 0 { SIZE } else { list.size };
        if list.ids.len() < size {
            list.ids.push(self.id);
        } else if self.stop {
            context.stop();
        }
        true
    }

    handlers! { this, context, value;
        read "order" => {
            let list = this.list.borrow();
            let ids: Vec<String> = list.ids.iter().map(ToString::to_string).collect();
            ids.join(" ")
        };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::run;

    #[test]
    fn turns_are_listed() {
        let mut graph = Graph::default();
        graph.add("a", "SchedOrderTest", &["1", "SIZE 10", "STOP true"]);
        graph.add("b", "SchedOrderTest", &["2", "LIMIT 2"]);
        let mut router = run(graph);
        let order = router.read("b.order", "").unwrap();
        assert_eq!(order.split(' ').filter(|id| *id == "2").count(), 2, "{order}");
        assert_eq!(order.split(' ').count(), 10);
        assert!(router.is_stopped());
    }
}
