/** A value that JSON can carry. What leaves a tool is one of these, whatever the tool returned. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}
