//! Elements that wrap another one under a new name.

/// Writes an `Element` that delegates to its first field: everything, or all except `push` or
/// `notifies`; or delegates only reading of handlers to any field.
macro_rules! delegate {
    (reading $field:tt) => {
        fn handlers(&self) -> &'static [Handler] {
            self.$field.handlers()
        }

        fn read(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut Context<'_>,
        ) -> Result<String, HandlerError> {
            self.$field.read(handler, value, context)
        }
    };
    () => {
        fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
            self.0.push(port, batch, context);
        }

        $crate::shared::delegate::delegate!(but push);
    };
    (but notifies) => {
        fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
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
        fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
            self.0.configure(arguments)
        }

        fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
            self.0.initialize(context)
        }

        fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
            self.0.pull(port, max, batch, context);
        }

        fn run_task(&mut self, context: &mut Context<'_>) -> bool {
            self.0.run_task(context)
        }

        fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
            self.0.run_timer(timer, context);
        }

        $crate::shared::delegate::delegate!(reading 0);

        fn write(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut Context<'_>,
        ) -> Result<(), HandlerError> {
            self.0.write(handler, value, context)
        }

        fn reconfigure(
            &mut self,
            arguments: &mut Arguments<'_>,
            context: &mut Context<'_>,
        ) -> Option<Result<(), ConfigError>> {
            self.0.reconfigure(arguments, context)
        }

        fn has_packets(&mut self, port: usize, context: &mut Context<'_>) -> bool {
            self.0.has_packets(port, context)
        }

        fn has_room(&mut self, port: usize, context: &mut Context<'_>) -> bool {
            self.0.has_room(port, context)
        }

        fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
            self.0.ready(context)
        }

        fn held(&self) -> Option<usize> {
            self.0.held()
        }

        fn take_state(&mut self, old: &mut dyn Element) {
            if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Self>() {
                self.0.take_state(&mut old.0);
            }
        }

        fn resume(&mut self, context: &mut Context<'_>) {
            self.0.resume(context);
        }
    };
}

pub(crate) use delegate;
