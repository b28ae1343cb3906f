//! The `Element` of all rewriters.

/// Implements `Element` for all rewriters. Rewriters with tables by protocol also get the handlers
/// of these tables.
macro_rules! rewriter_element {
    () => {
        $crate::rewriter::core::element::rewriter_element!(@common);

        europa_engine::handlers! { this, context, value;
            read "table" => this.0.lines(None, context.now_ns());
            read "lookup" [PARAMETER] => this.0.look_up(6, "lookup", value)?;
            read "mappings" [UNCOMMON] => this.0.lines(None, context.now_ns());
            read "table_size" => this.0.count();
            read "nmappings" [UNCOMMON] => this.0.count();
            read "mapping_failures" => this.0.failures.iter().sum::<u64>();
            read "patterns" => this.0.spec_lines();
            read "size" => this.0.table.borrow().len();
            both "capacity" => this.0.table.borrow().capacity, set {
                this.0.set_capacity(value, context.now_ns())?;
            };
            button "clear" => this.0.table.borrow_mut().shrink(0, context.now_ns());
            both "pattern0" => this.0.pattern(0)?, set this.0.set_pattern(0, value, context)?;
            both "pattern1" => this.0.pattern(1)?, set this.0.set_pattern(1, value, context)?;
            both "pattern2" => this.0.pattern(2)?, set this.0.set_pattern(2, value, context)?;
            both "pattern3" => this.0.pattern(3)?, set this.0.set_pattern(3, value, context)?;
        }
    };
    (by protocol) => {
        $crate::rewriter::core::element::rewriter_element!(@common);

        europa_engine::handlers! { this, context, value;
            read "table" => this.0.lines(None, context.now_ns());
            read "tcp_table" => this.0.lines(this.0.tcp(), context.now_ns());
            read "udp_table" => this.0.lines(Some(17), context.now_ns());
            read "tcp_lookup" [PARAMETER] => this.0.look_up(6, "tcp_lookup", value)?;
            read "udp_lookup" [PARAMETER] => this.0.look_up(17, "udp_lookup", value)?;
            read "lookup" [PARAMETER] => this.0.look_up(6, "lookup", value)?;
            read "tcp_mappings" [UNCOMMON] => this.0.lines(this.0.tcp(), context.now_ns());
            read "udp_mappings" [UNCOMMON] => this.0.lines(Some(17), context.now_ns());
            read "table_size" => this.0.count();
            read "nmappings" [UNCOMMON] => this.0.count();
            read "mapping_failures" => this.0.failures.iter().sum::<u64>();
            read "patterns" => this.0.spec_lines();
            read "size" => this.0.table.borrow().len();
            both "capacity" => this.0.table.borrow().capacity, set {
                this.0.set_capacity(value, context.now_ns())?;
            };
            button "clear" => this.0.table.borrow_mut().shrink(0, context.now_ns());
            both "pattern0" => this.0.pattern(0)?, set this.0.set_pattern(0, value, context)?;
            both "pattern1" => this.0.pattern(1)?, set this.0.set_pattern(1, value, context)?;
            both "pattern2" => this.0.pattern(2)?, set this.0.set_pattern(2, value, context)?;
            both "pattern3" => this.0.pattern(3)?, set this.0.set_pattern(3, value, context)?;
        }
    };
    (@common) => {
        europa_engine::arguments! { this, given;
            set $crate::rewriter::core::Rewriter => this.0;
        }

        fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
            self.0.initialize(context)
        }

        fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
            self.0.push(port, batch, context);
        }

        fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
            self.0.run_timer(context);
        }

        europa_engine::keep! { this, old; then { this.0.take_state(&mut old.0); } }
    };
}

pub(in crate::rewriter) use rewriter_element;
