-- name: decompose/parse
-- question: what is the shape of an expression a user typed?
-- input: none
-- output: one row: the syntax tree as JSON
-- parameters: text
SELECT json_serialize_sql($text::VARCHAR)
