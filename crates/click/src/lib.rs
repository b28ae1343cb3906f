//! The Click language: lexer, parser, flattener and checked graph.
