//! Elements that wrap another one under a new name.

/// Implements `Element` by that of the first field: all of it, or all but `push` or `notifies`.
/// Another form takes only the arguments or the handlers, of any field.
macro_rules! delegate {
    (arguments $field:tt) => {
        fn arguments(&self) -> &'static [europa_engine::Argument] {
            self.$field.arguments()
        }

        fn configure(
            &mut self,
            arguments: &mut europa_engine::Arguments<'_>,
        ) -> Result<(), europa_engine::ConfigError> {
            self.$field.configure(arguments)
        }
    };
    (handlers $field:tt) => {
        $crate::shared::delegate::delegate!(reading $field);

        fn write(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut europa_engine::Context<'_>,
        ) -> Result<(), europa_engine::HandlerError> {
            self.$field.write(handler, value, context)
        }
    };
    (reading $field:tt) => {
        fn handlers(&self) -> &'static [europa_engine::Handler] {
            self.$field.handlers()
        }

        fn read(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut europa_engine::Context<'_>,
        ) -> Result<String, europa_engine::HandlerError> {
            self.$field.read(handler, value, context)
        }
    };
    () => {
        fn push(&mut self, port: usize, batch: &mut europa_engine::Batch, context: &mut europa_engine::Context<'_>) {
            self.0.push(port, batch, context);
        }

        $crate::shared::delegate::delegate!(but push);
    };
    (but notifies) => {
        fn push(&mut self, port: usize, batch: &mut europa_engine::Batch, context: &mut europa_engine::Context<'_>) {
            self.0.push(port, batch, context);
        }

        $crate::shared::delegate::delegate!(but push and notifies);
    };
    (but push) => {
        fn notifies(&self) -> europa_engine::Notifies {
            self.0.notifies()
        }

        $crate::shared::delegate::delegate!(but push and notifies);
    };
    (but push and notifies) => {
        $crate::shared::delegate::delegate!(arguments 0);

        fn initialize(&mut self, context: &mut europa_engine::InitContext<'_>) -> Result<(), europa_engine::ConfigError> {
            self.0.initialize(context)
        }

        fn pull(&mut self, port: usize, max: usize, batch: &mut europa_engine::Batch, context: &mut europa_engine::Context<'_>) {
            self.0.pull(port, max, batch, context);
        }

        fn run_task(&mut self, context: &mut europa_engine::Context<'_>) -> bool {
            self.0.run_task(context)
        }

        fn run_timer(&mut self, timer: u32, context: &mut europa_engine::Context<'_>) {
            self.0.run_timer(timer, context);
        }

        $crate::shared::delegate::delegate!(handlers 0);

        fn reconfigure(
            &mut self,
            arguments: &mut europa_engine::Arguments<'_>,
            context: &mut europa_engine::Context<'_>,
        ) -> Option<Result<(), europa_engine::ConfigError>> {
            self.0.reconfigure(arguments, context)
        }

        fn has_packets(&mut self, port: usize, context: &mut europa_engine::Context<'_>) -> bool {
            self.0.has_packets(port, context)
        }

        fn has_room(&mut self, port: usize, context: &mut europa_engine::Context<'_>) -> bool {
            self.0.has_room(port, context)
        }

        fn ready(&mut self, context: &mut europa_engine::Context<'_>) -> Option<bool> {
            self.0.ready(context)
        }

        fn held(&self) -> Option<usize> {
            self.0.held()
        }

        europa_engine::keep! { this, old; then { this.0.take_state(&mut old.0); } }

        fn resume(&mut self, context: &mut europa_engine::Context<'_>) {
            self.0.resume(context);
        }
    };
}

pub(crate) use delegate;
