//! Types of Europa's YAML, shared by the command line, the node and the schema.
