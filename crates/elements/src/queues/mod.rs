//! Queues.

pub(crate) mod front_drop_queue;
pub(crate) mod full_note_queue;
pub(crate) mod mixed_queue;
pub(crate) mod ms_queue;
pub(crate) mod notifier_queue;
pub(crate) mod quick_note_queue;
pub(crate) mod simple_queue;
pub(crate) mod thread_safe_queue;

/// Writes the `Element` of a queue that is `Queue` under another name.
macro_rules! queue_element {
    () => {
        fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
            self.0.configure(arguments)
        }

        fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
            self.0.push(port, batch, context);
        }

        $crate::queues::queue_element!(@rest);
    };
    (@rest) => {
        fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
            self.0.pull(port, max, batch, context);
        }

        fn handlers(&self) -> &'static [Handler] {
            self.0.handlers()
        }

        fn read(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut Context<'_>,
        ) -> Result<String, HandlerError> {
            self.0.read(handler, value, context)
        }

        fn write(
            &mut self,
            handler: &str,
            value: &str,
            context: &mut Context<'_>,
        ) -> Result<(), HandlerError> {
            self.0.write(handler, value, context)
        }

        fn take_state(&mut self, old: &mut dyn Element) {
            if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Self>() {
                self.0.take_state(&mut old.0);
            }
        }
    };
}

use queue_element;
