//! The JSON Schema that is written beside the configuration, so that editors know its keys without a network.

/// Its name; the first line of the configuration points to it.
pub const FILE: &str = ".snbb-schema.json";

/// Its text. Replaced by the whole schema once `docs/schema/config.json` is there.
pub const TEXT: &str = "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \
    \"title\": \"Configuration of snbb-scheduler\",\n  \"type\": \"object\"\n}\n";
