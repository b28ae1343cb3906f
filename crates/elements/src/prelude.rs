//! Imports that nearly every element uses.

pub(crate) use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Flags, HandlerError,
    InitContext, Notifies, Packet, Purpose, Share, Signal, arguments, handlers, keep, parse,
};
pub(crate) use europa_pool::packet::annotation;

pub(crate) use crate::shared::delegate::delegate;
