//! The JSON Schema that is written beside the configuration, so that editors know its keys without a network.

/// Its name; the first line of the configuration points to it.
pub const FILE: &str = ".snbb-schema.json";

/// Its text: `docs/schema/config.json`, which is made from the list of keys.
pub const TEXT: &str = include_str!("../../../docs/schema/config.json");
