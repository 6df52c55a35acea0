//! Schemas of arguments, and what cannot be read.

use super::*;
use serde_json::json;

const SHOP: &str = include_str!("../../../tests/it/shop.yaml");

fn read(text: &str, ids: &[&str]) -> Result<Vec<Operation>, Vec<String>> {
    let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
    let of = OperationFile { file: "api.yaml", text };
    read_operations(&of, &ids).map_err(|problems| {
        let text = |of| match of {
            OperationProblems::Unknown { position, known } => {
                vec![format!("{position}: {known:?}")]
            }
            OperationProblems::InFile(all) => all.iter().map(ToString::to_string).collect(),
        };
        problems.into_iter().flat_map(text).collect()
    })
}

fn arguments(text: &str, id: &str) -> Value {
    read(text, &[id]).expect("sound")[0].arguments.clone()
}

#[test]
fn parameters_and_bodies_become_one_schema() {
    assert_eq!(
        arguments(SHOP, "getOrder"),
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "minLength": 1, "description": "Number of the order"},
                "query_id": {"type": "integer"},
                "X-Trace": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "filter": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["id"],
            "additionalProperties": false,
        })
    );
    // What only the server sets is left out, also where it is required.
    assert_eq!(
        arguments(SHOP, "create-order"),
        json!({
            "type": "object",
            "properties": {"body": {
                "type": "object",
                "required": ["item"],
                "properties": {
                    "item": {"type": "string"},
                    "count": {"type": "integer", "exclusiveMinimum": 0},
                    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "parts": {"type": "array", "items": {}},
                },
            }},
            "required": ["body"],
            "additionalProperties": false,
        })
    );
    let operation = &read(SHOP, &["create-order"]).expect("sound")[0];
    assert_eq!(operation.description, "Creates an order\nIt is paid later.");
    assert_eq!(operation_tool("my-shop", "create-order"), "api/my-shop/create_order");
    assert_eq!(operation_tool("shop", "getOrderByID2"), "api/shop/get_order_by_id2");
}

/// Schemas that contain themselves, or grow with each reference.
#[test]
fn references_are_bounded() {
    let file = |schemas: &str, body: &str| {
        format!(
            "openapi: 3.1.0\npaths:\n  /x:\n    post:\n      operationId: x\n      requestBody: {{required: true, content: {{application/json: {{schema: {body}}}}}}}\ncomponents:\n  schemas:\n{schemas}"
        )
    };
    let body = "{$ref: '#/components/schemas/A'}";
    // A reaches itself by B, beside a second reference to B that is no circle.
    let circle = file(
        "    A: {type: object, properties: {b: {$ref: '#/components/schemas/B'}, c: {$ref: '#/components/schemas/B'}}}\n    B: {type: object, properties: {a: {$ref: '#/components/schemas/A'}, d: {type: string}}}\n",
        body,
    );
    let b = json!({"type": "object", "properties": {"a": {}, "d": {"type": "string"}}});
    assert_eq!(
        arguments(&circle, "x")["properties"]["body"],
        json!({"type": "object", "properties": {"b": b, "c": b}})
    );
    // Only by references, and by `allOf`.
    for schemas in [
        "    A: {$ref: '#/components/schemas/B'}\n    B: {$ref: '#/components/schemas/A'}\n",
        "    A: {allOf: [{$ref: '#/components/schemas/A'}]}\n",
    ] {
        assert!(read(&file(schemas, body), &["x"]).is_ok(), "{schemas}");
    }
    // Each schema has the next one ten times.
    let mut bomb = String::new();
    for level in 0..12 {
        let next = format!("{{$ref: '#/components/schemas/L{}'}}", level + 1);
        let ten = vec![next; 10].join(", ");
        bomb += &format!("    L{level}: {{anyOf: [{ten}]}}\n");
    }
    bomb += "    L12: {type: string}\n";
    let problems = read(&file(&bomb, "{$ref: '#/components/schemas/L0'}"), &["x"]).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("W1002") && problems[0].contains("131072 bytes"), "{problems:?}");
    // References in a row.
    let mut row = String::new();
    for level in 0..40 {
        row +=
            &format!("    L{level}: {{items: {{$ref: '#/components/schemas/L{}'}}}}\n", level + 1);
    }
    row += "    L40: {type: string}\n";
    let problems = read(&file(&row, "{$ref: '#/components/schemas/L0'}"), &["x"]).unwrap_err();
    assert!(problems[0].contains("at most 16 references within one another"), "{problems:?}");
}

#[test]
fn an_unknown_operation_has_those_that_are_known() {
    let problems = read(SHOP, &["getOrdr"]).unwrap_err();
    assert_eq!(problems, [r#"0: ["getOrder", "cancelOrder", "listOrders", "create-order"]"#]);
}
